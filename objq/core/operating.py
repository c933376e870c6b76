"""The rules of the operator's requests: cancel, retry, delete, run now, pause, resume (S6, S7).

Each names the state that it expects the job to be in; anything else is a `conflict`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from objq.core import ops
from objq.core.document import Document, QueueState
from objq.core.job import Job, place_of
from objq.core.ops import JobState, JobView
from objq.core.outcomes import once
from objq.core.pushing import check_queue, check_room
from objq.errors import Conflict, NotFound

Step = Callable[[Document, Job, int], JobState | None]
"""Applies a request to a job and returns the state that it is in then; None: it has left."""


def on_jobs(document: Document, op: ops.JobsRequest, now: int) -> ops.Outcomes:
    """Apply the request to each of its jobs that is in the expected state."""
    steps = ((job_id, partial(_on_job, document, op, job_id, now)) for job_id in op.ids)
    return once(document, op, steps, now)


def _on_job(document: Document, op: ops.JobsRequest, job_id: str, now: int) -> JobState | None:
    job = document.find(job_id)
    if job is None:
        raise NotFound(f"There is no job {job_id}.")
    if job.state != op.expected:
        raise Conflict(f"Job {job_id} is {job.state}, not {op.expected}.")
    return _STEPS[type(op)](document, job, now)


def _cancel_job(document: Document, job: Job, now: int) -> JobState:
    if job.state == "running":
        document.change(job, cancel_requested=True)
        return "running"
    if job.state not in ("ready", "scheduled"):
        raise Conflict(f"Job {job.id} has ended already: it is {job.state}.")
    document.finish(job, now, state="cancelled", reason="cancelled in the queue")
    document.totals_of(job.queue).cancelled += 1
    return "cancelled"


def _retry_job(document: Document, job: Job, now: int) -> JobState:
    if job.state not in ("dead", "cancelled"):
        raise Conflict(f"Job {job.id} is {job.state}; only dead and cancelled ones can be retried.")
    view = job.view()
    check_room(document, job.queue, len(job.raw))
    document.remove(job)
    document.add(
        JobView(
            id=view.id,
            queue=view.queue,
            task=view.task,
            args=view.args,
            kwargs=view.kwargs,
            state="ready",
            pushed_at=document.stamp(now),
            priority=view.priority,
            max_attempts=view.max_attempts,
            history=view.history,
        )
    )
    document.totals_of(job.queue).retried += 1
    return "ready"


def _delete_job(document: Document, job: Job, now: int) -> None:
    if job.state == "running":
        raise Conflict(f"Job {job.id} is running; cancel it first.")
    if place_of(job.state) == "jobs":
        document.totals_of(job.queue).deleted += 1
    document.remove(job)


def _run_now(document: Document, job: Job, now: int) -> JobState:
    if job.state != "scheduled":
        raise Conflict(f"Job {job.id} is {job.state}; only a scheduled one can be run now.")
    document.change(job, state="ready", run_after=document.stamp(now))
    return "ready"


def pause(document: Document, op: ops.Pause, now: int) -> ops.Answer:
    """Grant nothing more from the queue until it is resumed."""
    return _set_paused(document, op, now, paused=True)


def resume(document: Document, op: ops.Resume, now: int) -> ops.Answer:
    """Grant from the queue again."""
    return _set_paused(document, op, now, paused=False)


def _set_paused(
    document: Document, op: ops.Pause | ops.Resume, now: int, *, paused: bool
) -> ops.Answer:
    if document.find_request(op.request) is not None:
        return ops.Answer()
    if paused:
        check_queue(document, op.queue)
        document.queues[op.queue] = QueueState(paused=True)
    else:
        document.queues.pop(op.queue, None)
    document.requests.record(op.request, document.stamp(now))
    document.dirty = True
    return ops.Answer()


_STEPS: dict[type[ops.JobsRequest], Step] = {
    ops.Cancel: _cancel_job,
    ops.Retry: _retry_job,
    ops.Delete: _delete_job,
    ops.RunNow: _run_now,
}
