"""What a command that goes on shows people: log lines on stderr, and lines of its own on stdout.

None of it is worth the end of a process that works: a disk for logs gets full, and readers go away.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from django.core.management.base import OutputWrapper

logger = logging.getLogger("objq")

LEVELS: Final = {0: logging.WARNING, 1: logging.INFO}
"""By verbosity."""

LINES: Final = logging.Formatter("%(asctime)s %(levelname)s %(message)s")


def log_to_stderr(verbosity: int) -> None:
    """Show objq's log lines, unless the project's LOGGING already sends them somewhere."""
    if logger.hasHandlers():
        return
    handler = logging.StreamHandler()
    handler.setFormatter(LINES)
    logger.addHandler(handler)
    logger.setLevel(LEVELS.get(verbosity, logging.DEBUG))


def say(stdout: OutputWrapper, line: str) -> None:
    """Print a line in the form of the log's lines, at once, also where that is a file.

    `stdout` is a command's. What cannot be printed is logged instead.
    """
    try:
        stdout.write(LINES.format(logging.makeLogRecord({"msg": line, "levelname": "INFO"})))
        stdout.flush()
    except (OSError, ValueError) as error:  # ValueError: it was closed
        logger.warning("%s (not printed: %s)", line, error, extra={"event": "not_printed"})
        if isinstance(error, BrokenPipeError):
            _print_nowhere()


@contextmanager
def while_somebody_reads() -> Iterator[None]:
    """End what is done inside, quietly, when nobody reads the process's stdout any more."""
    try:
        yield
    except BrokenPipeError:
        _print_nowhere()


def _print_nowhere() -> None:
    """Drop what is still to be printed: the interpreter would complain of it at the end."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
