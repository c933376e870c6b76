"""Watches for callers outside of the background loop: on another loop, or blocking in a thread.

They pull: while nobody asks for the next event, the few that may wait do so in the link, and then a
snapshot takes their place. A fork or a change of settings begins the watch anew.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Final, Self

from objq.client.session import Session
from objq.client.shared import shared
from objq.client.watching import Disconnected, Event, Watching

CLOSED: Final = Disconnected("The client was closed, as after a change of settings.")
"""What is told of it; whoever asks on begins anew."""


class _Pulled:
    """The watch behind a handle; its coroutines run in the background loop."""

    def __init__(self) -> None:
        self._session: Session | None = None
        self._watching: Watching | None = None

    async def next(self, session: Session) -> Event | None:
        """Return the next event, or None when the watch was closed."""
        if session is not self._session or self._watching is None:
            self._session, self._watching = session, session.watch()
        return await anext(self._watching, None)

    async def close(self, session: Session) -> None:
        if self._watching is not None and session is self._session:
            await self._watching.aclose()


class SharedWatching:
    """`objq.client.watching.Events` for any event loop."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._pulled = _Pulled()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        try:
            event = await asyncio.wrap_future(shared.run(self._alias, self._pulled.next))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return CLOSED
        if event is None:
            raise StopAsyncIteration
        return event

    async def aclose(self) -> None:
        await asyncio.wrap_future(shared.run(self._alias, self._pulled.close))


class SyncWatching:
    """A blocking iterator of events. Close it, or use it in a `with` block."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._pulled = _Pulled()

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
        future = shared.run(self._alias, self._pulled.next)
        try:
            return future.result(timeout_s)
        except TimeoutError:
            return None
        except concurrent.futures.CancelledError:
            return CLOSED
        finally:
            future.cancel()  # does something only if it was not done

    def close(self) -> None:
        with contextlib.suppress(concurrent.futures.CancelledError):
            shared.run(self._alias, self._pulled.close).result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()
