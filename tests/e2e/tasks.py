"""What the workers of the end-to-end tests run: each run leaves a line, so none goes unseen."""

from __future__ import annotations

import os

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
