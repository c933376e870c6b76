"""A job in memory: its record as it stands in the file, and beside it what the indexes need."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from objq.core.ops import Claim, JobState, JobView, Running

PLACES: Final = ("jobs", "dead", "finished")
"""The lists of the document that jobs stand in, in the order of the file."""

encode_view: Final = msgspec.json.Encoder().encode
_decode_view = msgspec.json.Decoder(JobView).decode


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
    due_at: int | None = None
    """When it became ready by time (ms), for telling how long it waited; in memory only."""

    @property
    def ready_since(self) -> int:
        """Since when a ready job has been ready (ms), as far as this process knows."""
        return max(self.pushed_at, self.due_at or 0)

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


def place_of(state: JobState) -> str:
    """Return the list that a job of this state stands in: `jobs`, `dead` or `finished`."""
    if state == "dead":
        return "dead"
    return "finished" if state in ("succeeded", "cancelled") else "jobs"
