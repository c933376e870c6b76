"""Files to which many processes append, a line for each write, so that a kill -9 loses no line."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

PUSHES = "OBJQ_TEST_PUSHES"
"""Environment variable with the path of the file in which pushers note what they were told."""

RUNS = "OBJQ_TEST_LEDGER"
"""The same for workers and their runs; `tests.e2e.stack.Stack` sets it."""


def note(variable: str, *words: object) -> None:
    """Append a line of words, and the monotonic time (seconds), which all processes share."""
    line = " ".join(map(str, (*words, f"{time.monotonic():.4f}"))) + "\n"
    descriptor = os.open(os.environ[variable], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def read_notes(path: Path, offset: int = 0) -> Iterator[tuple[list[str], float]]:
    """Yield the words and the time of every line from an offset (the size at a time), in order."""
    if not path.exists():
        return
    with path.open() as file:
        file.seek(offset)
        for line in file:
            if line.endswith("\n"):
                *words, at = line.split()
                yield words, float(at)
