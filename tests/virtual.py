"""An event loop whose time passes only when nothing else can happen, and a clock that follows it.

Half a minute of silence costs a test nothing, and the same test always takes the same course.
"""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

R = TypeVar("R")

LONGEST_S: Final = 86_400.0
"""Of virtual time, that one test may take."""


class Stuck(AssertionError):
    """Everything waits for something that no timer will bring."""


class _Jump(selectors.DefaultSelector):
    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if ready:
            return ready
        if timeout is None:
            raise Stuck("nothing is scheduled, and the test still waits")
        self.loop.now += max(0.0, timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.now = 1_000.0
        selector = _Jump()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.now

    def jump(self, seconds: float) -> None:
        """Let time pass unnoticed, as when the process is stopped."""
        self.now += seconds


class VirtualClock:
    """Follows the running loop. `jump_s` is a pause: the process saw nothing of that time."""

    def __init__(self) -> None:
        self.jump_s = 0.0
        self.wall_step_ms = 0

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time() + self.jump_s

    def wall_ms(self) -> int:
        return 1_764_000_000_000 + int(self.monotonic() * 1000) + self.wall_step_ms


def simulate(scenario: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine on a loop of its own with virtual time, at most a day of it."""

    async def bounded() -> R:
        async with asyncio.timeout(LONGEST_S):
            return await scenario

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(bounded())


def virtual(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make an async test one that `simulate` runs."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        simulate(test(*args, **kwargs))

    return run
