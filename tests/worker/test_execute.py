"""One attempt of a job in the real executor: threads, the loop of async tasks, timeouts."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from msgspec import UNSET, Raw

from objq import execute
from objq.clock import SYSTEM_CLOCK
from objq.compat import TaskResultStatus, task_backends, task_finished, task_started
from objq.core.ops import Attempt, Completion, Fail, Failure, Grant, JobError
from objq.wire import encode_request
from objq.worker.seam import Control, Outcome
from objq.worker.threads import ThreadExecutor
from tests.worker import sample
from tests.worker.fakes import grant

SAMPLE = "tests.worker.sample"


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    sample.notes.clear()
    sample.hold.clear()
    sample.entered.clear()
    yield
    sample.hold.set()


@pytest_asyncio.fixture
async def executor() -> AsyncIterator[ThreadExecutor]:
    made = ThreadExecutor(threads=2, alias="default", worker="here:1", clock=SYSTEM_CLOCK)
    yield made
    sample.hold.set()
    await asyncio.to_thread(made.stop)


class Heard:
    """The signals that were sent: (name, status of the result, exception being handled)."""

    def __init__(self) -> None:
        self.all: list[tuple[str, str, type[BaseException] | None]] = []
        self.senders: set[Any] = set()
        self.results: list[Any] = []

    def started(self, sender: Any, task_result: Any, **_: Any) -> None:
        self._hear("started", sender, task_result)

    def finished(self, sender: Any, task_result: Any, **_: Any) -> None:
        self._hear("finished", sender, task_result)

    def _hear(self, name: str, sender: Any, task_result: Any) -> None:
        self.all.append((name, task_result.status.value, sys.exc_info()[0]))
        self.senders.add(sender)
        self.results.append(task_result)


@pytest.fixture
def heard() -> Iterator[Heard]:
    heard = Heard()
    task_started.connect(heard.started)
    task_finished.connect(heard.finished)
    yield heard
    task_started.disconnect(heard.started)
    task_finished.disconnect(heard.finished)


def job(task: str, *args: Any, **changes: Any) -> Grant:
    path = task if "." in task else f"{SAMPLE}.{task}"
    return grant(1, task=path, args=Raw(json.dumps(args).encode()), **changes)


async def run(executor: ThreadExecutor, job: Grant, control: Control | None = None) -> Outcome:
    return await asyncio.wait_for(executor.run(job, control or Control()), 30)


async def succeed(executor: ThreadExecutor, job: Grant) -> Any:
    outcome = await run(executor, job)
    assert isinstance(outcome.item, Completion), outcome
    assert outcome.lingering is None
    return json.loads(bytes(outcome.item.result))


async def fail(executor: ThreadExecutor, job: Grant, control: Control | None = None) -> Failure:
    outcome = await run(executor, job, control)
    assert isinstance(outcome.item, Failure), outcome
    assert outcome.item.token == job.token
    return outcome.item


async def test_a_sync_task_returns_its_result(executor: ThreadExecutor) -> None:
    assert await succeed(executor, job("add", 2, 3)) == 5
    with_kwargs = job("add", 2, kwargs=Raw(b'{"b":5}'))
    assert await succeed(executor, with_kwargs) == 7


async def test_an_async_task_returns_its_result(executor: ThreadExecutor) -> None:
    assert await succeed(executor, job("add_later", 2, 3)) == 5


async def test_a_task_gets_its_context(executor: ThreadExecutor) -> None:
    given = await succeed(executor, job("with_context", "x"))
    assert given == ["x", 1, "job-1", False, False]
    assert sample.notes == [(TaskResultStatus.RUNNING, ["here:1"])]
    assert await succeed(executor, job("with_context_later")) == 1


async def test_attempts_before_this_one_are_in_the_context(executor: ThreadExecutor) -> None:
    error = JobError(type="builtins.ValueError", message="first", traceback="first")
    before = Attempt(
        token="t", claim="c", worker="w0", claimed_at=1, started_at=2, ended_at=3,
        outcome="failed", error=error,
    )  # fmt: skip
    given = await succeed(executor, job("with_context", "x", attempt=2, history=(before,)))
    assert given[1] == 2
    assert sample.notes[0][1] == ["w0", "here:1"]


async def test_what_a_task_does_to_its_arguments_does_not_show_in_its_result(
    executor: ThreadExecutor, heard: Heard
) -> None:
    assert await succeed(executor, job("change_arguments", [1, 2, 3])) == 4
    assert heard.results[-1].args == [[1, 2, 3]]


async def test_jobs_that_share_a_thread_share_no_context(executor: ThreadExecutor) -> None:
    languages = {await succeed(executor, job("speak", name)) for name in ("de", "fr", "it")}
    assert len(languages) == 1


# --- what is not a task is never run -------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("no.such.module", "objq.finding.ForeignModule"),
        (f"{SAMPLE}_of_nothing.add", "objq.finding.TaskMissing"),
        (f"{SAMPLE}.no_such_name", "objq.finding.TaskMissing"),
        (f"{SAMPLE}.not_a_task", "objq.finding.NotATask"),
        (f"{SAMPLE}.fake_task", "objq.finding.NotATask"),
        (f"{SAMPLE}.LooksLikeATask", "objq.finding.NotATask"),
        (f"{SAMPLE}.fake_task.func", "objq.finding.TaskMissing"),
        ("os.system", "objq.finding.NotATask"),
        ("builtins.eval", "objq.finding.NotATask"),
        ("nodots", "objq.finding.ForeignModule"),
        ("..", None),
        ("", None),
    ],
)
async def test_only_tasks_are_run(executor: ThreadExecutor, path: str, error: str | None) -> None:
    failure = await fail(executor, grant(1, task=path, args=Raw(b'["true"]')))
    assert error is None or failure.error.type == error
    assert sample.notes == []


async def test_a_task_that_cannot_be_imported_is_retried_as_usual(
    executor: ThreadExecutor, heard: Heard
) -> None:
    assert (await fail(executor, job("no.such.task"))).retry_after is UNSET
    assert [name for name, *_ in heard.all] == ["started"]


@pytest.mark.parametrize("path", [f"{SAMPLE}.newer", f"{SAMPLE}_of_newer.add"])
async def test_a_task_newer_than_the_worker_waits_for_the_deployment_to_reach_it(
    executor: ThreadExecutor, path: str
) -> None:
    """Trap: the web processes had the new code first, and three attempts were over in 6 s."""
    failures = [
        await fail(executor, job(path, attempt=attempt, max_attempts=4)) for attempt in (1, 2, 3, 4)
    ]
    assert [failure.retry_after for failure in failures] == [60, 120, 240, UNSET]
    assert re.search(
        r"; this worker started at \d\d:\d\d:\d\d \(\d{4}-\d\d-\d\d, \S+\): "
        r"restart it if the task is newer, or bring the old name back if it was renamed ",
        failures[0].error.message,
    )


@pytest.mark.parametrize("task", ["with_context", "swallow_nothing"])
async def test_stale_database_connections_are_closed_before_and_after_each_job(
    executor: ThreadExecutor, task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trap: a thread of a worker never sees the end of a request, where Django closes them."""
    threads: list[int] = []

    def close() -> None:
        sample.notes.append("close")
        threads.append(threading.get_ident())

    monkeypatch.setattr(execute, "close_old_connections", close)
    await run(executor, job(task, "text"))
    assert sample.notes[0] == sample.notes[-1] == "close"
    assert len(sample.notes) == 3 and len(threads) == 2
    assert len({*threads, threading.get_ident()}) == 2  # those of the job's thread


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["fail", "fail_later"])
async def test_an_error_is_reported_with_its_path_and_traceback(
    executor: ThreadExecutor, task: str
) -> None:
    error = (await fail(executor, job(task))).error
    assert (error.type, error.message) == ("builtins.ValueError", "no such order")
    assert error.traceback.startswith("Traceback (most recent call last):")
    first = error.traceback.splitlines()[1]
    assert "sample.py" in first  # the worker's own frames are left out
    assert error.traceback.endswith("ValueError: no such order\n")


