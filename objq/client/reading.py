"""The document itself, read past any broker: for views and commands when none answers.

What it tells is at most one commit old, but of running jobs only what was written down: a heartbeat
stands in the document up to a quarter of the heartbeat timeout late.
"""

from __future__ import annotations

from types import TracebackType
from typing import NamedTuple, Self

from objq import conf
from objq.clock import SYSTEM_CLOCK, Clock
from objq.core.codec import SCHEMA, decode, decode_head
from objq.core.document import Document, Header
from objq.core.listing import Listing
from objq.core.ops import Listed, ListJobs, Statistics
from objq.core.statistics import statistics
from objq.errors import NoDocument, Unavailable
from objq.store.base import NOT_MODIFIED, Content, Sentinel, Store, StoreError
from objq.store.open import open_store


class Reading(NamedTuple):
    """A document as it was read. `age_s`: seconds since its last commit.

    The age is a difference of two machines' wall clocks, so it is for people to look at, and never
    a reason to do anything.
    """

    document: Document
    age_s: float
    size_bytes: int
    """The size of the object as it is stored, so perhaps compressed."""
    wall_ms: int
    """This machine's clock when it was read."""

    @property
    def is_newer(self) -> bool:
        """Tell whether a newer objq wrote it, so that this one reads what it knows of it (S14)."""
        return self.document.schema > SCHEMA

    def statistics(self) -> Statistics:
        """Return what a broker answers to `stats`, as far as the document knows."""
        return statistics(self.document, self.heard_ago_s)

    def heard_ago_s(self, token: str) -> float | None:
        """Return how long ago the holder of a live token was heard, by what is written down."""
        job = self.document.claims.get(token)
        claim = job.claim if job is not None else None
        return None if claim is None else max(0, self.wall_ms - claim.heartbeat_at) / 1000


class DocumentReader:
    """Reads one document again and again; what has not changed is neither sent nor decoded again.

    For one thread at a time. Close it, or use it in a `with` block.
    """

    def __init__(self, store: Store, clock: Clock = SYSTEM_CLOCK) -> None:
        self.store = store
        self._clock = clock
        self.newest: Reading | None = None
        """The document as it was read last."""
        self._last: tuple[Content, Document] | None = None
        self._listing = Listing()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    def read(self) -> Reading:
        """Return the document as it is now.

        Raises NoDocument, Corrupt, NewerSchema, and Unavailable if the store cannot be read.
        """
        known = self._last
        content = self._fetch(None if known is None else known[0])
        if known is None or content is not known[0]:
            known = self._last = content, decode(content.data)
        _, document = known
        now = self._clock.wall_ms()
        document.make_due_ready(now)
        age_s = max(0, now - document.at) / 1000
        self.newest = Reading(document, age_s, len(content.data), now)
        return self.newest

    def list(self, op: ListJobs) -> Listed:
        """Return what a broker answers to `list`. Raises as `read`, and Invalid."""
        reading = self.read()
        return self._listing.page(reading.document, op, reading.heard_ago_s)

    def header(self) -> Header:
        """Return the header alone, by one ranged read. Raises as `read`."""
        try:
            content = self.store.read_head()
        except StoreError as error:
            raise Unavailable(f"{self.store.name} cannot be read ({error}).") from error
        if content is None:
            raise self._absent()
        return decode_head(content.data)

    def close(self) -> None:
        self.store.close()

    def _fetch(self, known: Content | None) -> Content:
        try:
            found = self.store.read(None if known is None else known.tag)
        except StoreError as error:
            raise Unavailable(f"{self.store.name} cannot be read ({error}).") from error
        if found is NOT_MODIFIED:
            assert known is not None
            return known
        if found is None:
            raise self._absent()
        assert not isinstance(found, Sentinel)
        return found

    def _absent(self) -> NoDocument:
        return NoDocument.at(self.store.name)


def document_reader(alias: str = "default") -> DocumentReader:
    """Return a reader of the document of `TASKS[alias]`; raises ConfigurationError."""
    options = conf.options_for(alias)
    return DocumentReader(open_store(options.storage, options.name))


def read_document(alias: str = "default") -> Reading:
    """Return the document of `TASKS[alias]` as it is now; see `DocumentReader.read`."""
    with document_reader(alias) as reader:
        return reader.read()
