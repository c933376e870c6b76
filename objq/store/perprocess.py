"""SDK clients hold sockets, and a socket shared with a forked child answers the wrong process."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class PerProcess(Generic[T]):
    """Builds a value when it is first asked for, and anew in a forked child.

    No lock: one that another thread held during the fork would stay locked in the child forever.
    Two threads that ask at once may both build; one of the values is dropped, which is harmless.
    """

    def __init__(self, build: Callable[[], T]) -> None:
        self._build = build
        self._built: tuple[int, T] | None = None

    def get(self) -> T:
        built = self._built
        if built is None or built[0] != os.getpid():
            built = self._built = (os.getpid(), self._build())
        return built[1]

    def built(self) -> T | None:
        """Return the value of this process if there is one; never builds."""
        built = self._built
        return built[1] if built is not None and built[0] == os.getpid() else None
