"""Tasks that the tests of this folder run, and things that are not tasks."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from typing import Any

from django.utils import translation

import objq

notes: list[Any] = []
"""What tasks did; emptied before each test."""

hold = threading.Event()
"""Set at the end of each test; what blocks, blocks on this."""

entered = threading.Event()


def not_a_task() -> None:
    notes.append("ran what is not a task")


class LooksLikeATask:
    takes_context = False

    @staticmethod
    def func() -> None:
        notes.append("ran what is not a task")


fake_task = LooksLikeATask()


@objq.task
def add(a: int, b: int = 0) -> int:
    return a + b


@objq.task
def swallow_nothing(text: str) -> None:
    notes.append(text)
    raise ValueError(text)


@objq.task
async def add_later(a: int, b: int) -> int:
    await asyncio.sleep(0)
    return a + b


@objq.task(takes_context=True)
def with_context(context: Any, text: str) -> Any:
    result = context.task_result
    notes.append((result.status, result.worker_ids))
    return [text, context.attempt, result.id, context.cancel_requested, context.claim_lost]


@objq.task(takes_context=True)
async def with_context_later(context: Any) -> int:
    attempt: int = context.attempt
    return attempt


def inner() -> None:
    raise ValueError("no such order")


@objq.task
def fail() -> None:
    inner()


@objq.task
async def fail_later() -> None:
    raise ValueError("no such order")


RAISED: dict[str, Callable[[], BaseException]] = {
    "SystemExit": lambda: SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt,
    "CancelledError": asyncio.CancelledError,
    "GeneratorExit": GeneratorExit,
    "Surrogate": lambda: ValueError("half \ud800 pair"),
    "Unprintable": lambda: Unprintable(),
    "OddText": lambda: OddText(),
    "OddType": lambda: OddType(),
    "OddClass": lambda: OddClass(),
    "OddContext": lambda: with_odd_context(),
    "StopIteration": StopIteration,
    "Long": lambda: ValueError("x" * 1_000_000),
}


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ZeroDivisionError


class OddText(Exception):
    def __str__(self) -> str:
        raise SystemExit


class Odd(type):
    def __getattribute__(cls, name: str) -> Any:
        if name in ("__module__", "__name__", "__qualname__"):
            raise KeyboardInterrupt
        return super().__getattribute__(name)


class OddType(Exception, metaclass=Odd):
    pass


class OddClass(Exception):
    def __getattribute__(self, name: str) -> Any:
        if name == "__class__":
            raise SystemExit
        return super().__getattribute__(name)


def with_odd_context() -> BaseException:
    error = ValueError("no such order")
    error.__context__ = OddType()
    return error


@objq.task
def raise_this(name: str) -> None:
    error = RAISED[name]()
    raise error


@objq.task
async def raise_this_later(name: str) -> None:
    error = RAISED[name]()
    raise error


@objq.task
async def leave_a_stray_exit() -> str:
    async def stray() -> None:
        sys.exit(1)

    notes.append(asyncio.ensure_future(stray()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return "done"


@objq.task
def give(what: str) -> Any:
    return {
        "bytes": {"picture": [b"\x89PNG"]},
        "nan": float("nan"),
        "tuple": (1, 2),
        "set": {1},
        "coroutine function": add_later,
    }[what]


@objq.task
def change_arguments(values: list[int]) -> int:
    values.append(4)
    return len(values)


@objq.task
def speak(language: str) -> str:
    before = translation.get_language()
    translation.activate(language)
    return before


def wait(exception: BaseException, task_result: Any) -> float | None:
    notes.append(("backoff", type(exception).__name__, task_result.attempts))
    return 7.5


def give_up(exception: BaseException, task_result: Any) -> None:
    return None


def broken_backoff(exception: BaseException, task_result: Any) -> float:
    raise ZeroDivisionError


def odd_backoff(exception: BaseException, task_result: Any) -> float:
    return float("nan")


def negative_backoff(exception: BaseException, task_result: Any) -> float:
    return -1.0


@objq.task(backoff=wait)
def fail_and_wait() -> None:
    raise ValueError("again")


@objq.task(backoff=give_up)
def fail_for_good() -> None:
    raise ValueError("never again")


@objq.task(backoff=broken_backoff)
def fail_with_a_broken_backoff() -> None:
    raise ValueError("again")


@objq.task(backoff=odd_backoff)
def fail_with_an_odd_backoff() -> None:
    raise ValueError("again")


@objq.task(backoff=negative_backoff)
def fail_with_a_negative_backoff() -> None:
    raise ValueError("again")


@objq.task(timeout=0.05, backoff=wait)
def block() -> str:
    entered.set()
    hold.wait(60)
    return "too late"


@objq.task(takes_context=True)
def block_without_limit(context: Any) -> str:
    entered.set()
    hold.wait(60)
    if context.cancel_requested:
        raise RuntimeError("stopped as asked")
    return "done"


@objq.task(timeout=0.5)
async def sleep_for_ever() -> None:
    try:
        await asyncio.Event().wait()
    finally:
        notes.append("cleaned up")


@objq.task(timeout=0.05)
async def swallow_the_timeout() -> str:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return "still here"
    return "never"


@objq.task
async def sleep_without_limit() -> None:
    entered.set()
    try:
        await asyncio.Event().wait()
    finally:
        notes.append("cleaned up")


@objq.task(timeout=60)
def in_time() -> str:
    return "in time"


@objq.task
def block_the_loop_of_nobody() -> str:
    return threading.current_thread().name
