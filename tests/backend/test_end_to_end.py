"""From `enqueue` to the result through the real client, wire and rules; the queue is in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import override_settings

from objq.client.shared import shared
from objq.compat import TaskResultDoesNotExist, TaskResultStatus
from objq.conf import BACKEND, options_for
from objq.core.codec import decode, seal
from objq.core.document import Document
from objq.errors import NoDocument, TooLarge, Unavailable
from objq.store.base import ABSENT, Content, Store
from objq.store.open import open_store
from objq.testing import run_jobs
from tests.backend import sample
from tests.client.localbroker import LocalBroker


@pytest.fixture
def store() -> Iterator[Store]:
    options = {"STORAGE": "objq", "ENQUEUE_TIMEOUT": 10}
    storages = {"objq": {"BACKEND": "django.core.files.storage.InMemoryStorage"}}
    tasks = {"default": {"BACKEND": BACKEND, "QUEUES": [], "OPTIONS": options}}
    with override_settings(STORAGES=storages, TASKS=tasks):
        yield open_store("objq", "queue.json")
        shared.reset()


@pytest.fixture
def broker(store: Store) -> Iterator[LocalBroker]:
    with LocalBroker(store) as broker:
        yield broker
        shared.reset()


@pytest.mark.usefixtures("broker")
def test_a_task_is_enqueued_run_and_read() -> None:
    result = sample.add.enqueue(1, b=2)
    again = sample.add.get_result(result.id)
    assert (again.status, again.args, again.kwargs) == (TaskResultStatus.READY, [1], {"b": 2})
    assert [ran.id for ran in run_jobs(real=True)] == [result.id]
    result.refresh()
    assert result.return_value == 3
    assert result.attempts == 1
    assert result.finished_at is not None


@pytest.mark.usefixtures("broker")
async def test_the_same_asynchronously() -> None:
    result = await sample.add_later.aenqueue(1, 2)
    await result.arefresh()
    assert result.status is TaskResultStatus.READY
    with pytest.raises(TaskResultDoesNotExist):
        await sample.add_later.aget_result("no-such-job")


@pytest.mark.usefixtures("broker")
def test_a_task_that_fails_for_good() -> None:
    result = sample.fail.using(max_attempts=1).enqueue("no")
    run_jobs(real=True)
    result.refresh()
    assert result.status is TaskResultStatus.FAILED
    (error,) = result.errors
    assert error.exception_class is ValueError
    assert "ValueError: no" in error.traceback
    assert "execute.py" not in error.traceback


@pytest.mark.usefixtures("broker")
def test_what_is_too_large_is_refused() -> None:
    with pytest.raises(TooLarge):
        sample.give.enqueue("x" * 300_000)
    with pytest.raises(TooLarge):
        sample.give.enqueue("x" * 3_000_000)


def quick(**options: Any) -> override_settings:
    raw = {"STORAGE": "objq", "ENQUEUE_TIMEOUT": 0.5, **options}
    return override_settings(TASKS={"default": {"BACKEND": BACKEND, "QUEUES": [], "OPTIONS": raw}})


def test_without_a_broker_a_push_goes_through_directly(store: Store) -> None:
    document = Document.new("document", options_for().document_settings(), 1)
    store.write(seal(document, "commit", 1, leading=False), ABSENT)
    with quick():
        result = sample.give.enqueue({"a": [1.5, None], "ü": "\x00"})
    content = store.read()
    assert isinstance(content, Content)
    job = decode(content.data).find(result.id)
    assert job is not None
    assert bytes(job.view().args) == '[{"a":[1.5,null],"ü":"\\u0000"}]'.encode()


@pytest.mark.usefixtures("store")
def test_without_a_document_the_error_says_what_to_start() -> None:
    with quick(), pytest.raises(NoDocument, match="runbroker"):
        sample.add.enqueue(1)


def test_without_a_broker_and_fallback_it_raises_in_time(store: Store) -> None:
    document = Document.new("document", options_for().document_settings(), 1)
    store.write(seal(document, "commit", 1, leading=False), ABSENT)
    with quick(DIRECT_FALLBACK=False), pytest.raises(Unavailable):
        sample.add.enqueue(1)


@pytest.mark.usefixtures("store")
def test_in_direct_mode_everything_goes_without_a_broker() -> None:
    with quick(MODE="direct", ENQUEUE_TIMEOUT=10, MAX_JOBS=7):
        result = sample.add.enqueue(1, b=2)
        assert [ran.id for ran in run_jobs(real=True)] == [result.id]
        result.refresh()
        assert result.return_value == 3


@pytest.mark.usefixtures("store")
async def test_in_direct_mode_asynchronously() -> None:
    with quick(MODE="direct", ENQUEUE_TIMEOUT=10):
        result = await sample.add_later.aenqueue(1, 2)
        await result.arefresh()
        assert result.status is TaskResultStatus.READY
        with pytest.raises(TaskResultDoesNotExist):
            await sample.add_later.aget_result("no-such-job")
