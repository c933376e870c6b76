"""Watches for callers outside of the background loop: on another loop, or blocking in a thread.

They pull: while nobody asks for the next event, the few that may wait do so in the link, and then a
snapshot takes their place. A fork or a change of settings begins the watch anew.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Final, Self

from objq.client.session import Session
from objq.client.shared import shared
from objq.client.watching import Disconnected, Event, Watching

CLOSED: Final = Disconnected("The client was closed, as after a change of settings.")
"""What is told of it; whoever asks on begins anew."""

Next = concurrent.futures.Future[Event | None]


class _Pulled:
    """The watch behind a handle; its coroutines run in the background loop."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._session: Session | None = None
        self._watching: Watching | None = None
        self._next: Next | None = None
        self._closed = False
        self._pid = os.getpid()

    def ask(self) -> Next:
        """Return what will hold the next event, or None when the watch is closed.

        It is the same again until it was `taken`: whoever stops waiting just when the event comes
        gets it the next time.
        """
        if self._pid != os.getpid():  # nobody would end the one of before a fork
            self._pid, self._next = os.getpid(), None
        if self._next is None:
            self._next = shared.run(self._alias, self._pull)
        return self._next

    def taken(self) -> None:
        self._next = None

    def close(self) -> concurrent.futures.Future[None]:
        self._closed, self._next = True, None
        if not shared.is_prepared(self._alias):  # it was closed with its session
            closed: concurrent.futures.Future[None] = concurrent.futures.Future()
            closed.set_result(None)
            return closed
        return shared.run(self._alias, self._close)

    async def _pull(self, session: Session) -> Event | None:
        if self._closed:
            return None
        if session is not self._session or self._watching is None:
            self._session, self._watching = session, session.watch()
        event = await anext(self._watching, None)
        if event is None and not self._closed:  # it ended with its session
            self._watching = None
            return CLOSED
        return event

    async def _close(self, session: Session) -> None:
        if self._watching is not None and session is self._session:
            await self._watching.aclose()


class SharedWatching:
    """`objq.client.watching.Events` for any event loop. For one task at a time."""

    def __init__(self, alias: str) -> None:
        self._pulled = _Pulled(alias)

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        try:
            event = await asyncio.shield(asyncio.wrap_future(self._pulled.ask()))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            event = CLOSED
        except BaseException:
            self._pulled.taken()
            raise
        self._pulled.taken()
        if event is None:
            raise StopAsyncIteration
        return event

    async def aclose(self) -> None:
        await asyncio.wrap_future(self._pulled.close())


class SyncWatching:
    """A blocking iterator of events, for one thread at a time. Close it, or use it in a `with`."""

    def __init__(self, alias: str) -> None:
        self._pulled = _Pulled(alias)

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        event = self.next()
        if event is None:
            raise StopIteration
        return event

    def next(self, timeout_s: float | None = None) -> Event | None:
        """Return the next event, or None if there was none in time or the watch was closed.

        Raises as `Watching.__anext__`.
        """
        if not shared.may_wait():
            raise RuntimeError("The loop of objq cannot wait for itself; await an async client.")
        coming = self._pulled.ask()
        if not concurrent.futures.wait([coming], timeout_s).done:
            return None
        self._pulled.taken()
        try:
            return coming.result()
        except concurrent.futures.CancelledError:
            return CLOSED

    def close(self) -> None:
        with contextlib.suppress(concurrent.futures.CancelledError):
            self._pulled.close().result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()
