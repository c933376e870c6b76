from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connection

from objq.core.ops import Jobs, JobView, QueueStats, Statistics

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_django.fixtures import Settings


TEMPLATES = Path(__file__).resolve().parent.parent.parent / "templates"


@pytest.fixture(autouse=True)
def site(settings: Settings) -> None:
    """The site's own addresses and templates; its jobs run at once, in the test's process."""
    settings.ROOT_URLCONF = "project.urls"
    settings.TEMPLATES = [{**engine, "DIRS": [TEMPLATES]} for engine in settings.TEMPLATES]
    settings.MIDDLEWARE = [
        *settings.MIDDLEWARE,
        "project.middleware.content_security_policy",
    ]
    settings.TASKS = {"default": {"BACKEND": "objq.testing.ImmediateBackend"}}


class FakeQueue:
    """In the place of objq's client: answers what it is given, or raises it."""

    def __init__(self) -> None:
        self.views: dict[str, JobView] = {}
        self.stats_answer = Statistics(
            document="d",
            seq=9,
            epoch=1,
            at=0,
            broker=None,
            size_bytes=1,
            heartbeat_timeout_s=30.0,
            queues={},
        )
        self.error: Exception | None = None

    def __call__(self, alias: str = "default") -> FakeQueue:
        return self

    def stats(self, **_: Any) -> Statistics:
        if self.error is not None:
            raise self.error
        return self.stats_answer

    def get(self, ids: Iterable[str], **_: Any) -> Jobs:
        if self.error is not None:
            raise self.error
        return Jobs(jobs=tuple(self.views.get(id_) for id_ in ids))

    def hold(self, *views: JobView, **totals: int) -> None:
        self.views = {view.id: view for view in views}
        states = [view.state for view in views]
        self.stats_answer = Statistics(
            document="d",
            seq=9,
            epoch=1,
            at=0,
            broker=None,
            size_bytes=1,
            heartbeat_timeout_s=30.0,
            queues={
                "default": QueueStats(
                    running=states.count("running"), dead=states.count("dead"), totals=totals
                )
            },
        )


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> FakeQueue:
    fake = FakeQueue()
    monkeypatch.setattr("objq.connect", fake, raising=False)
    return fake


@pytest.fixture
def empty_index(transactional_db: None) -> None:
    """Start with nothing indexed: what is emptied after a test are the tables of models."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM project_search")
