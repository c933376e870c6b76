"""From what the queue knows of a job to the TaskResult that Django's users see.

=====================  ============  ====================================================
job                    status        errors
=====================  ============  ====================================================
scheduled, ready       READY         one per attempt that did not work so far
running                RUNNING       the same
succeeded              SUCCESSFUL    the same
dead                   FAILED        the same; `WorkerLost` where the claim expired
cancelled              FAILED        the same, and `TaskCancelled` at the end
=====================  ============  ====================================================

Only attempts that began count (S10), and only those since an operator's last retry.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from msgspec import UNSET

from objq.compat import Task, TaskError, TaskResult, TaskResultStatus
from objq.core.ops import JobView
from objq.errors import TaskCancelled, TaskDead, WorkerLost
from objq.finding import find_task, missing_task, unchecked

if TYPE_CHECKING:
    from objq.core.ops import Attempt, Grant


STATUS: Final = {
    "scheduled": TaskResultStatus.READY,
    "ready": TaskResultStatus.READY,
    "running": TaskResultStatus.RUNNING,
    "succeeded": TaskResultStatus.SUCCESSFUL,
    "dead": TaskResultStatus.FAILED,
    "cancelled": TaskResultStatus.FAILED,
}


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Stands for a return value that was not kept; `why` is a sentence (S13)."""

    why: str


class ObjqResult(TaskResult):  # type: ignore[type-arg]  # not generic in Django
    """A TaskResult that says why there is no return value where it was left out.

    `refresh()` copies a fixed list of attributes, hence a marker in `_return_value`, no new field.
    """

    __slots__ = ()

    @property
    def return_value(self) -> Any:
        """What the task returned; ValueError if it failed, is not done, or left no value."""
        value = self._return_value  # type: ignore[attr-defined]  # set by Django
        if not isinstance(value, LeftOut):
            return super().return_value
        raise ValueError(f"The task succeeded, but its return value was not kept: {value.why}")


def task_as_pushed(task: Task[..., Any], job: JobView | Grant, alias: str) -> Task[..., Any]:
    """Return the task with what the job was pushed with, as `using` would make it.

    Without validation: the job is there, whatever the settings say of its queue by now.
    """
    values = {f.name: getattr(task, f.name) for f in fields(task)}
    run_after = job.run_after if isinstance(job, JobView) else None  # what is granted is due
    values |= {
        "queue_name": job.queue,
        "priority": job.priority,
        "run_after": moment(run_after),
        "backend": alias,
    }
    if "max_attempts" in values:
        values["max_attempts"] = job.max_attempts
    return unchecked(type(task), values)


def from_view(job: JobView, alias: str) -> ObjqResult:
    """Return the result of a job as `get` answers it, also if its task cannot be imported here."""
    try:
        task = find_task(job.task)
    except (Exception, SystemExit) as error:  # anything that a module can raise on its import
        task = missing_task(job.task, error)
    began = _began(job.history)
    running = job.claim if job.claim is not None and job.claim.started_at is not None else None
    count = job.attempts - (running is not None)
    ended = began[len(began) - count :] if 0 < count < len(began) else began if count else ()
    starts = [attempt.started_at for attempt in ended]
    workers = [attempt.worker for attempt in ended]
    if running is not None:
        starts.append(running.started_at or running.claimed_at)
        workers.append(running.worker)
    result = _result(
        task_as_pushed(task, job, alias),
        job,
        alias,
        status=STATUS[job.state],
        errors=_errors(ended) + _last_error(job, ended),
        worker_ids=workers,
        started_at=moment(starts[0]) if starts else None,
        last_attempted_at=moment(starts[-1]) if starts else None,
        finished_at=moment(job.finished_at),
    )
    if job.result_dropped is not None:
        set_return_value(result, LeftOut(job.result_dropped))
    elif job.result is not UNSET:
        set_return_value(result, json.loads(bytes(job.result)))
    return result


