"""A store for the event loop: each call runs in a thread of a small pool of its own.

The pool is not shared with anybody, so that neither slow tasks nor slow views can hold up a commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from objq.store.base import Content, Expect, Sentinel, Store, Tag

THREADS: Final = 4
"""One write, one read of the header, and two that a caller has given up on but that still run."""

T = TypeVar("T")


class InThread:
    """An `AsyncStore` over a `Store`.

    A cancelled call is not undone: its thread goes on, and a write may still be applied. Whoever
    cancels a write has to treat it as `Ambiguous`.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.name = store.name
        self.pace_s = store.pace_s
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="objq-store")

    async def read(self, unless: Tag | None = None) -> Content | Sentinel | None:
        return await self._run(lambda: self.store.read(unless))

    async def read_head(self) -> Content | None:
        return await self._run(self.store.read_head)

    async def write(self, data: bytes, expect: Expect) -> Tag:
        return await self._run(lambda: self.store.write(data, expect))

    def close(self) -> None:
        """Take no more calls and free the client. Does not wait for calls under way."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self.store.close()

    async def _run(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, call)
