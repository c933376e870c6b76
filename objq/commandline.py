"""What to type, as messages and the dashboard tell it."""

from __future__ import annotations

import shlex


def command(alias: str, name: str, *arguments: str) -> str:
    """Return what to type to run a management command for a backend."""
    backend = [] if alias == "default" else ["--backend", alias]
    return shlex.join(["python", "manage.py", name, *backend, *arguments])