def from_grant(
    grant: Grant, task: Task[..., Any], alias: str, *, worker: str, started_at: int
) -> ObjqResult:
    """Return the RUNNING result of a job that `worker` begins at `started_at` (ms).

    It is the worker's own: `succeed` and `fail` set its outcome.
    """
    began = _began(grant.history)
    ended = began[max(0, len(began) - (grant.attempt - 1)) :]
    return _result(
        task_as_pushed(task, grant, alias),
        grant,
        alias,
        status=TaskResultStatus.RUNNING,
        errors=_errors(ended),
        worker_ids=[*(attempt.worker for attempt in ended), worker],
        started_at=moment(ended[0].started_at if ended else started_at),
        last_attempted_at=moment(started_at),
        finished_at=None,
    )


def succeed(result: TaskResult[..., Any], value: Any, now: int) -> None:
    """Make a running result SUCCESSFUL; `value` is the JSON-ready return value, `now` in ms."""
    set_return_value(result, value)
    _set(result, status=TaskResultStatus.SUCCESSFUL, finished_at=moment(now))


def fail(result: TaskResult[..., Any], error: TaskError, now: int, *, terminal: bool) -> None:
    """Add a failed attempt: FAILED if `terminal`, else READY for the next one; `now` in ms."""
    _set(result, errors=[*result.errors, error])
    if terminal:
        _set(result, status=TaskResultStatus.FAILED, finished_at=moment(now))
    else:
        _set(result, status=TaskResultStatus.READY)


def new_result(
    task: Task[..., Any], job_id: str, args: Sequence[Any], kwargs: Mapping[str, Any], alias: str
) -> ObjqResult:
    """Return the READY result of a job that is about to be pushed."""
    return ObjqResult(
        task=task,
        id=job_id,
        status=TaskResultStatus.READY,
        enqueued_at=None,
        started_at=None,
        last_attempted_at=None,
        finished_at=None,
        args=list(args),
        kwargs=dict(kwargs),
        backend=alias,
        errors=[],
        worker_ids=[],
    )


def moment(ms: int | None) -> datetime | None:
    """Return a time of the document as Django wants it: aware with USE_TZ, else naive and local."""
    if ms is None:
        return None
    aware = datetime.fromtimestamp(ms / 1000, UTC)
    return aware if settings.USE_TZ else aware.astimezone().replace(tzinfo=None)


def set_return_value(result: TaskResult[..., Any], value: Any) -> None:
    _set(result, _return_value=value)


def set_enqueued(result: TaskResult[..., Any], at: datetime) -> None:
    _set(result, enqueued_at=at)


def _result(task: Task[..., Any], job: JobView | Grant, alias: str, **fields_: Any) -> ObjqResult:
    return ObjqResult(
        task=task,
        id=job.id,
        enqueued_at=moment(job.pushed_at),
        args=json.loads(bytes(job.args)),
        kwargs=json.loads(bytes(job.kwargs)),
        backend=alias,
        **fields_,
    )


def _began(history: Sequence[Attempt]) -> list[Attempt]:
    return [attempt for attempt in history if attempt.started_at is not None]


def _errors(attempts: Sequence[Attempt]) -> list[TaskError]:
    return [error for attempt in attempts if (error := _error(attempt)) is not None]


def _error(attempt: Attempt) -> TaskError | None:
    if attempt.error is not None:
        text = attempt.error.traceback or f"{attempt.error.type}: {attempt.error.message}"
        return TaskError(exception_class_path=attempt.error.type, traceback=text)
    if attempt.outcome == "expired":
        return _own_error(WorkerLost, f"worker {attempt.worker or 'unknown'} was lost")
    if attempt.outcome == "failed":
        return _own_error(TaskDead, "the attempt failed; its error was not reported")
    return None


def _last_error(job: JobView, attempts: Sequence[Attempt]) -> list[TaskError]:
    if job.state == "cancelled":
        return [_own_error(TaskCancelled, job.reason or "the job was cancelled")]
    if job.state == "dead" and not _errors(attempts):
        return [_own_error(TaskDead, job.reason or "the job used up its attempts")]
    return []


def _own_error(cls: type[Exception], text: str) -> TaskError:
    path = f"{cls.__module__}.{cls.__qualname__}"
    return TaskError(exception_class_path=path, traceback=f"{path}: {text}")


def _set(result: TaskResult[..., Any], **values: Any) -> None:
    for name, value in values.items():
        object.__setattr__(result, name, value)
