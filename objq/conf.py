"""The settings of the project: which backends of `TASKS` are objq's, and their options.

Settings are read when somebody asks, never at import, and nothing here does I/O.
"""

from __future__ import annotations

from typing import Final

from objq.errors import ConfigurationError
from objq.optionrules import did_you_mean, parse
from objq.options import Options

BACKEND: Final = "objq.backend.ObjqBackend"


def options_for(alias: str = "default") -> Options:
    """Return the options of `TASKS[alias]`; raise ConfigurationError if absent or wrong."""
    from django.conf import settings

    tasks = getattr(settings, "TASKS", {})
    if alias not in tasks:
        raise ConfigurationError(f'TASKS has no "{alias}". {did_you_mean(alias, tasks)}')
    return parse(tasks[alias].get("OPTIONS", {}), alias=alias)


def backend_aliases() -> tuple[str, ...]:
    """Return the aliases in `TASKS` that objq serves, also through a subclass of its backend."""
    from django.conf import settings

    tasks = getattr(settings, "TASKS", {})
    return tuple(alias for alias, params in tasks.items() if _is_ours(params.get("BACKEND", "")))


def _is_ours(path: str) -> bool:
    if path == BACKEND:
        return True
    from django.utils.module_loading import import_string

    try:
        cls = import_string(path)
    except ImportError:
        return False
    # By name, since this module is below the backend and must not import it.
    return any(f"{base.__module__}.{base.__qualname__}" == BACKEND for base in cls.__mro__)
