from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from django.urls import reverse

from objq.client.reading import Reading
from objq.errors import (
    ConfigurationError,
    Corrupt,
    NoDocument,
    ObjqError,
    Unavailable,
    Unknown,
)
from objq_dashboard import overview
from objq_dashboard.wording import SPACE, moment
from tests.core.world import World
from tests.dashboard.conftest import SINCE_MS, statistics

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.test import Client
    from pytest_django.fixtures import Settings

    from tests.dashboard.conftest import FakeQueue

PAGE = "admin:objq_dashboard_queue_changelist"
DATA = "admin:objq_dashboard_queue_overview_json"


def texts(rows: tuple[overview.Row, ...]) -> dict[str, list[str]]:
    return {row.key: [cell.text.replace(SPACE, " ") for cell in row.cells] for row in rows}


def test_what_is_shown(queue: FakeQueue) -> None:
    seen = overview.read("default")
    assert seen.health.sentence == (
        f"Broker 10.0.0.42:3000 leads since {moment(SINCE_MS)}, last commit 0.2{SPACE}s ago."
    )
    assert texts(seen.queues) == {
        "default": ["default", "open", "1 min", "12", "2", "0", "1", "1,500", "1,485"],
        "mail": ["mail", "paused", "—", "0", "0", "2", "0", "0", "0"],
    }
    assert texts(seen.running) == {
        "job-1": ["shop.tasks.send", "default", "host-1", "2", "1 min", "started", "21 s"],
        "job-2": ["shop.tasks.send", "default", "host-2", "1", "0.4 s", "claimed", "0.4 s"],
    }
    facts = texts(seen.broker)
    assert facts["url"] == ["Address", "10.0.0.42:3000"]
    assert facts["commit"] == ["Commit", "48,213"]
    assert facts["size"] == ["Size of the document", "3.4 KiB"]


def test_a_stale_heartbeat_is_marked_and_said(queue: FakeQueue) -> None:
    seen = overview.read("default")
    assert [row.cells[-1].mark for row in seen.running] == ["bad", "good"]
    assert seen.health.level == "warn"
    assert seen.health.advice.startswith("1 job has a stale heartbeat")
    queue.answer = statistics(running=())
    assert overview.read("default").health.level == "good"


def test_no_leader(queue: FakeQueue) -> None:
    queue.answer = statistics(broker=None, running=())
    seen = overview.read("default")
    assert seen.health.level == "warn"
    assert seen.health.command == "python manage.py runbroker"
    assert "url" not in texts(seen.broker)


def test_without_a_broker_the_document_is_read_and_that_is_said(
    queue: FakeQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    world.push("job", queue="mail")
    world.document.broker = statistics().broker
    reading = Reading(world.document, 65.0, 100, world.now + 65_000)
    monkeypatch.setattr(overview, "read_document", lambda alias: reading)
    queue.answer = Unavailable("Nothing at 10.0.0.42:3000.")
    seen = overview.read("default")
    assert seen.health.sentence == (
        f"No broker answers. These are the figures of the document, written 1{SPACE}min ago."
    )
    assert seen.health.command == "python manage.py runbroker"
    assert seen.known
    assert texts(seen.queues)["mail"][2:4] == ["1 min", "1"]
    assert "url" not in texts(seen.broker)


@pytest.mark.parametrize(
    ("error", "sentence", "says", "command"),
    [
        (NoDocument("There is none."), "There is no queue yet.", "Start one", True),
        (Unavailable("Nothing at 10.0.0.42:3000."), "No broker answers.", "10.0.0.42:3000.", True),
        (Unknown("No answer within 2 s."), "No broker answers.", "No answer within 2 s. If", True),
        (Corrupt("It is cut off."), "The queue is not in order.", "It is cut off.", False),
        (ConfigurationError("No STORAGE."), "The settings cannot work.", "No STORAGE.", False),
    ],
)
def test_a_queue_that_cannot_be_asked_is_said_with_what_to_run(
    queue: FakeQueue,
    signed_in: Callable[..., Client],
    error: ObjqError,
    sentence: str,
    says: str,
    command: bool,
) -> None:
    queue.answer = error
    response = signed_in("view_queue").get(reverse(PAGE))
    text = response.content.decode()
    assert response.status_code == 200
    assert sentence in text
    assert says in text
    assert "<div data-objq-known hidden>" in text
    assert ('<pre data-objq-text="command">python manage.py runbroker</pre>' in text) is command


def test_page_and_data_say_the_same(queue: FakeQueue, signed_in: Callable[..., Client]) -> None:
    browser = signed_in("view_queue")
    text = browser.get(reverse(PAGE)).content.decode()
    data = browser.get(reverse(DATA)).json()
    assert data["health"]["sentence"] in text
    assert data["known"] is True
    assert "<div data-objq-known>" in text
    for table in ("queues", "running", "broker"):
        for row in data[table]:
            assert f'<tr data-key="{row["key"]}">' in text
            for cell in row["cells"]:
                assert f">{cell['text']}</t" in text


def test_it_is_a_page_of_the_admin(queue: FakeQueue, signed_in: Callable[..., Client]) -> None:
    response = signed_in("view_queue").get(reverse(PAGE))
    text = response.content.decode()
    assert 'class="breadcrumbs"' in text
    assert 'id="nav-sidebar"' in text
    assert "<h1>Queues</h1>" in text
    assert response["Cache-Control"].startswith("max-age=0")
    assert not re.search(r"<style|\sstyle=|\son\w+=", text)
    assert all("src=" in attributes for attributes in re.findall(r"<script([^>]*)>", text))


def test_text_is_escaped(queue: FakeQueue, signed_in: Callable[..., Client]) -> None:
    queue.answer = Unavailable("<script>alert(1)</script>")
    text = signed_in("view_queue").get(reverse(PAGE)).content.decode()
    assert "<script>alert" not in text


def test_several_backends_have_a_tab_each(
    queue: FakeQueue, signed_in: Callable[..., Client], settings: Settings
) -> None:
    settings.TASKS = {**settings.TASKS, "slow lane": settings.TASKS["default"]}
    browser = signed_in("view_queue")
    text = browser.get(reverse(PAGE), {"backend": "slow lane"}).content.decode()
    assert queue.asked == ["slow lane"]
    assert '<a href="?backend=slow%20lane" aria-current="page">slow lane</a>' in text
    assert browser.get(reverse(PAGE), {"backend": "nonsense"}).status_code == 404
    assert browser.get(reverse(DATA), {"backend": "nonsense"}).status_code == 404


def test_a_site_without_a_backend_of_objq_is_told_how(
    queue: FakeQueue, signed_in: Callable[..., Client], settings: Settings
) -> None:
    settings.TASKS = {"default": {"BACKEND": "objq.compat.ImmediateBackend"}}
    browser = signed_in("view_queue")
    assert "objq.backend.ObjqBackend" in browser.get(reverse(PAGE)).content.decode()
    assert browser.get(reverse(DATA)).status_code == 404
