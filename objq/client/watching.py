"""Watching the queue: an endless run of events, whatever becomes of brokers and connections.

    async for event in client.watch():
        match event:
            case Statistics(): a snapshot: forget what you knew and begin with this
            case Delta(): what has changed since, in order and without gaps
            case Disconnected(): nothing is known any more, until the next snapshot

A gap (the broker dropped a delta because this process was slow, or the document was replaced under
it), a lost connection and another broker all end in a fresh snapshot, and need nothing from the
caller. Each watch has a connection of its own: slow watchers hold up nobody's requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final, NamedTuple, Protocol

from objq.client.dialer import Dialer, NoBroker
from objq.client.link import Link, LinkLost, Stream
from objq.clock import Clock
from objq.core import ops
from objq.errors import NotBroker, ObjqError, Overloaded, Rejected

SNAPSHOT_EVERY_S: Final = 0.5
"""However many gaps there are, snapshots are asked for no more often."""

PATIENCE_S: Final = 1.0
"""How long a connection may take before the caller is told that there is none."""


class Disconnected(NamedTuple):
    """There is no broker at the moment; `why` is for people. A snapshot follows when there is."""

    why: str


Event = ops.Statistics | ops.Delta | Disconnected


class Events(Protocol):
    """What `watch` returns: iterate, and close it when done."""

    def __aiter__(self) -> AsyncIterator[Event]: ...

    async def __anext__(self) -> Event: ...

    async def aclose(self) -> None: ...


class Watching:
    """One watch. An `__anext__` that is cancelled loses nothing; the next goes on."""

    def __init__(self, dialer: Dialer, clock: Clock, on_close: Callable[[Watching], None]) -> None:
        self._dialer = dialer
        self._clock = clock
        self._on_close = on_close
        self._link: Link | None = None
        self._stream: Stream | None = None
        self._newest = (-1, -1)
        """(epoch, seq) of the version that was told last."""
        self._asked_at = float("-inf")
        self._is_lost = False
        self._closed = False

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        """Return the next event. Raises Rejected if the broker goes on refusing this client."""
        while not self._closed:
            event = await self._step()
            if event is not None:
                return event
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """End the watch and its connection. May be called again."""
        if not self._closed:
            self._closed = True
            self._on_close(self)
            await self._dialer.close()

    async def _step(self) -> Event | None:
        try:
            return await (self._snapshot() if self._stream is None else self._delta())
        except LinkLost as error:
            return self._lost(str(error))
        except ObjqError:
            if self._closed:  # while it waited
                return None
            raise

    # --- snapshots -------------------------------------------------------------------------------

    async def _snapshot(self) -> Event | None:
        try:
            async with asyncio.timeout(None if self._is_lost else PATIENCE_S):
                link = await self._dialer.link()
        except TimeoutError:
            why = self._dialer.why
            return self._lost(why.message if why is not None else "No broker has answered yet.")
        except NoBroker as error:
            lost = self._lost(error.message)
            if lost is None:
                await asyncio.sleep(PATIENCE_S)
            return lost
        await asyncio.sleep(self._asked_at + SNAPSHOT_EVERY_S - self._clock.monotonic())
        self._asked_at = self._clock.monotonic()
        try:
            snapshot, stream = await link.watch()
        except ObjqError as error:
            return await self._refused(link, error)
        version = (snapshot.epoch, snapshot.seq)
        self._dialer.answered(version)
        if version < self._newest:  # S11: never an older version after a newer one
            await self._dialer.recheck(link)
            return None
        self._stream, self._newest, self._is_lost = stream, version, False
        return snapshot

    async def _refused(self, link: Link, error: ObjqError) -> Event | None:
        if isinstance(error, NotBroker):
            self._dialer.leave(link)
        elif isinstance(error, Overloaded):
            await asyncio.sleep(error.retry_after_s or SNAPSHOT_EVERY_S)
        elif isinstance(error, Rejected):
            raise error
        else:
            await self._dialer.recheck(link)
        return self._lost(error.message)

    def _lost(self, why: str) -> Event | None:
        """Return what to tell the caller, who is told once."""
        self._stream = None
        if self._is_lost:
            return None
        self._is_lost = True
        return Disconnected(why)

    # --- deltas ----------------------------------------------------------------------------------

    async def _delta(self) -> Event | None:
        assert self._stream is not None
        delta = await self._stream.get()
        epoch, seq = self._newest
        if delta is None or delta.after > seq or delta.epoch != epoch:
            self._stream = None  # something is missing
            return None
        if delta.seq <= seq:
            return None
        self._newest = (delta.epoch, delta.seq)
        self._dialer.answered(self._newest)
        return delta
