"""A simulated object store: one object, its version log, and everything that stores do wrong.

What goes wrong is drawn per call from a `Weather`. A write has two ends: when, if ever, it reaches
the object, and what its caller is told and when; each fault is a choice of the two. Whether it is
applied is always decided when it gets there, by its expectation, as a real store does.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Final, NamedTuple

from objq.core.codec import HEAD_BYTES, decode_head
from objq.errors import DocumentError
from objq.store.base import (
    ABSENT,
    NOT_MODIFIED,
    Ambiguous,
    Conflict,
    Content,
    Denied,
    Expect,
    Sentinel,
    StoreError,
    Tag,
    Throttled,
    Unavailable,
)
from tests.sim.process import Process

LATEST_S: Final = 60.0
"""The longest after which a write that was given up on may still be applied."""

STALEST_S: Final = 1.0


@dataclass(kw_only=True)
class Weather:
    """How often things go wrong (shares of calls), and how long calls take (seconds)."""

    latency_s: float = 0.05
    tail: float = 0.0
    throttled: float = 0.0
    refused_409: float = 0.0
    failed_before: float = 0.0
    failed_after: float = 0.0
    lost_reply: float = 0.0
    late: float = 0.0
    doubled: float = 0.0
    stale: float = 0.0
    truncated: float = 0.0
    read_failed: float = 0.0

    @classmethod
    def drawn(cls, rng: random.Random, severity: float) -> Weather:
        """Return a weather of some kinds of trouble only, so that each is met alone."""
        shares = {
            field.name: severity * rng.random() ** 2 if rng.random() < 0.5 else 0.0
            for field in fields(cls)
        }
        shares["latency_s"] = rng.choice((0.01, 0.05, 0.2))
        return cls(**shares)


class Mark(NamedTuple):
    """Which version of which document some bytes are."""

    document: str
    epoch: int
    seq: int
    commit: str


class Sent(NamedTuple):
    """When bytes were first sent, and the newest version that their process knew of when they were
    sent again."""

    at: float
    knew: Mark | None


class Version(NamedTuple):
    """One state of the object. `sent_at`: when its bytes were first sent; `by`: who did.

    `knew`: the newest version that its process had been given when it sent what was applied.
    """

    at: float
    data: bytes | None
    tag: Tag
    by: Process | None
    sent_at: float
    kind: str = "write"
    mark: Mark | None = None
    knew: Mark | None = None


@dataclass
class Access:
    """An answered call of one process, or one that told it nothing (`ok` False)."""

    began: float
    ended: float
    ok: bool


class SimStore:
    """The object. `cuts` are places that do not reach it, and how their calls end."""

    def __init__(self, rng: random.Random, now: Callable[[], float], timeout_s: float) -> None:
        self.rng = rng
        self.weather = Weather()
        self.log: list[Version] = []
        self.cuts: dict[str, str] = {}
        self.pace_s = 0.0
        self.timeout_s = timeout_s
        self.accesses: dict[str, list[Access]] = {}
        """By the name of the process."""
        self.has_content_tags = False
        """A tag is a hash of the bytes, as S3's are: bytes put back have the tag they had."""
        self.last_arrival = 0.0
        """When the last write that was given up on arrives."""
        self._now = now
        self._sent: dict[tuple[str, bytes], float] = {}
        self._by_tag: dict[Tag, Version] = {}
        self._last_write = float("-inf")

    @property
    def content(self) -> Content | None:
        if not self.log or self.log[-1].data is None:
            return None
        return Content(self.log[-1].data, self.log[-1].tag)

    def latency_s(self) -> float:
        weather, rng = self.weather, self.rng
        seconds = weather.latency_s * (0.5 + rng.random())
        if weather.tail and rng.random() < weather.tail:
            seconds += rng.expovariate(1 / (self.timeout_s / 3))
        return seconds

    def fails(self, share: float) -> bool:
        return share > 0 and self.rng.random() < share

    def note_sent(self, process: Process, data: bytes, knew: Mark | None) -> Sent:
        first = self._sent.setdefault((process.name, data), self._now())
        return Sent(first, knew)

    def mark_of(self, content: Content) -> Mark | None:
        """Return which version this is, if it is all of one."""
        version = self._by_tag.get(content.tag)
        whole = version is not None and version.data is content.data
        return version.mark if version is not None and whole else None

    def apply(self, process: Process, data: bytes, expect: Expect, sent: Sent) -> Tag:
        """Write if the object is as expected; raise Conflict otherwise."""
        content = self.content
        matches = content is None if expect is ABSENT else content and content.tag == expect
        if not matches:
            raise Conflict("precondition failed")
        return self.put(data, process, sent)

    def put(
        self, data: bytes | None, by: Process | None, sent: Sent | None, kind: str = "write"
    ) -> Tag:
        """Make a new version, whatever was there: an operator's hand, with another `kind`."""
        now = self._now()
        sent = sent or Sent(now, None)
        tag = Tag(f"v{len(self.log) + 1}")
        if self.has_content_tags and data is not None:
            tag = Tag(hashlib.blake2b(data, digest_size=6).hexdigest())
        version = Version(now, data, tag, by, sent.at, kind, _mark(data), sent.knew)
        self.log.append(version)
        self._by_tag[tag] = version
        self._last_write = now
        return tag

    def first_after(self, at: float) -> float:
        """Return when the first version after this time was written."""
        index = bisect_right(self.log, at, key=lambda version: version.at)
        return self.log[index].at if index < len(self.log) else float("inf")

    def is_too_soon(self) -> bool:
        """Tell whether a store with a pace throttles a write now."""
        return self.pace_s > 0 and self._now() - self._last_write < self.pace_s * 0.8

    def as_read(self) -> Content | None:
        """Return what a reader is given: mostly what is there."""
        content = self.content
        if self.fails(self.weather.stale):
            horizon = self._now() - STALEST_S
            past = [version for version in self.log[-4:-1] if version.at >= horizon]
            # Whoever was told of a document that another has replaced would have to be ended again.
            here = self.log[-1].mark if self.log else None
            past = [v for v in past if not (v.mark and here and v.mark.document != here.document)]
            if past:
                old = self.rng.choice(past)
                content = Content(old.data, old.tag) if old.data is not None else None
        if content is not None and self.fails(self.weather.truncated):
            length = self.rng.randrange(max(1, len(content.data)))
            return Content(content.data[:length], content.tag)
        return content


