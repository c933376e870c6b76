"""`python -m project.demo`: the whole of it at work on this machine, on real input."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent.parent
"""The folder of manage.py."""


class DemoError(Exception):
    """The demo did not work; the message says why, for people."""
