"""Tasks whose positional arguments have names."""

from __future__ import annotations

from typing import Any

from objq import task
from objq.compat import TaskContext


@task
def charge(order: int, api_key: str, *tokens: str, note: str = "") -> None: ...


@task(takes_context=True)
def with_context(context: TaskContext[..., None], password: str) -> None: ...


def not_a_task(password: str) -> None: ...


class _Trap:
    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was looked at.")


trap = _Trap()
