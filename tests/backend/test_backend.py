"""The backend only translates: what it asks of a client, and what it makes of the answers."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings
from django.utils import timezone
from msgspec import Raw

from objq.arguments import NotJSON
from objq.backend import ObjqBackend
from objq.client import registry
from objq.compat import (
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultMismatch,
    TaskResultStatus,
    task_backends,
    task_enqueued,
)
from objq.conf import BACKEND
from objq.core.ops import ItemOutcome, Jobs, JobView, NewJob, Outcomes, Problem
from objq.errors import ConfigurationError, QueueFull, TooLarge, Unavailable, Unknown
from objq.tasks import ObjqTask
from tests.backend import sample


class Recorder:
    """A client that notes what is asked and answers what a test says."""

    def __init__(self) -> None:
        self.pushed: list[NewJob] = []
        self.asked: list[str] = []
        self.problem: Problem | None = None
        self.error: Exception | None = None
        self.job: JobView | None = None

    def push(self, jobs: Iterable[NewJob]) -> Outcomes:
        if self.error is not None:
            raise self.error
        (job,) = jobs
        self.pushed.append(job)
        return Outcomes(items=(ItemOutcome(id=job.id, state="ready", error=self.problem),))

    def get(self, ids: Iterable[str]) -> Jobs:
        self.asked += ids
        return Jobs(jobs=(self.job,))


class Awaited:
    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    async def push(self, jobs: Iterable[NewJob]) -> Outcomes:
        return self.recorder.push(jobs)

    async def get(self, ids: Iterable[str]) -> Jobs:
        return self.recorder.get(ids)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()

    async def aconnect(alias: str) -> Awaited:
        return Awaited(recorder)

    monkeypatch.setattr(registry, "connect", lambda alias: recorder)
    monkeypatch.setattr(registry, "aconnect", aconnect)
    return recorder


@pytest.fixture
def signals() -> Iterator[list[Any]]:
    heard: list[Any] = []

    def listen(sender: Any, task_result: Any, **kwargs: Any) -> None:
        heard.append((sender, task_result))

    task_enqueued.connect(listen)
    yield heard
    task_enqueued.disconnect(listen)


def test_what_is_pushed(client: Recorder) -> None:
    before = timezone.now()
    result = sample.send.enqueue("a@b.c")
    (job,) = client.pushed
    assert job == NewJob(
        id=result.id,
        task="tests.backend.sample.send",
        queue="mail",
        args=Raw(b'["a@b.c"]'),
        kwargs=Raw(b"{}"),
        priority=5,
        max_attempts=7,
    )
    assert result.status is TaskResultStatus.READY
    assert result.enqueued_at is not None
    assert before <= result.enqueued_at <= timezone.now()
    assert (result.args, result.kwargs, result.backend) == (["a@b.c"], {}, "default")
    assert (result.errors, result.worker_ids, result.task) == ([], [], sample.send)


def test_ids_are_uuids_that_sort_by_time(client: Recorder) -> None:
    first, second = sample.add.enqueue(1), sample.add.enqueue(1)
    assert uuid.UUID(first.id).version == 7
    assert len(first.id) < 64
    assert first.id[:13] <= second.id[:13]


def test_the_backends_attempts_are_the_default(client: Recorder) -> None:
    options = {"STORAGE": "objq", "MAX_ATTEMPTS": 9}
    with override_settings(TASKS={"default": {"BACKEND": BACKEND, "OPTIONS": options}}):
        sample.add.enqueue(1)
    assert client.pushed[0].max_attempts == 9


@pytest.mark.parametrize(
    ("run_after", "expected_ms"),
    [
        (datetime(2030, 1, 1, tzinfo=UTC), 1_893_456_000_000),
        (datetime(2030, 1, 1, 0, 0, 0, 1, tzinfo=UTC), 1_893_456_000_001),
        (datetime(1960, 1, 1, tzinfo=UTC), 0),
    ],
)
def test_run_after_is_never_rounded_down(
    client: Recorder, run_after: datetime, expected_ms: int
) -> None:
    sample.add.using(run_after=run_after).enqueue(1)
    assert client.pushed[0].run_after == expected_ms


NAIVE = datetime(2030, 1, 1)  # noqa: DTZ001


@pytest.mark.parametrize("run_after", [timedelta(hours=1), 60, "2030-01-01", NAIVE], ids=str)
def test_a_run_after_that_is_none_is_told_with_one_that_is(run_after: Any) -> None:
    with pytest.raises(InvalidTask, match=r"timezone\.now\(\) \+ timedelta"):
        sample.add.using(run_after=run_after)


def test_a_naive_run_after_is_local_without_time_zones(client: Recorder, settings: Any) -> None:
    settings.USE_TZ = False
    settings.TIME_ZONE = "Asia/Tokyo"
    naive = datetime.fromisoformat("2030-01-01T09:00:00")
    sample.add.using(run_after=naive).enqueue(1)
    assert client.pushed[0].run_after == 1_893_456_000_000


async def test_the_asynchronous_face_asks_the_same(client: Recorder, signals: list[Any]) -> None:
    result = await sample.add.aenqueue(1, b=2)
    assert client.pushed[0].id == result.id
    assert client.pushed[0].kwargs == Raw(b'{"b":2}')
    assert signals == [(ObjqBackend, result)]
    assert result.enqueued_at is not None


def test_the_signal_is_sent_after_the_durable_write(client: Recorder, signals: list[Any]) -> None:
    result = sample.add.enqueue(1)
    assert signals == [(ObjqBackend, result)]
    client.error = Unavailable("no broker")
    with pytest.raises(Unavailable):
        sample.add.enqueue(1)
    client.error, client.problem = None, Problem(code="queue_full", message="full")
    with pytest.raises(QueueFull):
        sample.add.enqueue(1)
    assert len(signals) == 1


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (float("nan"), "not a JSON number"),
        ({1: 2}, "only text keys"),
        (b"text", "bytes"),
        (timezone.now(), "isoformat"),
    ],
)
def test_arguments_that_only_look_like_json_are_refused(
    client: Recorder, value: Any, what: str
) -> None:
    """Trap: Django's `normalize_json` lets the first two through and changes the third."""
    with pytest.raises(NotJSON, match=rf'kwargs\["value"\].*{what}'):
        sample.give.enqueue(value=value)
    assert client.pushed == []


