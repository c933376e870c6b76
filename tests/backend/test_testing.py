"""The backends for other people's tests behave as the real one, without broker and store."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import override_settings
from django.utils import timezone
from msgspec.structs import replace

import objq
from objq.arguments import NotJSON
from objq.clock import SYSTEM_CLOCK
from objq.compat import (
    InvalidTask,
    TaskResultStatus,
    task_backends,
    task_enqueued,
    task_finished,
    task_started,
)
from objq.core.ops import Hello, NewJob, TakeClaim
from objq.errors import Invalid, QueueFull, TooLarge, Unsupported
from objq.finding import ForeignModule
from objq.testing import DummyBackend, ImmediateBackend, arun_jobs, clear, run_jobs
from tests.backend import sample
from tests.backend.test_arguments import REFUSED


def configured(cls: str, **options: Any) -> override_settings:
    backend = {"BACKEND": f"objq.testing.{cls}", "QUEUES": [], "OPTIONS": options}
    return override_settings(TASKS={"default": backend})


@pytest.fixture
def dummy() -> Iterator[DummyBackend]:
    with configured("DummyBackend"):
        backend = task_backends["default"]
        assert isinstance(backend, DummyBackend)
        yield backend


@pytest.fixture
def _immediate() -> Iterator[None]:
    with configured("ImmediateBackend"):
        yield


@pytest.fixture
def signals() -> Iterator[list[str]]:
    heard: list[str] = []

    def listen(signal: Any, sender: Any, task_result: Any, **kwargs: Any) -> None:
        heard.append(f"{names[signal]} {task_result.status}")
        assert issubclass(sender, DummyBackend)

    names = {task_enqueued: "enqueued", task_started: "started", task_finished: "finished"}
    for signal in names:
        signal.connect(listen)
    yield heard
    for signal in names:
        signal.disconnect(listen)


@pytest.mark.parametrize("cls", ["DummyBackend", "ImmediateBackend"])
class TestRefusals:
    """Both refuse what the real one refuses."""

    @pytest.mark.parametrize("name", REFUSED)
    def test_arguments(self, cls: str, name: str) -> None:
        with configured(cls), pytest.raises(NotJSON, match=r"^args\[0\]"):
            sample.give.enqueue(REFUSED[name][0])

    def test_size(self, cls: str) -> None:
        told = r"\(.*sample\.give\) have .* MAX_JOB_BYTES"
        with configured(cls, MAX_JOB_BYTES=2000), pytest.raises(TooLarge, match=told):
            sample.give.enqueue("x" * 2000)

    def test_a_full_queue(self, cls: str) -> None:
        later = sample.add.using(run_after=timezone.now() + timedelta(hours=1))
        with configured(cls, MAX_JOBS=1):
            later.enqueue(1)
            with pytest.raises(QueueFull):
                later.enqueue(1)

    def test_options_of_a_task(self, cls: str) -> None:
        with configured(cls):
            assert objq.task(max_attempts=2, timeout=1)(sample.add.func).timeout == 1
            with pytest.raises(InvalidTask):
                objq.task(max_attempts=0)(sample.add.func)

    def test_options_of_the_backend(self, cls: str) -> None:
        with configured(cls, MAX_JOBZ=1):
            (message,) = task_backends["default"].check()
            assert message.id == "objq.E001"
        with configured(cls):
            assert task_backends["default"].check() == []


def test_jobs_wait_until_they_are_run(dummy: DummyBackend, signals: list[str]) -> None:
    result = sample.add.enqueue(1, b=2)
    assert result.status is TaskResultStatus.READY
    assert [job.id for job in dummy.results] == [result.id]
    (ran,) = run_jobs()
    assert (ran.id, ran.status, ran.return_value) == (result.id, "SUCCESSFUL", 3)
    assert ran.worker_ids == ["objq.testing"]
    assert signals == ["enqueued READY", "started RUNNING", "finished SUCCESSFUL"]
    assert run_jobs() == []


def test_jobs_run_by_priority_and_then_in_order(dummy: DummyBackend) -> None:
    first = sample.add.enqueue(1)
    second = sample.add.enqueue(2)
    urgent = sample.add.using(priority=1).enqueue(3)
    assert [ran.id for ran in run_jobs()] == [urgent.id, first.id, second.id]


def test_only_the_queues_that_are_asked_for(dummy: DummyBackend) -> None:
    sample.add.enqueue(1)
    mail = sample.send.enqueue("a@b.c")
    assert [ran.id for ran in run_jobs(queues=["mail"])] == [mail.id]


def test_retries_wait_for_their_time(dummy: DummyBackend) -> None:
    sample.fail.enqueue("no")
    (ran,) = run_jobs()
    assert ran.status is TaskResultStatus.READY
    assert [error.exception_class for error in ran.errors] == [ValueError]
    assert run_jobs() == []
    (ran,) = run_jobs(until=timezone.now() + timedelta(minutes=1))
    assert ran.status is TaskResultStatus.FAILED
    assert ran.attempts == len(ran.errors) == 2
    assert "ValueError: no" in ran.errors[1].traceback


def test_deferred_jobs_run_when_it_is_their_time(dummy: DummyBackend) -> None:
    now = timezone.now()
    sample.add.using(run_after=now + timedelta(hours=1)).enqueue(1)
    assert run_jobs(until=now + timedelta(minutes=59)) == []
    (ran,) = run_jobs(until=now + timedelta(minutes=61))
    assert ran.status is TaskResultStatus.SUCCESSFUL


def test_a_task_that_cannot_be_imported_fails(dummy: DummyBackend) -> None:
    prepared = dummy.prepare(sample.add, [1], {})
    dummy.client().push([replace(prepared.job, task="no.such.task", max_attempts=1)])
    (ran,) = run_jobs()
    assert ran.status is TaskResultStatus.FAILED
    assert ran.errors[0].exception_class is ForeignModule


def test_results_are_in_the_order_in_which_they_were_enqueued(dummy: DummyBackend) -> None:
    enqueued = [sample.add.using(priority=number % 3).enqueue(number).id for number in range(20)]
    assert [result.id for result in dummy.results] == enqueued
    run_jobs(most=7)
    assert [result.id for result in dummy.results] == enqueued


def test_at_most_so_many(dummy: DummyBackend) -> None:
    for number in range(3):
        sample.add.enqueue(number)
    assert len(run_jobs(most=2)) == 2


@pytest.mark.usefixtures("dummy")
async def test_the_asynchronous_faces() -> None:
    result = await sample.add_later.aenqueue(1, 2)
    await arun_jobs()
    await result.arefresh()
    assert result.return_value == 3


def test_clearing(dummy: DummyBackend) -> None:
    for forget in (dummy.clear, clear):
        sample.add.enqueue(1)
        forget()
        assert dummy.results == []


def test_settings_that_change_clear_as_well() -> None:
    with configured("DummyBackend"):
        sample.add.enqueue(1)
    with configured("DummyBackend"):
        assert run_jobs() == []


@pytest.mark.usefixtures("_immediate")
class TestImmediate:
    def test_a_job_has_run_when_enqueue_returns(self, signals: list[str]) -> None:
        result = sample.add.enqueue(1, b=2)
        assert result.return_value == 3
        assert signals == ["enqueued READY", "started RUNNING", "finished SUCCESSFUL"]

    def test_on_any_queue(self) -> None:
        assert sample.send.enqueue("a@b.c").is_finished

    def test_an_async_task(self) -> None:
        assert sample.add_later.enqueue(1, 2).return_value == 3

    async def test_from_async_code(self) -> None:
        assert (await sample.add.aenqueue(1, b=1)).return_value == 2
        assert (await sample.add_later.aenqueue(1, 2)).return_value == 3

    def test_the_context(self) -> None:
        result = sample.with_context.enqueue("x")
        assert result.return_value == {"name": "x", "attempt": 1, "id": result.id}

    def test_retries_do_not_wait(self) -> None:
        result = sample.fail.enqueue("no")
        assert result.status is TaskResultStatus.FAILED
        assert result.attempts == len(result.errors) == 2

    def test_a_deferred_job_stays(self) -> None:
        result = sample.add.using(run_after=timezone.now() + timedelta(hours=1)).enqueue(1)
        assert result.status is TaskResultStatus.READY

    def test_a_result_that_is_not_json_fails(self) -> None:
        (error,) = sample.opaque.enqueue().errors  # once: it would return the same again
        assert error.exception_class is NotJSON

    def test_a_result_that_is_too_large_is_left_out(self) -> None:
        with configured("ImmediateBackend", MAX_RESULT_BYTES=10):
            result = sample.give.enqueue("x" * 100)
            assert result.status is TaskResultStatus.SUCCESSFUL
            with pytest.raises(ValueError, match="MAX_RESULT_BYTES"):
                _ = result.return_value

    @pytest.mark.django_db
    @pytest.mark.parametrize("task", [sample.make_group, sample.make_group_later])
    def test_jobs_see_the_transaction_of_the_test(self, task: Any) -> None:
        Group.objects.create(name="before")
        assert task.enqueue("after").return_value == 2
        assert Group.objects.filter(name="after").exists()


def test_an_immediate_backend_is_a_dummy_that_runs() -> None:
    assert issubclass(ImmediateBackend, DummyBackend)


def test_only_our_backends_can_be_run() -> None:
    refused = pytest.raises(TypeError, match="no backend of objq")
    with override_settings(TASKS={"default": {"BACKEND": sample.STOCK_DUMMY}}), refused:
        run_jobs()


def test_the_queue_of_a_test_refuses_what_it_does_not_know(dummy: DummyBackend) -> None:
    with pytest.raises(Unsupported):
        dummy.client().call(Hello(client="x"))
    assert dummy.client().call(TakeClaim(claim="x")).jobs == ()


def test_a_queue_may_be_used_for_longer_than_requests_are_remembered(
    dummy: DummyBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample.add.enqueue(1, 2)
    later_ms = SYSTEM_CLOCK.wall_ms() + 86_400_000
    monkeypatch.setattr(type(SYSTEM_CLOCK), "wall_ms", lambda self: later_ms)
    sample.add.enqueue(3, 4)
    sample.add.enqueue(5, 6)
    assert [result.return_value for result in run_jobs()] == [3, 7, 11]


def test_what_a_broker_would_refuse_is_refused(dummy: DummyBackend) -> None:
    job = NewJob(id="j", task="a.b", run_after=1764430000123.5)  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="run_after"):
        dummy.client().push([job])
    assert dummy.client().get(["j"]).jobs == (None,)


def test_the_real_queue_is_not_run_by_mistake() -> None:
    with (
        override_settings(
            TASKS={
                "default": {
                    "BACKEND": "objq.backend.ObjqBackend",
                    "OPTIONS": {"STORAGE": "default"},
                }
            }
        ),
        pytest.raises(TypeError, match=r"real queue.*objq\.testing.*real=True"),
    ):
        run_jobs()


async def test_in_a_running_loop_it_says_what_to_await(dummy: DummyBackend) -> None:
    await sample.add.aenqueue(1, 2)
    with pytest.raises(TypeError, match=r"await objq\.testing\.arun_jobs\(\)"):
        run_jobs()
    assert [result.return_value for result in await arun_jobs()] == [3]
