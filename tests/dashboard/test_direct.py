"""MODE "direct": nothing is amiss without a broker, and whoever looks writes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.test import override_settings

import objq
from objq.client.shared import shared
from objq.core import ops
from objq_dashboard.pages import PAGES
from objq_dashboard.source.source import Source, refresh
from tests.dashboard.conftest import statistics, texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from objq_dashboard.page import Page
    from tests.dashboard.conftest import FakeQueue

BACKEND = "objq.backend.ObjqBackend"
DIRECT: dict[str, Any] = {
    "BACKEND": BACKEND,
    "QUEUES": [],
    "OPTIONS": {"STORAGE": "objq", "MODE": "direct"},
}


@pytest.fixture
def folder(tmp_path: Path, clean: None) -> Iterator[Path]:
    """A queue of this process's own, of which there is nothing yet."""
    storage = {
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {"location": str(tmp_path)},
    }
    with override_settings(STORAGES={"objq": storage}, TASKS={"default": DIRECT}):
        try:
            yield tmp_path
        finally:
            shared.reset()


def test_a_look_creates_no_document(folder: Path) -> None:
    def looked(name: str) -> Page:
        refresh("default")
        return PAGES[name].build(Source("default"), {"job": "no-such-job"})

    for name in PAGES:
        health = looked(name).health
        assert (health.level, health.sentence) == ("warn", "There is no queue yet.")
        assert (health.advice, health.command) == ("The first push creates it: enqueue a task.", "")
    assert list(folder.iterdir()) == []
    objq.connect().push([ops.NewJob(id="job", queue="default", task="tasks.t")])
    before = sorted((each.name, each.stat().st_mtime_ns) for each in folder.iterdir())
    for name in PAGES:
        page = looked(name)
        assert page.known and page.health.level == "good"
    assert sorted((each.name, each.stat().st_mtime_ns) for each in folder.iterdir()) == before


@pytest.fixture
def direct(queue: FakeQueue, build: Callable[..., Page]) -> Iterator[Callable[..., Page]]:
    queue.answer = statistics(broker=None)
    with override_settings(TASKS={"default": DIRECT}):
        yield build


def test_workers_are_known_only_to_a_broker(direct: Callable[..., Page], queue: FakeQueue) -> None:
    assert direct("overview").texts["workers"].text == "known only to a broker"
    page = direct("workers")
    assert list(texts(page.tables["workers"])) == ["host-1", "host-2"]
    assert page.texts["more"].text.endswith("none leads; these hold jobs.")
    queue.answer = statistics(broker=None, running=())
    page = direct("workers")
    assert page.texts["none"].text == "Workers are known only to a broker; no job is held just now."
    assert page.texts["start"].text == ""


def test_nobody_is_told_to_start_a_broker(direct: Callable[..., Page], queue: FakeQueue) -> None:
    page = direct("broker")
    assert "none is needed" in page.texts["no_broker"].text
    assert page.texts["no_standby"].text == "There is no broker to stand by for."
    assert page.texts["start_broker"].text == page.texts["start_standby"].text == ""
    queue.world.push("job")
    why = direct("job", job="job").texts["why"].text
    assert why == "It is the next of its queue."


def test_in_broker_mode_it_is_said_how_to_start_one(
    build: Callable[..., Page], queue: FakeQueue
) -> None:
    queue.answer = statistics(broker=None)
    page = build("broker")
    assert page.texts["no_broker"].text == "No broker leads. Start one:"
    assert page.texts["start_broker"].text == "python manage.py runbroker"
