"""A store for the event loop: each call runs in a thread of a small pool of its own.

The pool is not shared with anybody, so that neither slow tasks nor slow views can hold up a commit.
Nor does it hold up the end of the process: a call that hangs is left behind, while the threads of a
`ThreadPoolExecutor` are waited for when the interpreter ends, for as long as their calls take.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

from objq.core.codec import HEAD_BYTES
from objq.errors import ObjqError
from objq.store.base import (
    Ambiguous,
    Content,
    Expect,
    Sentinel,
    Store,
    StoreError,
    Tag,
    Unavailable,
)

logger = logging.getLogger("objq.store")

THREADS: Final = 4
"""One write, one read of the header, and two that a caller has given up on but that still run."""

MOST_LEFT_BEHIND: Final = 16
"""Threads that may still be in a call which took too long; beyond, further calls wait for them."""

CALL_TIMEOUT_S: Final = 30.0
SLOWEST_BYTES_PER_S: Final = 256 * 1024
"""A call may take so long in all, and what it transfers at this rate besides. A client's own limits
are for each time that it waits: a peer that sends a byte now and then would hold it for ever."""

FIRST_BYTES: Final = 64 * 1024 * 1024
"""How large an object is taken to be before any of it was seen."""

T = TypeVar("T")


class InThread:
    """An `AsyncStore` over a `Store`.

    What a client raises that its store does not know is told as a read that failed, or a write of
    which the outcome is not known: an SDK's surprise ends neither a broker nor a worker with its
    jobs. The traceback of each kind is logged once.

    A cancelled call is not undone: its thread goes on, and a write may still be applied. Whoever
    cancels a write has to treat it as `Ambiguous`. So is one told that takes too long as a whole.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.name = store.name
        self.pace_s = store.pace_s
        self._pool = DaemonThreads(THREADS, "objq-store")
        self._surprises: set[type[Exception]] = set()
        self._size_bytes = FIRST_BYTES

    async def read(self, unless: Tag | None = None) -> Content | Sentinel | None:
        size_bytes = self._size_bytes
        content = await self._run(lambda: self.store.read(unless), Unavailable, size_bytes)
        if isinstance(content, Content):
            self._size_bytes = len(content.data)
        return content

    async def read_head(self) -> Content | None:
        return await self._run(self.store.read_head, Unavailable, HEAD_BYTES)

    async def write(self, data: bytes, expect: Expect) -> Tag:
        return await self._run(lambda: self.store.write(data, expect), Ambiguous, len(data))

    def close(self) -> None:
        """Take no more calls and free the client. Does not wait for calls under way."""
        self._pool.close()
        self.store.close()

    async def _run(self, call: Callable[[], T], otherwise: type[StoreError], size_bytes: int) -> T:
        limit_s = CALL_TIMEOUT_S + size_bytes / SLOWEST_BYTES_PER_S
        future = self._pool.submit(lambda: self._call(call, otherwise))
        try:
            async with asyncio.timeout(limit_s):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            self._pool.leave_behind()
            raise otherwise(
                f"{self.name}: the store has not done with a request after {limit_s:.0f} s."
            ) from None

    def _call(self, call: Callable[[], T], otherwise: type[StoreError]) -> T:
        try:
            return call()
        except (StoreError, ObjqError):  # the latter: settings that cannot work
            raise
        except Exception as error:
            self._note(error)
            raise otherwise(f"{self.name}: {type(error).__name__}: {error}") from error

    def _note(self, error: Exception) -> None:
        if type(error) in self._surprises:
            return
        self._surprises.add(type(error))
        logger.error(
            "%s: the client of the store has failed in a way that is not known.",
            self.name,
            exc_info=error,
            extra={"event": "store_surprise"},
        )


class DaemonThreads:
    """At most so many daemon threads, each started when a call finds none that is free.

    As many more may take the place of those that hang as `MOST_LEFT_BEHIND` says.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._most_ever = most + MOST_LEFT_BEHIND
        self._name = name
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
                raise RuntimeError(f"{self._name} was closed")
            self._waiting.put((future, call))
            if not self._free.acquire(blocking=False) and self._started < self._most:
                self._started += 1
                name = f"{self._name}-{self._started}"
                threading.Thread(target=self._serve, name=name, daemon=True).start()
        return future

    def leave_behind(self) -> None:
        """Let another thread take the place of one that nobody waits for any more."""
        with self._lock:
            self._most = min(self._most + 1, self._most_ever)

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
