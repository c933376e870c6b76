"""The slots of a worker: starts jobs in them, under the start rule of `holdings`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from objq.clock import Clock
from objq.worker.holdings import Held, Holdings, Stage
from objq.worker.logs import log_thread_freed, log_thread_kept
from objq.worker.seam import Executor, Outcome


class Slots:
    """`free` excludes slots whose job was reported as timed out and still keeps its thread.

    `ended(held, outcome)` is called once for each job; `freed()` when its slot can be used again.
    """

    def __init__(
        self,
        count: int,
        executor: Executor,
        holdings: Holdings,
        clock: Clock,
        *,
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        ended: Callable[[Held, Outcome], None],
        freed: Callable[[], None],
    ) -> None:
        self.free = count
        self._count = count
        self._executor = executor
        self._holdings = holdings
        self._clock = clock
        self._spawn = spawn
        self._ended = ended
        self._freed = freed

    def start(self, now: float, window_s: float) -> None:
        """Start what may start now."""
        while self.free > 0 and (held := self._holdings.startable(now, window_s)) is not None:
            held.stage = Stage.RUNNING
            held.started_at = now
            self.free -= 1
            self._spawn(self._run(held))

    async def _run(self, held: Held) -> None:
        outcome = await self._executor.run(held.grant, held.control)
        self._ended(held, outcome)
        if outcome.lingering is not None:
            log_thread_kept(held.grant, self.free, self._count)
            await outcome.lingering
            log_thread_freed(held.grant, self._clock.monotonic() - held.started_at)
        self.free += 1
        self._freed()
