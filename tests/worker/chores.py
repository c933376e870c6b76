"""Tasks for the tests with real processes."""

from __future__ import annotations

import os
import signal
from typing import Any

import objq
from tests.worker.meeting import meet


@objq.task(takes_context=True)
def wait_for_word(context: Any, port: int, name: str) -> str:
    meet(port, name=name, pid=os.getpid(), attempt=context.attempt)
    return f"{name} done"


@objq.task(takes_context=True)
async def block_the_task_loop(context: Any, port: int, name: str) -> str:
    meet(port, name=name, pid=os.getpid(), attempt=context.attempt)
    return f"{name} done"


@objq.task
def note(number: int) -> int:
    return number


@objq.task
def give_much(size: int) -> str:
    return "x" * size


@objq.task(max_attempts=2)
def kill_the_worker() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