async def test_they_are_refused_asynchronously_as_well(client: Recorder) -> None:
    with pytest.raises(NotJSON):
        await sample.give.aenqueue(b"")
    assert client.pushed == []


@pytest.mark.parametrize(
    ("code", "error"), [("queue_full", QueueFull), ("too_large", TooLarge), ("unknown", Unknown)]
)
def test_a_refusal_of_the_queue_is_raised(
    client: Recorder, code: str, error: type[Exception]
) -> None:
    client.problem = Problem(code=code, message="because")
    with pytest.raises(error, match="because"):
        sample.add.enqueue(1)


def test_unknown_carries_the_id_of_the_job(client: Recorder) -> None:
    client.problem = Problem(code="unknown", message="the reply was lost")
    with pytest.raises(Unknown) as raised:
        sample.add.enqueue(1)
    assert raised.value.ids == (client.pushed[0].id,)


def test_a_prepared_job_can_be_sent_again_under_its_id(client: Recorder) -> None:
    backend = task_backends["default"]
    assert isinstance(backend, ObjqBackend)
    prepared = backend.prepare(sample.add, [1], {})
    assert client.pushed == []
    assert prepared.result.enqueued_at is None
    backend.send(prepared)
    backend.send(prepared)
    assert client.pushed == [prepared.job, prepared.job]


def test_an_invalid_task_is_refused_at_enqueue(client: Recorder) -> None:
    tasks = {"default": {"BACKEND": BACKEND, "OPTIONS": {"STORAGE": "x"}}}
    refused = pytest.raises(InvalidTask, match="Queue 'mail' is not in")
    with override_settings(TASKS=tasks), refused:
        sample.send.enqueue("a@b.c")
    assert client.pushed == []


def found(**fields: Any) -> JobView:
    return JobView(
        id="job",
        queue="default",
        task="tests.backend.sample.add",
        args=Raw(b"[1]"),
        kwargs=Raw(b"{}"),
        pushed_at=1000,
        **fields,
    )


def test_a_result_is_read_and_refreshed(client: Recorder) -> None:
    client.job = found(state="ready")
    result = sample.add.get_result("job")
    assert client.asked == ["job"]
    assert result.status is TaskResultStatus.READY
    client.job = found(state="succeeded", result=Raw(b"3"), finished_at=2000)
    result.refresh()
    assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, 3)
    client.job = found(state="succeeded", result_dropped="too large")
    result.refresh()
    with pytest.raises(ValueError, match="too large"):
        _ = result.return_value


async def test_a_result_is_read_and_refreshed_asynchronously(client: Recorder) -> None:
    client.job = found(state="ready")
    result = await sample.add.aget_result("job")
    client.job = found(state="succeeded", result=Raw(b"3"), finished_at=2000)
    await result.arefresh()
    assert result.return_value == 3


def test_the_result_of_an_enqueue_can_be_refreshed(client: Recorder) -> None:
    result = sample.add.enqueue(1)
    client.job = found(state="cancelled", reason="cancelled in the queue")
    result.refresh()
    assert result.status is TaskResultStatus.FAILED
    assert "cancelled in the queue" in result.errors[0].traceback


