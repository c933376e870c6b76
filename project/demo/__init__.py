"""`python -m project.demo`: the whole of it at work on this machine, on real input."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent.parent
"""The folder of manage.py."""


class DemoError(Exception):
    """The demo did not work; the message says why, for people."""


class Stop(BaseException):
    """Ctrl-C or SIGTERM came.

    Not a KeyboardInterrupt: of that CPython notes that one passed through code compiled from a
    string, such as a dataclass's at import, and then ends the process by SIGINT although it was
    caught.
    """
