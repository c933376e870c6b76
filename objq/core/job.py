"""A job in memory: its record as it stands in the file, and beside it what the indexes need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec
from msgspec import Struct

from objq.core.ops import Claim, JobState, JobView, Running

PLACES: Final = ("jobs", "dead", "finished")
"""The lists of the document that jobs stand in, in the order of the file."""

encode_view: Final = msgspec.json.Encoder().encode
_decode_view = msgspec.json.Decoder(JobView).decode


class _Stateful(Struct, gc=False):
    """The part of a record that `as_ready` changes."""

    state: JobState


_decode_state = msgspec.json.Decoder(_Stateful).decode


class Job(Struct, gc=False, eq=False):
    """One job: what the indexes need, and `raw`, from which the rest is read when needed."""

    id: str
    queue: str
    state: JobState
    priority: int
    order: int
    raw: bytes
    pushed_at: int
    run_after: int | None = None
    claim: Claim | None = None
    cancel_requested: bool = False
    kept_from_ms: int | None = None
    ready_since: int = 0
    """Since when a ready job has been ready (ms)."""

    def view(self) -> JobView:
        return _decode_view(self.raw)

    def running(self, heard_ago_s: float | None) -> Running:
        """Return a job that is held as a row, for overviews."""
        view = self.view()
        assert view.claim is not None
        return Running(
            id=view.id,
            queue=view.queue,
            task=view.task,
            worker=view.claim.worker,
            claimed_at=view.claim.claimed_at,
            attempt=view.attempt,
            started=view.claim.started_at is not None,
            heard_ago_s=heard_ago_s,
        )

    def __lt__(self, other: Job) -> bool:
        return self.order < other.order


class Ended(Protocol):
    @property
    def ended_at(self) -> int: ...


def became_ready(pushed_at: int, run_after: int | None, history: Sequence[Ended]) -> int:
    """Return since when a ready job has been ready (ms): pushed, due, or handed back."""
    return max(pushed_at, run_after or 0, history[-1].ended_at if history else 0)


def place_of(state: JobState) -> str:
    """Return the list that a job of this state stands in: `jobs`, `dead` or `finished`."""
    if state == "dead":
        return "dead"
    return "finished" if state in ("succeeded", "cancelled") else "jobs"


def as_ready(raw: bytes) -> bytes | None:
    """Return the record of a scheduled job with its state changed to ready and all else as it is.

    None: the record stands in another form than `encode_view` gives it, so that it has to be read.
    The state is looked for from the end, since arguments stand before it, and may hold the same
    text; that the state of the record was met is made sure of.
    """
    head, found, tail = raw.rpartition(b'"state":"scheduled"')
    if not found:
        return None
    changed = b'%b"state":"ready"%b' % (head, tail)
    return changed if _decode_state(changed).state == "ready" else None
