"""SDK clients hold sockets, and a socket shared with a forked child answers the wrong process."""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import Lock
from typing import Any, Final, Generic, TypeVar
from weakref import WeakSet

T = TypeVar("T")


class PerProcess(Generic[T]):
    """Builds a value when it is first asked for, and anew in a forked child."""

    def __init__(self, build: Callable[[], T]) -> None:
        self._build = build
        self._lock = Lock()
        self._value: T | None = None
        _all.add(self)

    def get(self) -> T:
        """Return this process's value. Other threads that ask meanwhile wait for the same one."""
        with self._lock:
            if self._value is None:
                self._value = self._build()
            return self._value

    def built(self) -> T | None:
        """Return the value if there is one; never builds."""
        return self._value

    def forget(self) -> None:
        """Start anew, in a forked child."""
        # With a new lock: a thread that does not exist in the child may have held the old one.
        self._lock = Lock()
        self._value = None


_all: Final[WeakSet[PerProcess[Any]]] = WeakSet()


def _forget_all() -> None:
    for each in list(_all):
        each.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
