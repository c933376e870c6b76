"""The rules of push: what gets in (promises S7, S8, S9, S13, S15)."""

from __future__ import annotations

from functools import partial
from typing import Final

from objq.core import ops
from objq.core.document import CLAIM_RESERVE_BYTES, Document
from objq.core.jsontext import check_json
from objq.core.ops import JobState, JobView
from objq.core.outcomes import once
from objq.errors import Conflict, QueueFull, TooLarge

FULL_RETRY_AFTER_S: Final = 5.0
"""When to try again what found the document full; it drains at the workers' pace."""


def push(document: Document, op: ops.Push, now: int) -> ops.Outcomes:
    """Append each job that is not there yet; a refused one harms no other."""
    steps = ((job.id, partial(_push_one, document, job, now)) for job in op.jobs)
    return once(document, op, steps, now)


def _push_one(document: Document, job: ops.NewJob, now: int) -> JobState:
    present = document.find(job.id)
    if present is not None:
        if not _same_contents(present.view(), job):
            raise Conflict(f"Job {job.id} is there already, with other contents.")
        return present.state
    size = len(bytes(job.args)) + len(bytes(job.kwargs))
    if size > document.settings.max_job_bytes:
        raise TooLarge(
            f"The arguments of job {job.id} ({job.task}) have {size} bytes, more than "
            f"MAX_JOB_BYTES ({document.settings.max_job_bytes}); store the data elsewhere and pass "
            "its key."
        )
    check_json(bytes(job.args), f"args of job {job.id}", kind=list)
    check_json(bytes(job.kwargs), f"kwargs of job {job.id}", kind=dict)
    check_room(document, job.queue, size)
    stamp = document.stamp(now)
    later = job.run_after is not None and job.run_after > now
    document.add(
        JobView(
            id=job.id,
            queue=job.queue,
            task=job.task,
            args=job.args,
            kwargs=job.kwargs,
            state="scheduled" if later else "ready",
            pushed_at=stamp,
            priority=job.priority,
            run_after=job.run_after if later else None,
            max_attempts=job.max_attempts,
        )
    )
    document.totals_of(job.queue).pushed += 1
    return "scheduled" if later else "ready"


def _same_contents(view: JobView, job: ops.NewJob) -> bool:
    return (
        view.queue == job.queue
        and view.task == job.task
        and view.priority == job.priority
        and view.max_attempts == job.max_attempts
        and bytes(view.args) == bytes(job.args)
        and bytes(view.kwargs) == bytes(job.kwargs)
    )


def check_room(document: Document, queue: str, size_bytes: int) -> None:
    """Raise QueueFull if a job of this size does not fit, with room for its claim (S13)."""
    settings = document.settings
    if len(document.jobs) >= settings.max_jobs:
        raise QueueFull(
            f"{settings.max_jobs} jobs are waiting (MAX_JOBS).", retry_after_s=FULL_RETRY_AFTER_S
        )
    wanted = document.waiting_bytes() + size_bytes + 2 * CLAIM_RESERVE_BYTES
    if wanted > document.room_bytes():
        raise QueueFull(
            f"The waiting jobs fill the document: {document.waiting_bytes()} of "
            f"{document.room_bytes()} bytes (MAX_BYTES).",
            retry_after_s=FULL_RETRY_AFTER_S,
        )
    check_queue(document, queue)


def check_queue(document: Document, queue: str) -> None:
    """Make sure that the queue is not one more than `MAX_QUEUES`.

    Names without a job are forgotten for it, with their totals, those that came first. Raises
    QueueFull where each has jobs or is paused.
    """
    while queue not in (known := document.totals.keys() | document.queues.keys()):
        if len(known) < document.settings.max_queues:
            return
        idle = next((name for name in document.totals if document.is_idle(name)), None)
        if idle is None:
            raise QueueFull(
                f"There are {len(known)} queues already (MAX_QUEUES), each with jobs or paused."
            )
        document.forget_queue(idle)
