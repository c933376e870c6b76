"""Tasks that the tests of this folder enqueue."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group

import objq
from objq.compat import DummyBackend, TaskResult

STOCK_DUMMY = f"{DummyBackend.__module__}.DummyBackend"


def wait_longer(exception: BaseException, task_result: TaskResult[..., Any]) -> float | None:
    return 2.0 * task_result.attempts


@objq.task
def add(a: int, b: int = 0) -> int:
    return a + b


@objq.task(max_attempts=7, backoff=wait_longer, timeout=1.5, queue_name="mail", priority=5)
def send(address: str) -> None:
    pass


@objq.task(takes_context=True)
def with_context(context: Any, name: str) -> Any:
    return {"name": name, "attempt": context.attempt, "id": context.task_result.id}


@objq.task
async def add_later(a: int, b: int) -> int:
    return a + b


@objq.task(max_attempts=2, backoff=wait_longer)
def fail(text: str) -> None:
    raise ValueError(text)


@objq.task
def give(value: Any) -> Any:
    return value


def not_a_task() -> None:
    pass


@objq.task
def opaque() -> Any:
    return object()


@objq.task
def make_group(name: str) -> int:
    Group.objects.create(name=name)
    return Group.objects.count()


@objq.task
async def make_group_later(name: str) -> int:
    await Group.objects.acreate(name=name)
    return await Group.objects.acount()
