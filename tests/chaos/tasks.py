"""What the workers run: each run leaves a line when it begins and one when it ends."""

from __future__ import annotations

import asyncio
import os
import time

from objq import task
from tests.chaos.notes import RUNS, note


@task
def work(number: int, seconds: float) -> int:
    """Take so many seconds in a thread."""
    note(RUNS, "began", number, os.getpid())
    time.sleep(seconds)
    note(RUNS, "ended", number, os.getpid())
    return number


@task
async def awork(number: int, seconds: float) -> int:
    """Take so many seconds on the worker's loop."""
    note(RUNS, "began", number, os.getpid())
    await asyncio.sleep(seconds)
    note(RUNS, "ended", number, os.getpid())
    return number
