"""Requests that wait for the next commit: everything that arrives while a write is in flight.

The buffer is bounded for whatever adds work (`MAX_REQUESTS`, `MAX_REQUEST_BYTES`); beyond that
those are refused with `overloaded`. The report of an outcome is always admitted: there are never
more of them than claims are live, and each makes room (promise S13)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from sys import getsizeof
from typing import Final

from objq.broker import answering
from objq.core import ops
from objq.core.document import Document
from objq.errors import ObjqError, Overloaded, Unknown

MAX_REQUESTS: Final = 20_000
MAX_REQUEST_BYTES: Final = 32 * 1024 * 1024

OVERHEAD_BYTES: Final = 256
"""What a request, or one of its items, takes in memory besides its texts."""


@dataclass(slots=True, eq=False)
class Entry:
    """One request and who waits for its answer. `deadline`: loop time when a claim stops waiting.

    `outcome` is what the last run of the change made of it; it is told once that is durable.
    """

    op: ops.Change
    future: asyncio.Future[ops.Answer]
    arrival: int
    size_bytes: int
    deadline: float | None = None
    outcome: ops.Answer | ObjqError | None = None
    changed: bool = False
    tried: bool = False
    """An earlier run held it: the version that came of that may be in the store."""
    begun: tuple[int, ...] = ()
    """When the jobs began whose outcome this reports (wall ms)."""

    @property
    def claim_id(self) -> str:
        return self.op.claim if isinstance(self.op, ops.TakeClaim) else ""

    def answer(self, answer: ops.Answer) -> None:
        answering.answer(self.future, answer)

    def refuse(self, error: ObjqError) -> None:
        answering.refuse(self.future, error)


def unknown(op: ops.Op) -> Unknown:
    """Return the error for a request whose fate is not known (S12)."""
    return Unknown(
        "The broker could not find out whether this was applied; repeat it with the same ids.",
        ids=ops.ids_of(op),
    )


def begun_of(document: Document, op: ops.Op) -> tuple[int, ...]:
    """Return when the jobs began of which a request reports that they have run (wall ms)."""
    if not isinstance(op, (ops.Complete, ops.Fail)):
        return ()
    jobs = (document.claims.get(item.token) for item in op.items)
    claims = (job.claim for job in jobs if job is not None)
    return tuple(claim.started_at or claim.claimed_at for claim in claims if claim is not None)


class Inbox:
    """The bounded buffer. `wake` is called when something was added."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.size_bytes = 0
        self._entries: list[Entry] = []
        self._wake = wake
        self._arrivals = 0
        self._wanted = 0
        self._enough = asyncio.Event()

    def __len__(self) -> int:
        return len(self._entries)

    def admit(
        self,
        op: ops.Change,
        future: asyncio.Future[ops.Answer],
        waiting: int,
        retry_after_s: float,
        deadline: float | None = None,
    ) -> Entry:
        """Add a request. `waiting`: claims that wait elsewhere and fill the same limit.

        Raises Overloaded with `retry_after_s` beyond the limits; never for an outcome.
        """
        size_bytes = size_of(op)
        full = (
            len(self._entries) + waiting >= MAX_REQUESTS
            or self.size_bytes + size_bytes > MAX_REQUEST_BYTES
        )
        if full and self._entries and not isinstance(op, ops.REPORTS):
            raise Overloaded(
                "The broker has more requests waiting than it can commit soon; try again later.",
                retry_after_s=retry_after_s,
            )
        self._arrivals += 1
        entry = Entry(op, future, self._arrivals, size_bytes, deadline)
        self._entries.append(entry)
        self.size_bytes += size_bytes
        if len(self._entries) >= self._wanted:
            self._enough.set()
        self._wake()
        return entry

    def take(self) -> list[Entry]:
        """Return all requests in order of arrival, and be empty."""
        entries, self._entries = self._entries, []
        self.size_bytes = 0
        return entries

    def put_back(self, entries: Iterable[Entry]) -> None:
        """Let requests that were taken be the first of those that wait."""
        before = list(entries)
        self._entries = [*before, *self._entries]
        self.size_bytes += sum(entry.size_bytes for entry in before)

    def entries(self) -> list[Entry]:
        return list(self._entries)

    async def wait_for(self, count: int, window_s: float) -> None:
        """Wait until so many requests are here, at most `window_s`."""
        if len(self._entries) >= count:
            return
        self._wanted = count
        self._enough.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._enough.wait(), window_s)
        self._wanted = 0


def size_of(op: ops.Op) -> int:
    """Return about how many bytes of memory a request holds."""
    size_bytes = OVERHEAD_BYTES + sum(map(getsizeof, ops.ids_of(op)))
    items: Iterable[Iterable[int]]
    match op:
        case ops.Push():
            items = ((len(bytes(job.args)), len(bytes(job.kwargs))) for job in op.jobs)
        case ops.Complete():
            items = ((len(bytes(item.result)),) for item in op.items)
        case ops.TakeClaim():
            items = (map(getsizeof, op.queues),)
        case ops.Fail():
            items = (map(getsizeof, _texts(item.error)) for item in op.items)
        case _:
            return size_bytes
    return size_bytes + sum(sum(item) + OVERHEAD_BYTES for item in items)


def _texts(error: ops.JobError) -> tuple[str, str, str]:
    return error.type, error.message, error.traceback
