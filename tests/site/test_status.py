from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import Raw

from objq.core.ops import Attempt, Claim, JobView
from objq.errors import Unavailable
from project import jobs
from project.models import IndexJob, Page

if TYPE_CHECKING:
    from django.test import Client

    from tests.site.conftest import FakeQueue

pytestmark = pytest.mark.django_db

EMPTY: dict[str, Any] = {"queue": "default", "args": Raw(b"[]"), "kwargs": Raw(b"{}")}


def push(name: str) -> IndexJob:
    page = Page.objects.create(path=name, title=name.title())
    return IndexJob.objects.create(page=page, job=f"job-{name}")


def claim(at: int) -> Claim:
    return Claim(
        token="t", id="c", worker="w", claimed_at=at, heartbeat_at=at, heartbeat_seq=1, epoch=1
    )


def attempt(claimed_at: int, *, started: bool = True) -> Attempt:
    return Attempt(
        token="t",
        claim="c",
        worker="w",
        claimed_at=claimed_at,
        ended_at=claimed_at + 40,
        outcome="failed",
        started_at=claimed_at if started else None,
    )


def test_nothing_yet(client: Client, queue: FakeQueue) -> None:
    text = client.get("/status/").content.decode()
    assert "No job yet." in text
    assert '<p class="notice is-dead" id="why" role="alert" hidden>' in text


def test_counts_and_states_newest_first(client: Client, queue: FakeQueue) -> None:
    for name in ("done", "runs", "waits", "broken", "lost"):
        push(name)
    Page.objects.filter(path="done").update(indexed_at="2026-01-01T00:00:00Z")
    done = IndexJob.objects.get(job="job-done")
    done.started_at = done.enqueued_at + timedelta(seconds=1.5)
    done.save()
    view: dict[str, Any] = {"task": "t", "pushed_at": 1_000, **EMPTY}
    queue.hold(
        JobView(
            id="job-done", state="succeeded", history=(attempt(1_120),), finished_at=1_160, **view
        ),
        JobView(id="job-runs", state="running", claim=claim(3_500), **view),
        JobView(id="job-waits", state="ready", **view),
        JobView(
            id="job-broken", state="dead", history=(attempt(1_010),), finished_at=9_000, **view
        ),
        pushed=5,
        succeeded=1,
    )
    answer = client.get("/status.json").json()
    assert answer["counts"] == {
        "pages": 5, "indexed": 1, "pushed": 5, "running": 1, "failed": 1, "why": "",
    }  # fmt: skip
    assert [(job["title"], job["label"]) for job in answer["jobs"]] == [
        ("Lost", "not in the queue"),
        ("Broken", "dead"),
        ("Waits", "ready"),
        ("Runs", "running"),
        ("Done", "succeeded"),
    ]
    assert [(job["waited"], job["took"]) for job in answer["jobs"]] == [
        ("", ""),
        ("", "8.0 s"),
        ("", ""),
        ("", ""),
        ("1.5 s", "40 ms"),
    ]
    page = client.get("/status/").content.decode()
    assert '<progress id="progress" value="1" max="5">' in page
    assert '<span class="badge is-running">running</span>' in page


def test_queue_that_does_not_answer_is_said_and_the_page_still_comes(
    client: Client, queue: FakeQueue
) -> None:
    push("page")
    queue.error = Unavailable("No broker answers.")
    answer = client.get("/status.json").json()
    assert answer["counts"]["why"] == "No broker answers."
    assert answer["counts"]["pages"] == 1
    assert answer["counts"]["pushed"] is None
    assert answer["jobs"][0]["label"] == "unknown"
    assert "No broker answers." in client.get("/status/").content.decode()


def test_latest_is_bounded(queue: FakeQueue) -> None:
    page = Page.objects.create(path="p", title="p")
    IndexJob.objects.bulk_create(IndexJob(page=page, job=f"job-{n}") for n in range(50))
    latest = jobs.latest()
    assert len(latest) == jobs.LATEST
    assert latest[0]["id"] == "job-49"


def test_a_claim_that_ended_unstarted_is_no_start() -> None:
    history = (attempt(100, started=False), attempt(300))
    view = JobView(
        id="j",
        task="t",
        state="succeeded",
        pushed_at=50,
        history=history,
        finished_at=400,
        **EMPTY,
    )
    assert jobs.span(view) == (300, 400)