class StoreClient:
    """The `AsyncStore` of one process."""

    name = "sim://queue.json"

    def __init__(self, store: SimStore, process: Process) -> None:
        self._store = store
        self._process = process
        self._timeline = process.timeline
        self.pace_s = store.pace_s
        self.confirmed_at = float("-inf")
        """When the last call that was answered began."""
        self.knows: Mark | None = None
        """The newest version of its document that the process was given."""
        self._accesses = store.accesses.setdefault(process.name, [])

    async def read(self, unless: Tag | None = None) -> Content | Sentinel | None:
        content = await self._read()
        return NOT_MODIFIED if content is not None and content.tag == unless else content

    async def read_head(self) -> Content | None:
        content = await self._read()
        return content and Content(content.data[:HEAD_BYTES], content.tag)

    async def write(self, data: bytes, expect: Expect) -> Tag:
        store, timeline = self._store, self._timeline
        began = timeline.now
        sent = store.note_sent(self._process, data, self.knows)
        told: asyncio.Future[Tag] = self._process.loop.create_future()

        def arrive(reply_s: float | None) -> None:
            """Reach the object; the reply comes after so long, or never."""
            outcome: Tag | StoreError
            try:
                outcome = store.apply(self._process, data, expect, sent)
            except Conflict as conflict:
                outcome = conflict
            if reply_s is not None:
                timeline.call_later(reply_s, _tell, told, outcome)

        if self._process.is_alive:
            self._plan_write(told, arrive)
        try:
            tag = await told
        except StoreError as error:
            self._note(began, ok=isinstance(error, Conflict))
            raise
        self._note(began, ok=True)
        self._learn(_mark(data))
        return tag

    def _plan_write(
        self, told: asyncio.Future[Tag], arrive: Callable[[float | None], None]
    ) -> None:
        """Decide when the write arrives and what its caller hears."""
        store, weather, rng = self._store, self._store.weather, self._store.rng
        later = self._timeline.call_later
        there_s, back_s = store.latency_s(), store.latency_s()
        how = store.cuts.get(self._process.place) or store.cuts.get("*")
        if how is not None:
            self._cut(told, how, Ambiguous("timed out"))
        elif store.fails(weather.throttled) or store.is_too_soon():
            wait_s = rng.choice((None, None, 0.5, 3.0))
            later(there_s, _tell, told, Throttled("slow down", wait_s))
        elif store.fails(weather.refused_409):
            later(there_s, _tell, told, Ambiguous("409: try again"))
        elif store.fails(weather.failed_before):
            later(there_s, _tell, told, Ambiguous("500"))
        elif store.fails(weather.late):
            later(self._late_s(rng.uniform(0, LATEST_S)), arrive, None)
            later(rng.uniform(0, store.timeout_s), _tell, told, Ambiguous("timed out"))
        elif store.fails(weather.failed_after) or store.fails(weather.lost_reply):
            later(there_s, arrive, None)
            wait_s = there_s + rng.choice((back_s, store.timeout_s))
            later(wait_s, _tell, told, Ambiguous("the reply was lost"))
        else:
            later(there_s, arrive, back_s)
            later(store.timeout_s, _tell, told, Ambiguous("timed out"))
            if store.fails(weather.doubled):
                later(self._late_s(there_s + rng.uniform(0, LATEST_S)), arrive, None)

    def _late_s(self, delay_s: float) -> float:
        store = self._store
        store.last_arrival = max(store.last_arrival, self._timeline.now + delay_s)
        return delay_s

    async def _read(self) -> Content | None:
        store, timeline = self._store, self._timeline
        began = timeline.now
        told: asyncio.Future[Content | None] = self._process.loop.create_future()
        how = store.cuts.get(self._process.place) or store.cuts.get("*")
        there_s, back_s = store.latency_s() / 2, store.latency_s() / 2
        if how is not None:
            self._cut(told, how, Unavailable("timed out"))
        elif store.fails(store.weather.read_failed) or there_s + back_s > store.timeout_s:
            timeline.call_later(there_s, _tell, told, Unavailable("503"))
        else:
            timeline.call_later(
                there_s, lambda: timeline.call_later(back_s, _tell, told, store.as_read())
            )
        try:
            content = await told
        except StoreError:
            self._note(began, ok=False)
            raise
        self._note(began, ok=True)
        if content is not None:
            self._learn(store.mark_of(content))
        return content

    def _learn(self, mark: Mark | None) -> None:
        known = self.knows
        newer = known is None or (
            mark is not None and mark.document == known.document and mark.seq > known.seq
        )
        if mark is not None and newer:
            self.knows = mark

    def _cut(
        self,
        told: asyncio.Future[Tag] | asyncio.Future[Content | None],
        how: str,
        timed_out: StoreError,
    ) -> None:
        """Answer without the object: `denied`, `refused`, or `silent` until it times out."""
        later = self._timeline.call_later
        if how == "denied":
            later(
                self._store.weather.latency_s, _tell, told, Denied("the credentials have expired")
            )
        elif how == "refused":
            later(0.001, _tell, told, Unavailable("connection refused"))
        else:
            later(self._store.timeout_s, _tell, told, timed_out)

    def _note(self, began: float, *, ok: bool) -> None:
        self._accesses.append(Access(began, self._timeline.now, ok))
        if ok:
            self.confirmed_at = max(self.confirmed_at, began)


def _mark(data: bytes | None) -> Mark | None:
    if data is None:
        return None
    try:
        header = decode_head(data)
    except DocumentError:
        return None
    return Mark(header.document, header.epoch, header.seq, header.commit)


def _tell(told: asyncio.Future[object], outcome: object) -> None:
    if told.done():
        return
    if isinstance(outcome, StoreError):
        told.set_exception(outcome)
    else:
        told.set_result(outcome)
