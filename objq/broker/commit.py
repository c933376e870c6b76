"""The only writer of the document: one write in flight, and a write whose reply is lost never doubles.

A transaction runs a change on the document in memory, seals it with a fresh commit id, and writes
the bytes if the object is still the version the document was read from. What follows depends on
what the store lets us conclude:

================================  ===============================================================
the write succeeded               confirmed
`Ambiguous`, `Throttled`,         wait, then repeat the identical bytes with the identical
`Unavailable`, `Denied`,          expectation, for ever: the first attempt may have been applied,
`Missing`                         or may still be, and only this repeat cannot apply it twice
`Conflict`                        read back. Our own bytes: an earlier attempt was applied, confirmed.
                                  The version we expected: a stale read, repeat. Anything newer:
                                  adopt it, run the change on it (the rules make that harmless where
                                  our version lies underneath) and write that
`TooLarge`                        not applied; the change is given up and the error raised
================================  ===============================================================

A version that must not be built upon (S14: it vanished, is corrupt, foreign, went back, or has a
newer schema) is read once more, and if it stays, writing stops: `trouble` says why, nothing is
overwritten, and reading goes on until something at least as new as what was seen is there again.

Whoever calls has deadlines of its own; `close` ends every wait here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from objq.broker.pace import Pace
from objq.clock import Clock
from objq.core.codec import check_successor, decode, decode_head, seal
from objq.core.document import Document, Header
from objq.errors import DocumentError, ForeignDocument, NoDocument
from objq.ids import Ids
from objq.store.base import (
    ABSENT,
    NOT_MODIFIED,
    Ambiguous,
    AsyncStore,
    Conflict,
    Content,
    Expect,
    Sentinel,
    StoreError,
    Tag,
    Throttled,
    TooLarge,
)

log = logging.getLogger("objq.broker")

READS_BEFORE_TROUBLE: Final = 2
"""A version that must not be built upon is believed when it was read so often in a row."""

Change = Callable[[Document], bool]


class Closed(Exception):
    """The committer was closed; what was being written may or may not be applied."""


class Superseded(Exception):
    """The document is no longer the version that the change was meant for."""


@dataclass(slots=True)
class CommitStats:
    """Counters since the process started. `lost_commits` must stay 0: see `_alarm_if_lost`."""

    commits: int = 0
    attempts: int = 0
    conflicts: int = 0
    ambiguous: int = 0
    throttled: int = 0
    failures: int = 0
    reads: int = 0
    bytes_written: int = 0
    max_in_flight: int = 0
    lost_commits: int = 0


class Found(NamedTuple):
    """A version that may be built upon, and when the read of it began."""

    content: Content
    header: Header
    started: float


class Committer:
    """Reads and writes one document. `poll_s`: seconds between reads while in trouble."""

    def __init__(self, store: AsyncStore, clock: Clock, ids: Ids, *, poll_s: float = 2.5) -> None:
        self.stats = CommitStats()
        self.pace = Pace(store.pace_s, ids)
        self.seen: Header | None = None
        """The newest version that was confirmed; nothing older is ever built upon (S14)."""
        self.confirmed_at = float("-inf")
        """When the last confirmed store access began (monotonic seconds, promise S2)."""
        self.trouble: str | None = None
        """Why writing has stopped, for people; None while all is well."""
        self.on_confirmed: Callable[[float, float], None] = lambda before, now: None
        """Told (previous confirmed_at, new one) before anything is done with what was confirmed."""
        self.on_adopt: Callable[[Document], None] = lambda document: None
        """Told when a version from the store took the place of the one in memory."""
        self._store = store
        self._clock = clock
        self._ids = ids
        self._poll_s = poll_s
        self._lock = asyncio.Lock()
        self._closing = asyncio.Event()
        self._document: Document | None = None
        self._settled = False
        self._expect: Expect = ABSENT
        self._written: Header | None = None
        self._in_flight = 0

    # --- what callers use --------------------------------------------------------------------------

    @property
    def document(self) -> Document | None:
        """The document in memory, with what is being written; None before it was read."""
        return self._document

    @property
    def settled(self) -> Document | None:
        """The document in memory if it is the confirmed one; None while a write is in flight."""
        return self._document if self._settled else None

    async def transact(self, change: Change, *, leading: bool = True) -> Document:
        """Run `change` and commit what it did; return the document as confirmed.

        `change` is run again on every version adopted after a conflict, so it must not rely on
        running once. Nothing is written if it returns False and left the document clean. If it
        raises, the document in memory is dropped and the error goes to the caller.

        Raises NoDocument, TooLarge (from the store), Closed, and what `change` raises.
        """
        async with self._lock:
            while True:
                document = self._document or await self._load()
                try:
                    wanted = change(document) or document.dirty
                except BaseException:
                    self.drop()
                    raise
                if not wanted or await self._commit(document, leading=leading):
                    return document

    async def create(self, make: Callable[[], Document]) -> Document:
        """Write the first version. Raises Superseded if another was there first, TooLarge, Closed."""
        async with self._lock:
            if self.seen is not None:
                raise Superseded("a process that has seen a document never creates one")
            document = make()
            self._document, self._expect = document, ABSENT
            if await self._commit(document, leading=True):
                return document
            self.drop()
            raise Superseded("another broker created the document first")

    async def refresh(self) -> Document:
        """Read what is there, as cheaply as the store allows; return the confirmed document.

        Raises NoDocument and Closed.
        """
        async with self._lock:
            if self._document is None or not isinstance(self._expect, str):
                return await self._load()
            started = self._clock.monotonic()
            found = await self._read(unless=self._expect)
            if found is not None:
                return self._adopt(found)
            assert self.seen is not None
            self._confirm(self.seen, self._expect, started)
            return self._document

    def observe(self, content: Content | None, started: float) -> Header | None:
        """Judge the head of the object as a standby read it; return None if there never was one.

        Raises DocumentError for what must not be built upon (S14).
        """
        if content is None:
            self._raise_absent()
            return None
        header = decode_head(content.data)
        if self.seen is not None:
            check_successor(self.seen, header)
        self.trouble = None
        self.seen = header
        self.confirmed_at = max(self.confirmed_at, started)
        return header

    def drop(self) -> None:
        """Forget the document in memory; the next transaction reads it."""
        self._document = None
        self._settled = False

    def close(self) -> None:
        """End every wait with Closed, now and from now on. A write under way is not called back."""
        self._closing.set()

    @property
    def closed(self) -> bool:
        return self._closing.is_set()

    # --- writing -----------------------------------------------------------------------------------

    async def _commit(self, document: Document, *, leading: bool) -> bool:
        """Write the document until it is known whether it is in; return False if another is."""
        self._settled = False
        data = seal(document, self._ids.token(), self._clock.wall_ms(), leading=leading)
        ours = document.header()
        while True:
            await self._sleep(self.pace.delay(self._clock.monotonic()))
            started = self._clock.monotonic()
            try:
                tag = await self._put(data)
            except Conflict:
                self.stats.conflicts += 1
            except TooLarge:
                self.drop()
                raise
            except StoreError as error:
                await self._back_off(error)
                continue
            else:
                self.pace.succeed(self._clock.monotonic() - started)
                self._accept(ours, tag, started, len(data))
                return True
            found = await self._read_back()
            if found is None or found.content.tag == self._expect:
                await self._sleep(self.pace.fail(Conflict("a stale read")))
            elif found.content.data == data:
                self._accept(ours, found.content.tag, found.started, len(data))
                return True
            else:
                self._adopt(found)
                return False

    async def _put(self, data: bytes) -> Tag:
        self._check_open()
        assert self._in_flight == 0, "two writes in flight"
        self._in_flight += 1
        self.stats.max_in_flight = max(self.stats.max_in_flight, self._in_flight)
        self.stats.attempts += 1
        self.pace.start(self._clock.monotonic())
        try:
            return await self._store.write(data, self._expect)
        except asyncio.CancelledError:
            self.close()  # the write may go on below: nobody must start another beside it
            raise
        finally:
            self._in_flight -= 1

    def _accept(self, header: Header, tag: Tag, started: float, size_bytes: int) -> None:
        self.stats.commits += 1
        self.stats.bytes_written += size_bytes
        self._written = header
        self._settled = True
        self._confirm(header, tag, started)

    def _confirm(self, header: Header, tag: Tag, started: float) -> None:
        before = self.confirmed_at
        self.confirmed_at = max(before, started)
        self.seen = header
        self._expect = tag
        self.trouble = None
        self.on_confirmed(before, self.confirmed_at)

    # --- reading -----------------------------------------------------------------------------------

    async def _load(self) -> Document:
        found = await self._read()
        assert found is not None
        return self._adopt(found)

    async def _read_back(self) -> Found | None:
        try:
            return await self._read()
        except NoDocument:
            return None  # a conflict with the creation of something that cannot be read yet

    async def _read(self, unless: Tag | None = None) -> Found | None:
        """Read until there is a version that may be built upon; None if it is still `unless`."""
        refusals = 0
        while True:
            started = self._clock.monotonic()
            content = await self._get(unless)
            if content is NOT_MODIFIED:
                return None
            try:
                return self._judge(content, started)
            except NoDocument:
                raise
            except DocumentError as error:
                refusals += 1
                if refusals >= READS_BEFORE_TROUBLE:
                    self._stop_writing(error)
            await self._sleep(self._poll_s if self.trouble else self.pace.fail(Conflict("odd read")))

    async def _get(self, unless: Tag | None) -> Content | Sentinel | None:
        while True:
            self._check_open()
            self.stats.reads += 1
            try:
                content = await self._store.read(unless)
            except StoreError as error:
                await self._back_off(error)
            else:
                self.pace.reached()
                return content

    def _judge(self, content: Content | Sentinel | None, started: float) -> Found:
        if content is None:
            self._raise_absent()
            raise NoDocument("there is no queue.json yet: start manage.py runbroker, which creates it")
        assert not isinstance(content, Sentinel)
        header = decode_head(content.data)
        if self.seen is not None:
            check_successor(self.seen, header)
        return Found(content, header, started)

    def _raise_absent(self) -> None:
        if self.seen is not None:
            raise ForeignDocument(
                f"{self._store.name} has vanished; it is not created anew, since that would lose "
                "jobs. Restore it (a version of at least the last seq resumes by itself), or "
                "restart the broker to begin with an empty queue"
            )

    def _adopt(self, found: Found) -> Document:
        self._document = decode(found.content.data)
        self._settled = True
        self._confirm(found.header, found.content.tag, found.started)
        self.on_adopt(self._document)
        return self._document