@pytest.mark.parametrize("task", ["raise_this", "raise_this_later"])
@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("SystemExit", "builtins.SystemExit"),
        ("KeyboardInterrupt", "builtins.KeyboardInterrupt"),
        ("CancelledError", "asyncio.exceptions.CancelledError"),
        ("GeneratorExit", "builtins.GeneratorExit"),
    ],
)
async def test_whatever_is_raised_fails_the_job_and_not_the_worker(
    executor: ThreadExecutor, task: str, name: str, path: str
) -> None:
    assert (await fail(executor, job(task, name))).error.type == path
    assert await succeed(executor, job("add_later", 1, 1)) == 2


async def test_an_exit_in_a_stray_asyncio_task_ends_no_loop(executor: ThreadExecutor) -> None:
    outcome = await run(executor, job("leave_a_stray_exit"))
    assert outcome.item.token == "token-1"
    assert await succeed(executor, job("add_later", 1, 1)) == 2
    assert isinstance(sample.notes[0].exception(), SystemExit)


@pytest.mark.parametrize("name", ["Surrogate", "Unprintable", "Long"])
async def test_an_error_can_always_be_sent(executor: ThreadExecutor, name: str) -> None:
    failure = await fail(executor, job("raise_this", name))
    encode_request(1, Fail(items=(failure,)))


