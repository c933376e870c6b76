"""A store for the event loop: each call runs in a thread of a small pool of its own.

The pool is not shared with anybody, so that neither slow tasks nor slow views can hold up a commit.
Nor does it hold up the end of the process: a call that hangs is left behind, while the threads of a
`ThreadPoolExecutor` are waited for when the interpreter ends, for as long as their calls take.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

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
        self._pool = DaemonThreads(THREADS)

    async def read(self, unless: Tag | None = None) -> Content | Sentinel | None:
        return await self._run(lambda: self.store.read(unless))

    async def read_head(self) -> Content | None:
        return await self._run(self.store.read_head)

    async def write(self, data: bytes, expect: Expect) -> Tag:
        return await self._run(lambda: self.store.write(data, expect))

    def close(self) -> None:
        """Take no more calls and free the client. Does not wait for calls under way."""
        self._pool.close()
        self.store.close()

    async def _run(self, call: Callable[[], T]) -> T:
        return await asyncio.wrap_future(self._pool.submit(call))


class DaemonThreads:
    """At most so many daemon threads, each started when a call finds none that is free."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._free = threading.Semaphore(0)
        self._started = 0
        self._lock = threading.Lock()
        self._closed = False

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Return the future of the call. Raises RuntimeError once closed."""
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("this store was closed")
            self._waiting.put((future, call))
            if not self._free.acquire(blocking=False) and self._started < self._most:
                self._started += 1
                name = f"objq-store-{self._started}"
                threading.Thread(target=self._serve, name=name, daemon=True).start()
        return future

    def close(self) -> None:
        """Cancel the calls that have not begun, and let every thread end after its own."""
        with self._lock:
            self._closed = True
            with contextlib.suppress(Empty):
                while (waiting := self._waiting.get_nowait()) is not None:
                    waiting[0].cancel()
            for _ in range(self._started):
                self._waiting.put(None)

    def _serve(self) -> None:
        while (taken := self._waiting.get()) is not None:
            future, call = taken
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:
                    future.set_exception(error)
            del taken, future, call  # or they would be kept until the next call
            self._free.release()
