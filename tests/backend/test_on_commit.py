"""`enqueue()` in a transaction that rolls back pushes all the same; this does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction
from django.test import override_settings

import objq
from objq.arguments import NotJSON
from objq.compat import (
    InvalidTask,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_backends,
)
from objq.errors import QueueFull
from objq.testing import DummyBackend
from tests.backend import sample
from tests.backend.test_tasks import STOCK

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def backend() -> Iterator[DummyBackend]:
    tasks = {"default": {"BACKEND": "objq.testing.DummyBackend", "QUEUES": []}}
    with override_settings(TASKS=tasks):
        dummy = task_backends["default"]
        assert isinstance(dummy, DummyBackend)
        yield dummy


def was_pushed(result: TaskResult[..., Any]) -> bool:
    return result.enqueued_at is not None


def test_the_job_is_pushed_on_commit_under_the_id_that_was_given(backend: DummyBackend) -> None:
    with transaction.atomic():
        result = objq.enqueue_on_commit(sample.add, 1, b=2)
        assert result.status is TaskResultStatus.READY
        assert not was_pushed(result)
        assert backend.results == []
        with pytest.raises(TaskResultDoesNotExist):
            result.refresh()
    (pushed,) = backend.results
    assert pushed.id == result.id
    assert (pushed.args, pushed.kwargs) == ([1], {"b": 2})
    assert was_pushed(result)
    result.refresh()
    assert result.status is TaskResultStatus.READY


def test_nothing_is_pushed_on_rollback(backend: DummyBackend) -> None:
    with transaction.atomic():
        result = objq.enqueue_on_commit(sample.add, 1)
        transaction.set_rollback(True)
    assert backend.results == []
    with pytest.raises(TaskResultDoesNotExist):
        result.refresh()


def test_a_savepoint_that_rolls_back_takes_its_jobs_along(backend: DummyBackend) -> None:
    with transaction.atomic():
        kept = objq.enqueue_on_commit(sample.add, 1)
        with transaction.atomic():
            objq.enqueue_on_commit(sample.add, 2)
            transaction.set_rollback(True)
    assert [result.id for result in backend.results] == [kept.id]


def test_without_a_transaction_it_is_pushed_at_once(backend: DummyBackend) -> None:
    result = objq.enqueue_on_commit(sample.add, 1)
    assert [pushed.id for pushed in backend.results] == [result.id]


def test_arguments_are_checked_and_fixed_when_asked(backend: DummyBackend) -> None:
    with transaction.atomic():
        with pytest.raises(NotJSON):
            objq.enqueue_on_commit(sample.give, b"")
        value = [1]
        objq.enqueue_on_commit(sample.give, value)
        value.append(2)
    assert [result.args for result in backend.results] == [[[1]]]


def test_a_push_that_fails_is_told_to_whoever_commits(
    backend: DummyBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(jobs: Any) -> None:
        raise QueueFull("full")

    monkeypatch.setattr(backend.client(), "push", refuse)
    committing = transaction.atomic()
    committing.__enter__()
    objq.enqueue_on_commit(sample.add, 1)
    with pytest.raises(QueueFull):
        committing.__exit__(None, None, None)


def test_a_backend_that_cannot_name_a_job_first_is_refused() -> None:
    with override_settings(TASKS=STOCK), pytest.raises(InvalidTask, match=r"objq\.testing"):
        objq.enqueue_on_commit(sample.add, 1)


def test_what_is_no_task_is_refused_with_the_way_to_say_it() -> None:
    for slip in (sample.add.enqueue, sample.add.func, "sample.add"):
        with pytest.raises(TypeError, match=r"enqueue_on_commit\(greet, name\)"):
            objq.enqueue_on_commit(slip, 1, 2)  # type: ignore[arg-type]
