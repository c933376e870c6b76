"""Jobs as rows: what lists and deltas tell of a job, within a bound however large the job is."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct

from objq.core.job import Job, became_ready
from objq.core.ops import Claim, ErrorSummary, JobError, JobState, JobSummary

MOST_ARGUMENT_BYTES: Final = 1_024
"""Of `args` and `kwargs` together; longer ones are left out of a row."""

MOST_MESSAGE_CHARS: Final = 300


class _Ended(Struct):
    ended_at: int
    error: JobError | None = None


class Brief(Struct):
    """The part of a job's record that rows are made of, and that filters look at."""

    id: str
    queue: str
    task: str
    args: Raw
    kwargs: Raw
    state: JobState
    pushed_at: int
    priority: int = 0
    run_after: int | None = None
    attempts: int = 0
    max_attempts: int = 3
    cancel_requested: bool = False
    claim: Claim | None = None
    history: tuple[_Ended, ...] = ()
    reason: str | None = None
    finished_at: int | None = None

    @property
    def error(self) -> JobError | None:
        """The error of the last attempt, if it ended with one."""
        return self.history[-1].error if self.history else None

    @property
    def ready_since(self) -> int | None:
        if self.state != "ready":
            return None
        return became_ready(self.pushed_at, self.run_after, self.history)


_decode = msgspec.json.Decoder(Brief).decode


def brief(job: Job) -> Brief:
    return _decode(job.raw)


def summary(job: Brief, heard_ago_s: float | None = None) -> JobSummary:
    """Return the row. `heard_ago_s`: seconds since the holder of a running job was heard."""
    short = len(bytes(job.args)) + len(bytes(job.kwargs)) <= MOST_ARGUMENT_BYTES
    claim, error = job.claim, job.error
    return JobSummary(
        id=job.id,
        queue=job.queue,
        task=job.task,
        state=job.state,
        pushed_at=job.pushed_at,
        args=job.args if short else UNSET,
        kwargs=job.kwargs if short else UNSET,
        priority=job.priority,
        run_after=job.run_after,
        ready_since=job.ready_since,
        attempts=job.attempts,
        max_attempts=job.max_attempts,
        cancel_requested=job.cancel_requested,
        worker=claim.worker if claim else None,
        claimed_at=claim.claimed_at if claim else None,
        started_at=claim.started_at if claim else None,
        heard_ago_s=heard_ago_s if claim else None,
        finished_at=job.finished_at,
        reason=job.reason,
        error=_shortened(error) if error else None,
    )


def _shortened(error: JobError) -> ErrorSummary:
    message = error.message
    if len(message) > MOST_MESSAGE_CHARS:
        message = f"{message[:MOST_MESSAGE_CHARS]}…"
    return ErrorSummary(type=error.type, message=message)
