"""What the queue knows of a job, as the TaskResult that Django's users see."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import Raw
from msgspec.structs import replace

from objq import results
from objq.compat import TaskError, TaskResultStatus
from objq.core.ops import Attempt, Claim, Grant, JobError, JobView
from objq.errors import TaskCancelled, TaskDead, WorkerLost
from objq.finding import NotATask, find_task
from objq.results import from_grant, from_view
from tests.backend import sample

PATH = "tests.backend.sample.add"


def at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def view(**fields: Any) -> JobView:
    values: dict[str, Any] = {
        "id": "job",
        "queue": "default",
        "task": PATH,
        "args": Raw(b"[1]"),
        "kwargs": Raw(b'{"b":2}'),
        "state": "ready",
        "pushed_at": 1000,
    }
    return JobView(**{**values, **fields})


def attempt(worker: str, started_at: int | None, outcome: Any, **fields: Any) -> Attempt:
    return Attempt(
        token=f"token-{worker}",
        claim=f"claim-{worker}",
        worker=worker,
        claimed_at=(started_at or 0) - 1,
        ended_at=(started_at or 0) + 5,
        started_at=started_at,
        outcome=outcome,
        **fields,
    )


def claim(worker: str, started_at: int | None) -> Claim:
    return Claim(
        token="t",
        id="c",
        worker=worker,
        claimed_at=5000,
        heartbeat_at=5000,
        heartbeat_seq=1,
        started_at=started_at,
    )


BROKEN = JobError(
    type="builtins.ValueError", message="no", traceback="Traceback…\nValueError: no\n"
)
FAILED = attempt("w1", 2000, "failed", error=BROKEN)
LOST = attempt("w2", 3000, "expired", error=JobError(type="objq.errors.WorkerLost", message="lost"))
UNSTARTED = attempt("w3", None, "expired")
RELEASED = attempt("w4", 3500, "released")


def test_a_job_that_waits() -> None:
    result = from_view(view(), "default")
    assert result.id == "job"
    assert result.status is TaskResultStatus.READY
    assert (result.args, result.kwargs, result.backend) == ([1], {"b": 2}, "default")
    assert result.enqueued_at == at(1000)
    assert (result.started_at, result.last_attempted_at, result.finished_at) == (None, None, None)
    assert (result.errors, result.worker_ids, result.attempts) == ([], [], 0)
    assert not result.is_finished
    with pytest.raises(ValueError, match="not finished"):
        _ = result.return_value


@pytest.mark.parametrize(
    ("state", "status"),
    [
        ("scheduled", "READY"),
        ("ready", "READY"),
        ("running", "RUNNING"),
        ("succeeded", "SUCCESSFUL"),
        ("dead", "FAILED"),
        ("cancelled", "FAILED"),
    ],
)
def test_every_state_has_a_status(state: Any, status: str) -> None:
    assert from_view(view(state=state), "default").status == status


def test_the_task_is_as_it_was_pushed() -> None:
    job = view(queue="gone", priority=7, run_after=9000, max_attempts=5, state="scheduled")
    task = from_view(job, "default").task
    assert task.func is sample.add.func
    assert (task.queue_name, task.priority, task.backend) == ("gone", 7, "default")
    assert task.run_after == at(9000)
    assert getattr(task, "max_attempts", None) == 5
    assert sample.add.queue_name == "default"


def test_one_error_for_each_attempt_that_failed_and_one_worker_for_each_that_began() -> None:
    job = view(history=(FAILED, UNSTARTED, LOST), attempts=2)
    result = from_view(job, "default")
    assert result.worker_ids == ["w1", "w2"]
    assert [error.exception_class for error in result.errors] == [ValueError, WorkerLost]
    assert result.errors[0].traceback == BROKEN.traceback
    assert "lost" in result.errors[1].traceback
    assert result.started_at == at(2000)
    assert result.last_attempted_at == at(3000)


def test_the_attempt_that_runs_counts_once_it_began() -> None:
    job = view(state="running", history=(FAILED,), attempts=1, claim=claim("w9", None))
    waiting = from_view(job, "default")
    assert waiting.status is TaskResultStatus.RUNNING
    assert waiting.worker_ids == ["w1"]
    began = from_view(replace(job, attempts=2, claim=claim("w9", 6000)), "default")
    assert began.worker_ids == ["w1", "w9"]
    assert began.last_attempted_at == at(6000)
    assert began.started_at == at(2000)


def test_a_claim_that_was_handed_back_burnt_no_attempt() -> None:
    result = from_view(view(history=(RELEASED, FAILED), attempts=1), "default")
    assert result.worker_ids == ["w1"]


def test_an_operators_retry_begins_anew() -> None:
    result = from_view(view(history=(FAILED, LOST), attempts=0), "default")
    assert (result.errors, result.worker_ids, result.started_at) == ([], [], None)


def test_success() -> None:
    job = view(
        state="succeeded",
        result=Raw(b'{"x":[1,null]}'),
        finished_at=4000,
        attempts=1,
        history=(attempt("w1", 2000, "succeeded"),),
    )
    result = from_view(job, "default")
    assert result.return_value == {"x": [1, None]}
    assert result.finished_at == at(4000)
    assert (result.attempts, result.errors, result.is_finished) == (1, [], True)


def test_a_result_that_was_left_out_says_why() -> None:
    job = view(state="succeeded", result_dropped="the result has 70000 bytes (MAX_RESULT_BYTES)")
    result = from_view(job, "default")
    assert result.status is TaskResultStatus.SUCCESSFUL
    with pytest.raises(ValueError, match=r"not kept: the result has 70000 bytes \(MAX_RESULT_BYTE"):
        _ = result.return_value


def test_dead_after_its_attempts() -> None:
    job = view(state="dead", reason="failed 1 of 1", history=(FAILED,), attempts=1, finished_at=1)
    result = from_view(job, "default")
    assert result.status is TaskResultStatus.FAILED
    assert [error.exception_class for error in result.errors] == [ValueError]
    with pytest.raises(ValueError, match="failed"):
        _ = result.return_value


def test_dead_since_its_workers_were_lost() -> None:
    job = view(state="dead", reason="worker lost", history=(LOST,), attempts=1, finished_at=1)
    (error,) = from_view(job, "default").errors
    assert error.exception_class is WorkerLost


def test_dead_without_any_error_still_says_why() -> None:
    (error,) = from_view(view(state="dead", reason="by hand"), "default").errors
    assert error.exception_class is TaskDead
    assert "by hand" in error.traceback


@pytest.mark.parametrize(
    "history", [(), (attempt("w1", 2000, "cancelled"),), (FAILED,)], ids=["waiting", "ran", "retry"]
)
def test_cancelled(history: tuple[Attempt, ...]) -> None:
    job = view(state="cancelled", reason="cancelled here", history=history, attempts=len(history))
    result = from_view(job, "default")
    assert result.status is TaskResultStatus.FAILED
    assert result.errors[-1].exception_class is TaskCancelled
    assert "cancelled here" in result.errors[-1].traceback
    assert len(result.errors) == 1 + (FAILED in history)


@pytest.mark.parametrize("path", ["no.such.task", "tests.backend.sample.nothing", "nodots"])
def test_a_result_can_be_read_where_its_task_cannot_be_imported(path: str) -> None:
    result = from_view(view(task=path, state="dead", history=(FAILED,), attempts=1), "default")
    assert result.task.module_path.endswith(path)
    assert result.errors[0].exception_class is ValueError
    with pytest.raises(ImportError, match=path):
        result.task.call()


def test_finding_a_task() -> None:
    assert find_task(PATH) is sample.add
    with pytest.raises(NotATask, match="not_a_task' is function, not a task"):
        find_task("tests.backend.sample.not_a_task")
    with pytest.raises(ImportError):
        find_task("os.path.nothing")


def grant(**fields: Any) -> Grant:
    values: dict[str, Any] = {
        "id": "job",
        "token": "t",
        "queue": "default",
        "task": PATH,
        "args": Raw(b"[1]"),
        "kwargs": Raw(b"{}"),
        "attempt": 1,
        "max_attempts": 3,
        "pushed_at": 1000,
        "claimed_at": 1500,
    }
    return Grant(**{**values, **fields})


def test_the_workers_own_result() -> None:
    job = grant(attempt=2, history=(UNSTARTED, FAILED, UNSTARTED))
    result = from_grant(job, sample.add, "default", worker="w7", started_at=8000)
    assert result.status is TaskResultStatus.RUNNING
    assert result.worker_ids == ["w1", "w7"]
    assert result.attempts == 2
    assert len(result.errors) == 1
    assert (result.started_at, result.last_attempted_at) == (at(2000), at(8000))


def test_the_workers_first_attempt_after_an_operators_retry() -> None:
    job = grant(attempt=1, history=(FAILED, LOST))
    result = from_grant(job, sample.add, "default", worker="w7", started_at=8000)
    assert (result.worker_ids, result.errors, result.started_at) == (["w7"], [], at(8000))


def test_the_outcome_is_set_by_the_worker() -> None:
    result = from_grant(grant(), sample.add, "default", worker="w", started_at=2000)
    results.succeed(result, 3, 3000)
    assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, 3)
    assert result.finished_at == at(3000)

    error = TaskError(exception_class_path="builtins.ValueError", traceback="")
    result = from_grant(grant(), sample.add, "default", worker="w", started_at=2000)
    results.fail(result, error, 3000, terminal=False)
    assert (result.status, result.finished_at) == (TaskResultStatus.READY, None)
    results.fail(result, error, 4000, terminal=True)
    assert (result.status, result.finished_at) == (TaskResultStatus.FAILED, at(4000))
    assert result.errors == [error, error]


def test_times_are_naive_and_local_without_time_zones(settings: Any) -> None:
    settings.USE_TZ = False
    settings.TIME_ZONE = "Asia/Tokyo"
    enqueued_at = from_view(view(pushed_at=0), "default").enqueued_at
    assert enqueued_at is not None
    assert enqueued_at.tzinfo is None
    assert enqueued_at.isoformat() == "1970-01-01T09:00:00"
