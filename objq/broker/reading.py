"""Reading the document until there is a version that may be built upon (promise S14).

A version must not be built upon when it vanished, is corrupt or cut short, has another document's
id, went back in time, or has a newer schema. Such a reading is not believed at once, since a store
may answer a read with an old version: it is read again. If it stays, `trouble` says why and what to
do, nobody writes, and reading goes on until something at least as new as what was seen is there.

The store's own failures (throttled, denied, unreachable) are waited out, for ever: callers have
deadlines of their own, and `close` ends every wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from objq.broker.pace import Pace
from objq.broker.stats import CommitStats
from objq.clock import Clock
from objq.core.codec import check_successor, check_writable, decode, decode_head
from objq.core.document import Document, Header
from objq.errors import DocumentError, ForeignDocument, NoDocument, Vanished
from objq.ids import Ids
from objq.store.base import (
    ABSENT,
    NOT_MODIFIED,
    Ambiguous,
    AsyncStore,
    Content,
    Sentinel,
    StoreError,
    Tag,
    Throttled,
)

logger = logging.getLogger("objq.broker")

READS_BEFORE_TROUBLE: Final = 2
"""A reading that must not be built upon is believed when it came so often in a row."""

FAILURES_PER_WARNING: Final = 10
"""Of failures in a row, the first and then one in so many is a warning in the log."""


SHORTEST_WAIT_S: Final = 0.001
"""A wait that rounding made shorter could end before its time has come, again and again."""


class Closed(Exception):
    """The committer was closed; what was being written may or may not be applied."""


class Found(NamedTuple):
    """A version that may be built upon; `started`: when the read that found it began (monotonic).

    `document` is None if it is known already: the object is unchanged, or is what is being written.
    """

    tag: Tag
    header: Header
    document: Document | None
    started: float


class Reader:
    """Reads one document. `poll_s`: seconds between reads while in trouble."""

    def __init__(self, store: AsyncStore, clock: Clock, ids: Ids, poll_s: float) -> None:
        self.store = store
        self.stats = CommitStats()
        self.pace = Pace(store.pace_s, ids)
        self.seen: Header | None = None
        self.also_seen: Callable[[], Header | None] = lambda: None
        """Returns the newest version that this process has come to know of in another way."""
        self.written: Header | None = None
        """The newest version that was ours and was told durable."""
        self.trouble: str | None = None
        self.failure: StoreError | None = None
        """What the store failed with, if it has not answered since."""
        self.working: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
        """Entered for what may keep this process busy for long, and is no pause of it."""
        self._clock = clock
        self._kind_of_trouble: type[DocumentError] | None = None
        self._poll_s = poll_s
        self._closing = asyncio.Event()
        self._failures = 0
        self._refused_heads = 0

    async def read(self, unless: Tag | None = None, ours: bytes = b"") -> Found:
        """Return a version that may be built upon.

        `unless`: the tag of the version that was seen last, which need not be read again. `ours`:
        bytes whose fate is in doubt; they are recognised without decoding them again.
        Raises NoDocument if there is none and none was ever seen, and Closed.
        """
        refusals = 0
        while True:
            content, started, known = await self._get(unless)
            try:
                if content is NOT_MODIFIED or (content is not None and content.tag == unless):
                    assert self.seen is not None
                    assert unless is not None
                    self._check(self.seen, known)  # it may be an old version, put back unchanged
                    found = Found(unless, self.seen, None, started)
                else:
                    found = self._judge(content, ours, started, known)
            except NoDocument:
                raise
            except DocumentError as error:
                refusals += 1
                if refusals >= READS_BEFORE_TROUBLE:
                    self._begin_trouble(error)
                    await self.sleep(self._poll_s)
                else:
                    await self.sleep(self.pace.fail(error))
                continue
            self._end_trouble()
            return found

    async def read_header(self) -> Header | None:
        """Read the head once; return None if there is no document and none was ever seen.

        Raises DocumentError for what must not be built upon, and the store's errors.
        """
        self.check_open()
        self.stats.reads += 1
        known = self.also_seen()
        content = await self.store.read_head()
        self.reached()
        try:
            if content is None:
                self._refuse_absence()
                return None
            header = decode_head(content.data)
            self._check(header, known)
        except DocumentError as error:
            self._refused_heads += 1
            if self._refused_heads >= READS_BEFORE_TROUBLE:
                self._begin_trouble(error)
            raise
        self._refused_heads = 0
        self._end_trouble()
        self.seen = header
        return header

    def is_outdone(self, header: Header) -> bool:
        """Tell whether this process knows by now of a version that is as new as this one."""
        known = self.also_seen()
        return known is not None and known.document == header.document and known.seq >= header.seq

    def hear(self, document: str, epoch: int, seq: int) -> None:
        """Take note that a broker has seen this version: nothing older is built upon (S14)."""
        if self.seen is not None and self.seen.document == document:
            self.seen = self.seen.heard(epoch, seq)

    async def back_off(self, error: StoreError) -> None:
        """Count and log a failure of the store, and wait before the next attempt."""
        self.stats.failures += 1
        self.stats.ambiguous += isinstance(error, Ambiguous)
        self.stats.throttled += isinstance(error, Throttled)
        wait_s = self.pace.fail(error)
        level = logging.DEBUG if self._failures % FAILURES_PER_WARNING else logging.WARNING
        self._failures += 1
        self.failure = error
        logger.log(
            level,
            "%s: %s (%s); next attempt in %.2f s.",
            self.store.name,
            error,
            type(error).__name__,
            wait_s,
            extra={"event": "store_failed"},
        )
        await self.sleep(wait_s)

    def reached(self) -> None:
        """Note that the store answered."""
        self._failures = 0
        self.failure = None

    async def sleep(self, seconds: float) -> None:
        """Wait; raise Closed as soon as the committer is closed."""
        self.check_open()
        if seconds > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), max(seconds, SHORTEST_WAIT_S))
        self.check_open()

    def close(self) -> None:
        self._closing.set()

    @property
    def closed(self) -> bool:
        return self._closing.is_set()

    def check_open(self) -> None:
        if self._closing.is_set():
            raise Closed("The committer was closed.")

    async def _get(
        self, unless: Tag | None
    ) -> tuple[Content | Literal[Sentinel.NOT_MODIFIED] | None, float, Header | None]:
        """Return what the store answers, when the attempt that it answered began, and what was
        known then in another way: what comes to be known meanwhile may be newer than the answer.
        """
        while True:
            self.check_open()
            self.stats.reads += 1
            started, known = self._clock.monotonic(), self.also_seen()
            try:
                content = await self.store.read(unless)
            except StoreError as error:
                await self.back_off(error)
            else:
                assert content is not ABSENT
                self.reached()
                return content, started, known

    def _judge(
        self, content: Content | None, ours: bytes, started: float, known: Header | None
    ) -> Found:
        if content is None:
            self._refuse_absence()
            raise NoDocument.at(self.store.name)
        header = decode_head(content.data)
        self._check(header, known)
        with self.working():
            document = None if content.data == ours else decode(content.data)
        return Found(content.tag, header, document, started)

    def _check(self, header: Header, known: Header | None) -> None:
        check_writable(header)
        for seen in (self.seen, known):
            if seen is not None:
                check_successor(seen, header)

    def _refuse_absence(self) -> None:
        if self.seen is not None or self.also_seen() is not None:
            raise Vanished.at(self.store.name)

    def _begin_trouble(self, error: DocumentError) -> None:
        self.trouble = error.message
        if self._kind_of_trouble is type(error):
            return  # only the details are others, such as the seq of what was found
        self._kind_of_trouble = type(error)
        logger.error(
            "Stopped writing %s. %s", self.store.name, error, extra={"event": "document_refused"}
        )
        if (
            isinstance(error, ForeignDocument)
            and self.seen is not None
            and self.seen == self.written
        ):
            self.stats.lost_commits += 1
            logger.critical(
                "Commit %s (epoch %s, seq %s) was told durable and is not there: the object was "
                "deleted, restored or edited, or the store does not keep its promises.",
                self.seen.commit,
                self.seen.epoch,
                self.seen.seq,
                extra={"event": "commit_lost"},
            )

    def _end_trouble(self) -> None:
        if self.trouble is not None:
            logger.warning(
                "Going on with %s.", self.store.name, extra={"event": "document_accepted"}
            )
        self.trouble = None
        self._kind_of_trouble = None
