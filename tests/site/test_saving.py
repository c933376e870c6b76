from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection, transaction

from objq.errors import ObjqError, Overloaded, Unavailable
from project import saving
from project.models import IndexJob, Page

if TYPE_CHECKING:
    from django.test import Client

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("empty_index")]

FORM = {"title": "A guide", "path": "guide", "keywords": "", "body": "Read me first."}


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each push: whether it was sent while a transaction was still open."""
    seen: list[bool] = []

    def send(self: Any, prepared: Any) -> None:
        seen.append(connection.in_atomic_block)

    monkeypatch.setattr("objq.testing.ImmediateBackend.send", send)
    return seen


def test_job_is_pushed_after_the_commit(client: Client, sent: list[bool]) -> None:
    client.post("/new/", FORM)
    assert sent == [False]


def test_a_page_that_is_rolled_back_pushes_no_job(sent: list[bool]) -> None:
    with transaction.atomic():
        saving.save_and_index(Page(path="p", title="t"))
        transaction.set_rollback(True)
    assert sent == []
    assert IndexJob.objects.count() == 0


def fail_with(monkeypatch: pytest.MonkeyPatch, error: ObjqError) -> None:
    def send(self: Any, prepared: Any) -> None:
        raise error

    monkeypatch.setattr("objq.testing.ImmediateBackend.send", send)


def test_saved_but_not_queued_is_said_and_can_be_tried_again(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        fail_with(patch, Unavailable("The store does not answer."))
        response = client.post("/new/", FORM)
    assert response.status_code == 503
    assert response["Retry-After"] == "1"
    text = response.content.decode()
    assert "Saved, but not queued" in text
    assert "The store does not answer." in text
    assert Page.objects.get().indexed_at is None
    assert 'action="/index/guide/"' in text

    assert client.post("/index/guide/")["Location"] == "/pages/guide/"
    assert Page.objects.get().indexed_at is not None


def test_an_overloaded_queue_is_429_with_its_time_to_wait(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_with(monkeypatch, Overloaded("Too much at once.", retry_after_s=2.6))
    response = client.post("/new/", FORM)
    assert response.status_code == 429
    assert response["Retry-After"] == "3"


def test_indexing_again_is_a_post(client: Client) -> None:
    client.post("/new/", FORM)
    assert client.get("/index/guide/").status_code == 405
    assert client.post("/index/nowhere/").status_code == 404
