"""An event loop whose time passes only while nothing is left to do, so that no test waits."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

R = TypeVar("R")


class _Selector(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("everybody waits and no timer runs: deadlock")
        self.now += max(timeout, 0.0)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now

    def jump(self, seconds: float) -> None:
        """Let time pass unnoticed, as when the process is stopped."""
        self._virtual.now += seconds


class LoopClock:
    """The clock that belongs to the running loop."""

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + int(self.monotonic() * 1000)


def simulate(scenario: Coroutine[Any, Any, R]) -> R:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(scenario)