@pytest.mark.parametrize("task", ["raise_this", "raise_this_later"])
@pytest.mark.parametrize("name", ["OddText", "OddType", "OddClass", "OddContext", "StopIteration"])
async def test_an_exception_that_resists_fails_its_job_and_not_the_worker(
    executor: ThreadExecutor, task: str, name: str
) -> None:
    failure = await fail(executor, job(task, name))
    encode_request(1, Fail(items=(failure,)))
    assert await succeed(executor, job("add", 1, 1)) == 2


@pytest.mark.parametrize("bug", [ZeroDivisionError, SystemExit, StopIteration])
async def test_whatever_the_running_of_a_job_raises_fails_the_job(
    executor: ThreadExecutor, monkeypatch: pytest.MonkeyPatch, bug: type[BaseException]
) -> None:
    def broken(*_: Any) -> Any:
        raise bug

    monkeypatch.setattr(execute.Execution, "run", broken)
    assert (await fail(executor, job("add", 1, 1))).error.type == f"builtins.{bug.__name__}"
    monkeypatch.undo()
    assert await succeed(executor, job("add", 1, 1)) == 2


async def test_a_result_that_is_not_json_fails_the_job_and_names_the_path(
    executor: ThreadExecutor, heard: Heard
) -> None:
    failure = await fail(executor, job("give", "bytes"))
    assert 'result["picture"][0]' in failure.error.message.replace("'", '"')
    assert failure.retry_after is None  # it would return the same again
    assert heard.all[-1][:2] == ("finished", "FAILED")
    for what in ("nan", "coroutine function"):
        assert (await fail(executor, job("give", what))).retry_after is None
    assert (await fail(executor, job("give", "set"))).error.message.endswith("Return list(value).")
    assert await succeed(executor, job("give", "tuple")) == [1, 2]


# --- attempts and backoff ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("fail", UNSET),
        ("fail_and_wait", 7.5),
        ("fail_for_good", None),
        ("fail_with_a_broken_backoff", UNSET),
        ("fail_with_an_odd_backoff", UNSET),
        ("fail_with_a_negative_backoff", 0.0),
    ],
)
async def test_the_backoff_of_a_task_decides_when_it_is_tried_again(
    executor: ThreadExecutor, task: str, expected: object
) -> None:
    assert (await fail(executor, job(task))).retry_after == expected


async def test_the_backoff_is_not_asked_after_the_last_attempt(executor: ThreadExecutor) -> None:
    assert (await fail(executor, job("fail_and_wait", attempt=3))).retry_after is UNSET
    assert sample.notes == []


# --- signals -------------------------------------------------------------------------------------


async def test_signals_of_a_job_that_succeeds(executor: ThreadExecutor, heard: Heard) -> None:
    await succeed(executor, job("add", 1, 2))
    assert heard.all == [("started", "RUNNING", None), ("finished", "SUCCESSFUL", None)]
    assert heard.senders == {type(task_backends["default"])}
    assert heard.results[-1].return_value == 3
    assert heard.results[-1].finished_at is not None


async def test_a_failure_with_attempts_left_is_not_finished(
    executor: ThreadExecutor, heard: Heard
) -> None:
    await fail(executor, job("fail"))
    assert [name for name, *_ in heard.all] == ["started"]


