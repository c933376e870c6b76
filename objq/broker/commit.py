"""The only writer of the document: one write in flight, and one whose reply is lost never doubles.

A transaction runs a change on the document in memory, seals it with a fresh commit id, and writes
the bytes if the object is still the version the document was read from. What follows depends on
what the store lets us conclude:

================================  ===============================================================
the write succeeded               confirmed
`Ambiguous`, `Throttled`,         wait, then repeat the identical bytes with the identical
`Unavailable`, `Denied`,          expectation, for ever: the first attempt may have been applied,
`Missing`                         or may still be, and only this repeat cannot apply it twice
`Conflict`                        read back. Our own bytes: an earlier attempt was applied.
                                  The version we expected: a stale read, repeat. Anything newer:
                                  adopt it, run the change on it (the rules make that harmless where
                                  our version lies underneath) and write that
`TooLarge`                        this attempt was not applied, nor will be: the change is given up
                                  and the error raised. Where an earlier attempt of these bytes was
                                  ambiguous, that one may be in the store: `PerhapsApplied`
================================  ===============================================================

What must not be built upon is refused by `objq.broker.reading`; nothing is written meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from objq.broker.measures import Measures
from objq.broker.pace import Pace
from objq.broker.reading import Closed, Found, Reader
from objq.broker.stats import CommitStats
from objq.clock import Clock
from objq.core.codec import seal
from objq.core.document import Document, Header
from objq.errors import NoDocument
from objq.ids import Ids
from objq.store.base import (
    ABSENT,
    Ambiguous,
    AsyncStore,
    Conflict,
    Expect,
    StoreError,
    Tag,
    TooLarge,
)

__all__ = ["Change", "Closed", "Committer", "PerhapsApplied", "Superseded"]

Change = Callable[[Document], bool]


class Superseded(Exception):
    """The document is no longer the version that the change was meant for."""


class PerhapsApplied(TooLarge):
    """The store refused the size of a version, and an earlier attempt may have brought it in."""


class Committer:
    """Writes one document. `poll_s`: seconds between reads of a version that is refused."""

    def __init__(self, store: AsyncStore, clock: Clock, ids: Ids, *, poll_s: float = 2.5) -> None:
        self.reader = Reader(store, clock, ids, poll_s)
        self.measures = Measures()
        self.confirmed_at = float("-inf")
        """When the last confirmed store access began (monotonic seconds, promise S2)."""
        self.on_confirmed: Callable[[float, float], None]
        """Told (previous `confirmed_at`, new one) before anything relies on what was confirmed."""
        self.on_adopt: Callable[[Document], None]
        """Told when a version from the store took the place of the one in memory."""
        self.unhook()
        self.size_bytes = 0
        """The size of the last version that was written here."""
        self.refused_bytes: int | None = None
        """The size of the last version that the store refused as too large, if it has taken none
        of that size since."""
        self.writing = False
        """A version is on its way to the store, or may be in it: its fate is not known."""
        self._store = store
        self._clock = clock
        self._ids = ids
        self._lock = asyncio.Lock()
        self._document: Document | None = None
        self._settled = False
        self._tag: Tag | None = None
        self._in_flight = 0

    # --- what callers use ------------------------------------------------------------------------

    @property
    def stats(self) -> CommitStats:
        return self.reader.stats

    @property
    def pace(self) -> Pace:
        return self.reader.pace

    @property
    def seen(self) -> Header | None:
        """The newest version that was confirmed; nothing older is ever built upon (S14)."""
        return self.reader.seen

    @property
    def trouble(self) -> str | None:
        """Why writing has stopped, for people; None while all is well."""
        return self.reader.trouble

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
        raises, the document in memory is dropped and the error goes to the caller. `leading`: the
        commit answers a challenge, as only the leader's may.

        Raises NoDocument, TooLarge (the store's; PerhapsApplied where the version may be in it all
        the same), Closed, and what `change` raises.
        """
        async with self._lock:
            while True:
                document = self._document or await self._load()
                try:
                    with self.reader.working():
                        wanted = change(document) or document.dirty
                except BaseException:
                    self.drop()
                    raise
                if not wanted or await self._commit(document, self._tag or ABSENT, leading):
                    return document
                await self._wait_and_read()

    async def create(self, make: Callable[[], Document]) -> Document:
        """Write the first version.

        Raises Superseded if there is or was a document, TooLarge (the store's) and Closed.
        """
        async with self._lock:
            if self.seen is not None:
                raise Superseded("A process that has seen a document never creates one.")
            document = self._document = make()
            if await self._commit(document, ABSENT, True):
                return document
            self.drop()
            raise Superseded("Somebody else created the document first.")

    async def refresh(self) -> Document:
        """Read what is there, as cheaply as the store allows; return the confirmed document.

        Raises NoDocument and Closed.
        """
        async with self._lock:
            return await self._refresh()

    async def read_header(self) -> Header | None:
        """Read the head of the object once, as a standby does; drop the document in memory.

        Returns None if there is no document and none was ever seen. Raises DocumentError for what
        must not be built upon, and the store's errors.
        """
        started = self._clock.monotonic()
        header = await self.reader.read_header()
        self.confirmed_at = max(self.confirmed_at, started)
        self.drop()
        return header

    def drop(self) -> None:
        """Forget the document in memory; the next transaction reads it."""
        self._document = None
        self._settled = False

    def unhook(self) -> None:
        """Tell nobody any more."""
        self.on_confirmed = lambda before, now: None
        self.on_adopt = lambda document: None

    def close(self) -> None:
        """End every wait with Closed, now and from now on. A write under way is not called back."""
        self.reader.close()

    # --- writing ---------------------------------------------------------------------------------

    async def _commit(self, document: Document, expect: Expect, leading: bool) -> bool:
        """Write the document until it is known whether it is in; return False if another is."""
        self._settled = False
        self.pace.limit(document.settings.write_apart_s)
        with self.reader.working():
            data = seal(document, self._ids.token(), self._clock.wall_ms(), leading=leading)
        try:
            return await self._write(data, document.header(), expect)
        finally:
            self.writing = False

    async def _write(self, data: bytes, ours: Header, expect: Expect) -> bool:
        doubtful = False
        while True:
            await self.reader.sleep(self.pace.delay(self._clock.monotonic()))
            started = self._clock.monotonic()
            try:
                if self.reader.is_outdone(ours):  # it was applied, or never will be
                    raise Conflict("A newer version was seen.")
                tag = await self._put(data, expect)
            except Conflict:
                self.stats.conflicts += 1
                self.writing = doubtful
            except TooLarge as error:
                self.refused_bytes = len(data)
                self.drop()
                if doubtful:
                    raise PerhapsApplied(str(error)) from error
                raise
            except StoreError as error:
                self.writing = doubtful = doubtful or isinstance(error, Ambiguous)
                await self.reader.back_off(error)
                continue
            else:
                took_s = self._clock.monotonic() - started
                self.pace.succeed(took_s)
                self.measures.committed(took_s, len(data))
                self._accept(ours, tag, started, len(data))
                return True
            found = await self._read_back(data)
            if found is None or found.tag == expect:
                await self.reader.sleep(self.pace.fail(Conflict("A stale read.")))
            elif found.document is None:
                self.pace.reached()
                self._accept(ours, found.tag, found.started, len(data))
                return True
            else:
                self._adopt(found)
                return False

    async def _put(self, data: bytes, expect: Expect) -> Tag:
        self.reader.check_open()
        assert self._in_flight == 0, "two writes in flight"
        self.writing = True
        self._in_flight += 1
        self.stats.max_in_flight = max(self.stats.max_in_flight, self._in_flight)
        self.stats.attempts += 1
        self.pace.start(self._clock.monotonic())
        try:
            tag = await self._store.write(data, expect)
        except Conflict:
            self.pace.conflicted()
            raise
        except asyncio.CancelledError:
            self.close()  # the write may go on below: nobody may start another beside it
            raise
        finally:
            self._in_flight -= 1
        self.reader.reached()
        return tag

    async def _read_back(self, data: bytes) -> Found | None:
        try:
            return await self.reader.read(ours=data)
        except NoDocument:
            return None  # it was created, says the store, but cannot be read yet

    def _accept(self, header: Header, tag: Tag, started: float, size_bytes: int) -> None:
        self.stats.commits += 1
        self.stats.bytes_written += size_bytes
        self.size_bytes = size_bytes
        if self.refused_bytes is not None and size_bytes >= self.refused_bytes:
            self.refused_bytes = None
        self.reader.written = header
        self._settled = True
        self._confirm(header, tag, started)

    # --- what is confirmed -----------------------------------------------------------------------

    async def _wait_and_read(self) -> None:
        """After a lost race, wait until the next write may start, and only then read what is there.

        Who reads first, and has to wait before it writes, loses to all who do not, again and again.
        """
        wait_s = self.pace.delay(self._clock.monotonic())
        if wait_s > 0:
            await self.reader.sleep(wait_s)
            await self._refresh()

    async def _refresh(self) -> Document:
        if self._document is None:
            return await self._load()
        found = await self.reader.read(unless=self._tag)
        if found.document is not None:
            return self._adopt(found)
        self._confirm(found.header, found.tag, found.started)
        return self._document

    async def _load(self) -> Document:
        return self._adopt(await self.reader.read())

    def _adopt(self, found: Found) -> Document:
        assert found.document is not None
        self._document = found.document
        self._settled = True
        self._confirm(found.header, found.tag, found.started)
        self.on_adopt(found.document)
        return found.document

    def _confirm(self, header: Header, tag: Tag, started: float) -> None:
        before = self.confirmed_at
        self.confirmed_at = max(before, started)
        self.reader.seen = header
        self._tag = tag
        self.on_confirmed(before, self.confirmed_at)
