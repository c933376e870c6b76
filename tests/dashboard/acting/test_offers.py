"""What the pages offer, and what is done to queues."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.utils.html import escape

import objq
from objq.core.ops import NewJob
from objq_dashboard.actions.actions import JOB_ACTIONS
from tests.dashboard.acting import stage
from tests.dashboard.acting.stage import BASE, act

if TYPE_CHECKING:
    pass


@pytest.mark.usefixtures("broker")
@pytest.mark.parametrize(
    ("page", "offered"),
    [
        ("", ["pause", "resume"]),
        ("jobs/", ["retry", "run_now", "cancel", "delete"]),
        ("jobs/?state=ready", ["cancel", "delete"]),
        ("jobs/?state=scheduled", ["run_now", "cancel", "delete"]),
        ("jobs/?state=running", ["cancel"]),
        ("jobs/?state=succeeded", ["delete"]),
        ("jobs/?state=cancelled", ["retry", "delete"]),
        ("dead/", ["retry", "delete"]),
        ("workers/", []),
        ("broker/", []),
    ],
)
def test_a_page_offers_what_fits_it(operator: Client, page: str, offered: list[str]) -> None:
    stage.push()
    text = operator.get(f"{BASE}{page}").content.decode()
    assert re.findall(r'name="action" value="(\w+)"', text) == offered
    assert not re.search(r"<style|\sstyle=|\son\w+=", text)


@pytest.mark.usefixtures("broker")
def test_the_page_of_a_job_shows_what_fits_its_state(operator: Client) -> None:
    (job,) = stage.scheduled()
    text = operator.get(f"{BASE}jobs/{job}/").content.decode()
    buttons = re.findall(r'<button [^>]*name="action" value="(\w+)"([^>]*)>', text)
    assert [name for name, rest in buttons if not rest.endswith("hidden")] == [
        *("run_now", "cancel", "delete")
    ]
    assert '<input type="hidden" name="seen" value="scheduled">' in text
    assert 'name="action"' not in operator.get(f"{BASE}jobs/no-such-job/").content.decode()


@pytest.mark.usefixtures("broker")
def test_an_id_may_have_any_letters(operator: Client) -> None:
    """A job's id is its client's own."""
    for job in ("a/b", "jobs/1", "100%", "ä ö", "a?b=c", "a&b", "<b>"):
        objq.connect().push([NewJob(id=job, task=stage.TASK)])
        answer = act(operator, "cancel", [job], page="job", seen="ready")
        assert stage.states([job]) == ["cancelled"]
        page = operator.get(answer.location).content.decode()
        assert f'name="key" value="{escape(job)}"' in page


@pytest.mark.usefixtures("broker")
def test_queues_are_paused_and_resumed(operator: Client) -> None:
    stage.push(queue="mail")
    paused = act(operator, "pause", ["mail"], page="overview")
    assert paused.location == f"{BASE}?backend=default"
    assert paused.said[0][0] == "success"
    assert paused.said[0][1].startswith("Paused: mail.")
    assert objq.connect().stats().queues["mail"].paused
    act(operator, "resume", ["mail"], page="overview")
    assert not objq.connect().stats().queues["mail"].paused
    entries = LogEntry.objects.order_by("pk")
    assert [(entry.object_id, entry.object_repr) for entry in entries] == [
        ("mail", "queue mail")
    ] * 2
    assert [entry.change_message for entry in entries] == [
        "Pause queues in the backend default: 1 done. mail",
        "Resume queues in the backend default: 1 done. mail",
    ]
    ((level, _),) = act(operator, "pause", [], page="overview").said
    assert level == "warning"


def test_what_is_offered_is_what_the_core_does() -> None:
    assert {name: action.states for name, action in JOB_ACTIONS.items()} == {
        "retry": {"dead", "cancelled"},
        "run_now": {"scheduled"},
        "cancel": {"ready", "scheduled", "running"},
        "delete": {"ready", "scheduled", "dead", "succeeded", "cancelled"},
    }