async def test_a_result_that_is_not_there(client: Recorder) -> None:
    with pytest.raises(TaskResultDoesNotExist):
        sample.add.get_result("job")
    with pytest.raises(TaskResultDoesNotExist):
        await sample.add.aget_result("job")


@pytest.mark.parametrize("result_id", ["", "x" * 64, 5, None, uuid.UUID(int=1)])
def test_what_is_no_id_is_not_asked_for(client: Recorder, result_id: Any) -> None:
    with pytest.raises(TaskResultDoesNotExist):
        sample.add.get_result(result_id)
    assert client.asked == []


def test_a_result_of_another_task(client: Recorder) -> None:
    client.job = found(state="ready")
    with pytest.raises(TaskResultMismatch):
        sample.send.get_result("job")


def test_what_the_backend_can_do() -> None:
    backend = task_backends["default"]
    assert backend.task_class is ObjqTask
    assert backend.supports_defer
    assert backend.supports_async_task
    assert backend.supports_get_result
    assert backend.supports_priority


@pytest.mark.parametrize("priority", [-100, 100])
def test_every_priority_is_taken(client: Recorder, priority: int) -> None:
    sample.add_later.using(priority=priority).enqueue(1, 2)
    assert client.pushed[0].priority == priority


def test_a_deferred_task_is_taken(client: Recorder) -> None:
    sample.add.using(run_after=timezone.now() + timedelta(days=1)).enqueue(1)
    assert client.pushed[0].run_after is not None


def test_building_a_backend_looks_at_nothing() -> None:
    """Trap: backends are built while modules are imported, before settings are checked."""
    backend = ObjqBackend("default", {"OPTIONS": {"NO": "SUCH"}})
    with pytest.raises(ConfigurationError, match="Unknown option 'NO'"):
        _ = backend.config


def test_a_backend_can_be_built_before_the_apps_are_ready_and_touches_nothing(
    tmp_path: Path,
) -> None:
    """Trap: `@task` in a models.py builds the backend while Django still loads the apps."""
    location = tmp_path / "queue"
    code = f"""
from importlib.util import find_spec
from django.apps import apps
from django.conf import settings
storage = "django.core.files.storage.FileSystemStorage"
settings.configure(
    INSTALLED_APPS=["objq"] + ([] if find_spec("django.tasks") else ["django_tasks"]),
    STORAGES={{"objq": {{"BACKEND": storage, "OPTIONS": {{"location": {str(location)!r}}}}}}},
    TASKS={{"default": {{"BACKEND": "objq.backend.ObjqBackend",
                       "OPTIONS": {{"STORAGE": "objq", "MODE": "direct"}}}}}},
)
from objq import task
@task
def work(): ...
assert work.get_backend().alias == "default"
assert not apps.apps_ready
"""
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert not location.exists()


def test_threads_have_backends_of_their_own_and_one_client(client: Recorder) -> None:
    """Trap: Django makes one instance per thread."""
    backends: list[Any] = []

    def work() -> None:
        backends.append(task_backends["default"])
        sample.add.enqueue(1)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, backends))) == 3
    assert len(client.pushed) == 3


def test_a_path_that_the_queue_does_not_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample.add.func, "__module__", "m" * 257)
    with pytest.raises(InvalidTask, match="256 characters"):
        task_backends["default"].validate_task(sample.add)


def test_a_queue_that_is_not_listed_names_the_alias_and_those_that_are() -> None:
    params = {"BACKEND": BACKEND, "QUEUES": ["reports", "default"], "OPTIONS": {"STORAGE": "x"}}
    said = (
        r"""Queue 'mail' is not in TASKS\["jobs"\]\["QUEUES"\], which lists default, reports: """
        "add it there."
    )
    with override_settings(TASKS={"jobs": params}), pytest.raises(InvalidTask, match=said):
        sample.add.using(backend="jobs", queue_name="mail")


@pytest.mark.parametrize("name", ["", "x" * 65, "a\nb", "a\x7f", "mail\n"])
def test_a_queue_that_the_queue_does_not_take(name: str) -> None:
    tasks = {"default": {"BACKEND": BACKEND, "QUEUES": [], "OPTIONS": {"STORAGE": "x"}}}
    refused = pytest.raises(InvalidTask, match="1 to 64 characters")
    with override_settings(TASKS=tasks), refused:
        sample.add.using(queue_name=name)


def test_results_can_be_pickled_and_copied(client: Recorder) -> None:
    client.job = found(state="succeeded", result_dropped="too large")
    result = sample.add.get_result("job")
    for again in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result)):
        assert again == result
        with pytest.raises(ValueError, match="too large"):
            _ = again.return_value