@pytest.mark.parametrize(("task", "attempt"), [("fail", 3), ("fail_for_good", 1)])
async def test_the_last_failure_is_finished_while_its_error_is_handled(
    executor: ThreadExecutor, heard: Heard, task: str, attempt: int
) -> None:
    await fail(executor, job(task, attempt=attempt))
    assert heard.all[-1] == ("finished", "FAILED", ValueError)
    assert heard.results[-1].errors[-1].exception_class is ValueError


async def test_a_broken_receiver_harms_nobody(executor: ThreadExecutor) -> None:
    def receiver(**_: Any) -> None:
        raise SystemExit

    task_started.connect(receiver)
    task_finished.connect(receiver)
    try:
        assert await succeed(executor, job("add", 1, 2)) == 3
    finally:
        task_started.disconnect(receiver)
        task_finished.disconnect(receiver)


# --- timeouts ------------------------------------------------------------------------------------


async def test_a_sync_job_past_its_timeout_is_reported_and_keeps_its_thread(
    executor: ThreadExecutor, heard: Heard
) -> None:
    outcome = await run(executor, job("block"))
    assert isinstance(outcome.item, Failure)
    assert outcome.item.error.type == "objq.errors.TaskTimeout"
    assert outcome.item.retry_after == 7.5
    assert "hold.wait(60)" in outcome.item.error.traceback  # says where the thread hangs
    assert outcome.lingering is not None
    assert not executor.idle
    sample.hold.set()
    await asyncio.wait_for(asyncio.ensure_future(outcome.lingering), 30)
    assert [name for name, *_ in heard.all] == ["started"]  # the late end is nobody's outcome


async def test_the_timeout_of_the_last_attempt_is_finished(
    executor: ThreadExecutor, heard: Heard
) -> None:
    await run(executor, job("block", attempt=3))
    name, status, handled = heard.all[-1]
    assert (name, status) == ("finished", "FAILED")
    assert handled is not None
    assert issubclass(handled, TimeoutError)


async def test_an_async_job_past_its_timeout_is_cancelled_and_cleans_up(
    executor: ThreadExecutor,
) -> None:
    outcome = await run(executor, job("sleep_for_ever"))
    assert isinstance(outcome.item, Failure)
    assert outcome.item.error.type == "objq.errors.TaskTimeout"
    assert outcome.lingering is None
    assert sample.notes == ["cleaned up"]


async def test_an_async_job_cannot_swallow_its_timeout(executor: ThreadExecutor) -> None:
    failure = await fail(executor, job("swallow_the_timeout"))
    assert failure.error.type == "objq.errors.TaskTimeout"


async def test_a_job_within_its_timeout_is_left_alone(executor: ThreadExecutor) -> None:
    assert await succeed(executor, job("in_time")) == "in time"


# --- cancellation --------------------------------------------------------------------------------


async def entered() -> None:
    assert await asyncio.to_thread(sample.entered.wait, 30)


async def test_a_running_async_job_is_cancelled_and_cleans_up(
    executor: ThreadExecutor, heard: Heard
) -> None:
    control = Control()
    running = asyncio.create_task(fail(executor, job("sleep_without_limit"), control))
    await entered()
    control.request_cancel()
    assert (await running).error.type == "objq.errors.TaskCancelled"
    assert sample.notes == ["cleaned up"]
    # No exception is handled: Django would log its traceback, of what an operator wanted.
    assert heard.all[-1] == ("finished", "FAILED", None)


async def test_a_running_sync_job_sees_that_it_should_stop(executor: ThreadExecutor) -> None:
    control = Control()
    running = asyncio.create_task(fail(executor, job("block_without_limit"), control))
    await entered()
    control.request_cancel()
    sample.hold.set()
    assert (await running).error.message == "stopped as asked"


async def test_an_interrupted_job_is_not_finished(executor: ThreadExecutor, heard: Heard) -> None:
    control = Control()
    running = asyncio.create_task(fail(executor, job("sleep_without_limit", attempt=3), control))
    await entered()
    control.interrupt()
    assert (await running).error.type == "asyncio.exceptions.CancelledError"
    assert [name for name, *_ in heard.all] == ["started"]


async def test_a_lost_job_sends_no_finish(executor: ThreadExecutor, heard: Heard) -> None:
    control = Control()
    running = asyncio.create_task(run(executor, job("block_without_limit"), control))
    await entered()
    control.lose()
    sample.hold.set()
    assert isinstance((await running).item, Completion)
    assert [name for name, *_ in heard.all] == ["started"]
