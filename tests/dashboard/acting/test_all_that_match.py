"""What is done to all jobs that match a filter: counted, confirmed, and bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from msgspec import Raw

import objq
from objq_dashboard.actions import applying, selection
from tests.dashboard.acting import stage
from tests.dashboard.acting.stage import BASE, act

if TYPE_CHECKING:
    pass


@pytest.mark.usefixtures("broker")
def test_all_that_match_are_counted_confirmed_and_done_page_by_page(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "PAGE", 3)
    monkeypatch.setattr(applying, "AT_ONCE", 4)
    mine, others = stage.dead(10), stage.dead(2, task="shop.tasks.bill")
    query = "task=shop.tasks.send"
    asked = act(operator, "retry", scope="all", page="dead", query=query)
    assert asked.status == 200
    assert asked.form["confirmed"] == ["dead:10"]
    assert "Retry: 10" in asked.page
    assert "shop.tasks.send" in asked.page
    assert set(stage.states(mine)) == {"dead"}
    done = asked.agree()
    assert done.said == [("success", "10 jobs were put at the end of their queues.")]
    assert done.location == f"{BASE}dead/?{query}&backend=default"
    assert set(stage.states(mine)) == {"ready"}
    assert stage.states(others) == ["dead", "dead"]
    (entry,) = LogEntry.objects.all()
    assert entry.object_repr == "10 jobs"


@pytest.mark.usefixtures("broker")
def test_more_than_was_confirmed_is_asked_again(operator: Client) -> None:
    first = stage.dead(2)
    asked = act(operator, "delete", scope="all", page="dead")
    later = stage.dead(1)
    again = asked.agree()
    assert again.status == 200
    assert "Meanwhile there are more" in again.page
    assert again.form["confirmed"] == ["dead:3"]
    assert stage.states([*first, *later]) == ["dead"] * 3
    assert again.agree().said == [("success", "3 jobs were deleted.")]


@pytest.mark.usefixtures("broker")
def test_fewer_than_was_confirmed_are_done(operator: Client) -> None:
    kept, taken = stage.dead(2)
    asked = act(operator, "delete", scope="all", page="dead")
    objq.connect().retry([taken])
    assert asked.agree().said == [("success", "1 job was deleted.")]
    assert stage.states([kept, taken]) == ["gone", "ready"]


@pytest.mark.usefixtures("broker")
def test_a_job_that_changes_after_it_was_found_is_left_alone(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    stays, goes = stage.dead(2)
    asked = act(operator, "delete", scope="all", page="dead")
    find = selection.all_that_match

    def find_and_lose(*args: Any) -> selection.Found:
        found = find(*args)
        objq.connect().retry([goes])
        return found

    monkeypatch.setattr(selection, "all_that_match", find_and_lose)
    said = [text.partition(" <")[0] for _, text in asked.agree().said]
    assert said == ["1 job was deleted.", "1 job was left alone: it is ready now."]
    assert stage.states([stays, goes]) == ["gone", "ready"]


@pytest.mark.usefixtures("broker")
def test_there_is_a_bound_to_what_is_done_at_once(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "MOST", 4)
    ids = stage.dead(6)
    asked = act(operator, "retry", scope="all", page="dead")
    assert "at most 4 are done at once" in asked.page
    said = [text for _, text in asked.agree().said]
    assert said == [
        "4 jobs were put at the end of their queues.",
        "There are more that match. Do it again for those.",
    ]
    assert stage.states(ids).count("ready") == 4


@pytest.mark.usefixtures("broker")
def test_all_of_every_state_never_means_those_that_it_does_not_fit(operator: Client) -> None:
    (sleeps,), (runs,) = stage.dead(), stage.running()
    asked = act(operator, "delete", scope="all", page="jobs")
    assert asked.form["confirmed"] == ["dead:1"]
    asked.agree()
    assert stage.states([sleeps, runs]) == ["gone", "running"]


@pytest.mark.usefixtures("broker")
def test_what_is_masked_is_not_found_by_its_text(operator: Client) -> None:
    shown, masked = (
        stage.push(kwargs=Raw(f'{{"{name}":"hunter2"}}'.encode()))[0]
        for name in ("pet", "password")
    )
    asked = act(operator, "delete", scope="all", page="jobs", query="text=hunter2")
    assert asked.form["confirmed"] == ["ready:1"]
    asked.agree()
    assert stage.states([shown, masked]) == ["gone", "ready"]


@pytest.mark.usefixtures("broker")
def test_a_filter_that_no_job_can_meet_is_refused(operator: Client) -> None:
    query = f"text={'x' * 300}"
    ((level, text),) = act(operator, "retry", scope="all", page="jobs", query=query).said
    assert (level, text[:17]) == ("error", "Nothing was done.")
