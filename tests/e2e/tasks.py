"""What the workers of the end-to-end tests run: each run leaves a line, so none goes unseen."""

from __future__ import annotations

import os
import time
from pathlib import Path

from objq import task


@task
def record(number: int) -> int:
    """Append the number to the ledger, in one write, and return its double."""
    descriptor = os.open(os.environ["OBJQ_TEST_LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, f"{number}\n".encode())
    finally:
        os.close(descriptor)
    return number * 2


@task
def stall(number: int) -> int:
    """Append the number to the ledger, and hang if this is its first run."""
    record.func(number)
    if Path(os.environ["OBJQ_TEST_LEDGER"]).read_text().split().count(str(number)) == 1:
        time.sleep(600)  # the worker is killed meanwhile
    return number
