"""Tasks for the tests with real processes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
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


@objq.task
def say(text: str) -> None:
    print(text, file=sys.stdout)


@objq.task
def spoil_the_streams(how: str) -> None:
    if how == "closed":
        sys.stdout.close()
        sys.stderr.close()
    else:
        sys.stdout = sys.stderr = {"none": None, "junk": object()}[how]


@objq.task
def leave_a_thread() -> None:
    threading.Thread(target=threading.Event().wait, name="left behind").start()


@objq.task
def fork_and(end: str) -> int:
    child = os.fork()
    return _end(end) if child == 0 else _status_of(child)


@objq.task
async def fork_later_and(end: str) -> int:
    child = os.fork()
    if child == 0 and end == "wait":
        await asyncio.sleep(0)  # which, unlike any other wait, asks for no running loop
    return _end(end) if child == 0 else _status_of(child)


def _end(end: str) -> int:
    if end == "exit":
        sys.exit(5)
    if end == "raise":
        raise ValueError(end)
    return 7


def _status_of(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
