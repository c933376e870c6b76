"""Pauses between attempts: doubling, jittered, bounded, and never shorter than was asked for."""

from __future__ import annotations

import asyncio
from typing import Final

from objq.ids import Ids

FIRST_S: Final = 0.1
LONGEST_S: Final = 2.0


class Backoff:
    """A client has one for its link, so that all who wait for the broker are patient together; a
    worker has one for each request that it repeats."""

    def __init__(self, ids: Ids, first_s: float = FIRST_S, longest_s: float = LONGEST_S) -> None:
        self._ids = ids
        self._first_s = first_s
        self._longest_s = longest_s
        self._next_s = 0.0

    def failed(self) -> None:
        self._next_s = min(max(self._next_s * 2, self._first_s), self._longest_s)

    def succeeded(self) -> None:
        self._next_s = 0.0

    async def pause(self) -> None:
        """Wait; not at all if nothing has failed since the last success."""
        if self._next_s:
            await asyncio.sleep(self._ids.jitter(self._next_s))

    async def after_failure(self, at_least_s: float | None = None) -> None:
        """Note a failure and wait, at least so many seconds."""
        self.failed()
        await asyncio.sleep(max(self._ids.jitter(self._next_s), at_least_s or 0.0))
