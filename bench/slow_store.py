"""A store in memory whose writes take a given time: what a broker sees of a distant bucket."""

from __future__ import annotations

import asyncio
from itertools import count

from objq.core.codec import HEAD_BYTES
from objq.store.base import (
    ABSENT,
    NOT_MODIFIED,
    Conflict,
    Content,
    Expect,
    Sentinel,
    Tag,
)


class SlowStore:
    """An `AsyncStore`. `latency_s`: of one write. Counts writes, and how many were in flight."""

    name = "memory (slow)"
    pace_s = 0.0

    def __init__(self, latency_s: float) -> None:
        self.latency_s = latency_s
        self.writes = 0
        self.in_flight = 0
        self.max_in_flight = 0
        self._content: Content | None = None
        self._tags = count(1)

    async def read(self, unless: Tag | None = None) -> Content | Sentinel | None:
        if self._content is not None and self._content.tag == unless:
            return NOT_MODIFIED
        return self._content

    async def read_head(self) -> Content | None:
        if self._content is None:
            return None
        return Content(self._content.data[:HEAD_BYTES], self._content.tag)

    async def write(self, data: bytes, expect: Expect) -> Tag:
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        await asyncio.sleep(self.latency_s)
        self.in_flight -= 1
        if expect != (ABSENT if self._content is None else self._content.tag):
            raise Conflict("the object is not what was expected")
        self.writes += 1
        self._content = Content(data, Tag(str(next(self._tags))))
        return self._content.tag
