"""An object store in memory that misbehaves on request.

`plan` is a list of what the next writes meet, in order: a `Meets`, or an exception to raise before
anything is applied. After the plan, writes succeed. `hold()` keeps writes from being applied until
`release()`; `written` is set at every write that was applied.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum

from objq.store.base import (
    ABSENT,
    NOT_MODIFIED,
    Ambiguous,
    Conflict,
    Content,
    Expect,
    Sentinel,
    StoreError,
    Tag,
)


class Meets(Enum):
    LOST_REPLY = "applied, then the reply is lost"
    LATE = "given up on, and applied later by `land`"


class FakeStore:
    """`latency_s`: how long a write takes. `down`: what every access raises, or None."""

    name = "fake://queue.json"

    def __init__(self, *, latency_s: float = 0.0, pace_s: float = 0.0) -> None:
        self.pace_s = pace_s
        self.latency_s = latency_s
        self.data: bytes | None = None
        self.tag = Tag("none")
        self.history: list[bytes] = []
        self.times: list[float] = []
        self.attempts: list[tuple[bytes, Expect]] = []
        self.plan: list[Meets | StoreError] = []
        self.down: StoreError | None = None
        self.stale: list[Content | None] = []
        self.before_write: Callable[[], None] = lambda: None
        self.limit_bytes: int | None = None
        self.too_large: StoreError | None = None
        self.reads = 0
        self.in_flight = 0
        self.max_in_flight = 0
        self.attempted = asyncio.Event()
        self.written = asyncio.Event()
        self._open = asyncio.Event()
        self._open.set()
        self._late: list[tuple[bytes, Expect]] = []

    # --- what tests do ---------------------------------------------------------------------------

    def hold(self) -> None:
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    def put(self, data: bytes) -> None:
        """Write as somebody else does."""
        self._apply(data)

    def delete(self) -> None:
        self.data = None
        self.tag = Tag("none")

    def land(self) -> list[bool]:
        """Let the writes that were given up on arrive now; return which were applied."""
        late, self._late = self._late, []
        return [self._apply_if(data, expect) for data, expect in late]

    async def next_write(self) -> None:
        """Wait until a write is applied."""
        self.written.clear()
        await self.written.wait()

    async def next_attempt(self) -> None:
        """Wait until a write is attempted."""
        self.attempted.clear()
        await self.attempted.wait()

    # --- AsyncStore ------------------------------------------------------------------------------

    async def read(self, unless: Tag | None = None) -> Content | Sentinel | None:
        content = await self._read()
        if content is not None and content.tag == unless:
            return NOT_MODIFIED
        return content

    async def read_head(self) -> Content | None:
        content = await self._read()
        return Content(content.data[:4096], content.tag) if content else None

    async def write(self, data: bytes, expect: Expect) -> Tag:
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        self.attempts.append((data, expect))
        self.times.append(asyncio.get_running_loop().time())
        self.attempted.set()
        try:
            await asyncio.sleep(self.latency_s)
            await self._open.wait()
            return self._write(data, expect)
        finally:
            self.in_flight -= 1

    def _write(self, data: bytes, expect: Expect) -> Tag:
        self.before_write()
        if self.down is not None:
            raise self.down
        if self.too_large and self.limit_bytes is not None and len(data) > self.limit_bytes:
            raise self.too_large
        meets = self.plan.pop(0) if self.plan else None
        if isinstance(meets, StoreError):
            raise meets
        if meets is Meets.LATE:
            self._late.append((data, expect))
            raise Ambiguous("timed out")
        if not self._apply_if(data, expect):
            raise Conflict("precondition failed")
        if meets is Meets.LOST_REPLY:
            raise Ambiguous("the reply was lost")
        return self.tag

    async def _read(self) -> Content | None:
        self.reads += 1
        await asyncio.sleep(0)
        if self.down is not None:
            raise self.down
        if self.stale:
            return self.stale.pop(0)
        return Content(self.data, self.tag) if self.data is not None else None

    def _apply_if(self, data: bytes, expect: Expect) -> bool:
        matches = (
            self.data is None if expect is ABSENT else self.data is not None and expect == self.tag
        )
        if matches:
            self._apply(data)
        return matches

    def _apply(self, data: bytes) -> None:
        self.data = data
        self.history.append(data)
        self.tag = Tag(f"v{len(self.history)}")
        self.written.set()


class Link:
    """One process's way to the store: `open` lets its calls through, `down` is what they raise."""

    def __init__(self, store: FakeStore) -> None:
        self.name = store.name
        self.pace_s = store.pace_s
        self.store = store
        self.down: StoreError | None = None
        self.open = asyncio.Event()
        self.open.set()

    async def read(self, unless: Tag | None = None) -> Content | Sentinel | None:
        await self._pass()
        return await self.store.read(unless)

    async def read_head(self) -> Content | None:
        await self._pass()
        return await self.store.read_head()

    async def write(self, data: bytes, expect: Expect) -> Tag:
        await self._pass()
        return await self.store.write(data, expect)

    async def _pass(self) -> None:
        await self.open.wait()
        if self.down is not None:
            raise self.down
