"""Searching: what is found, and that what is masked cannot be found out by searching."""

from __future__ import annotations

import json
from typing import Any

import pytest

from objq.core import ops
from objq.errors import Invalid
from objq_dashboard.source import searching, source
from objq_dashboard.source.searching import wanted
from tests.dashboard.conftest import FakeQueue

LONG = "x" * 2_000
"""Arguments that a row leaves out."""


def found(text: str = "", **query: str) -> list[str]:
    source.expire("default")
    asked = source.Source("default")
    filters = wanted({"text": text, **query})
    return [job.id for job in searching.search(asked.list, asked.get, filters, None).jobs]


def push(queue: FakeQueue, job_id: str, kwargs: Any, *, spaces: bool = False) -> None:
    separators = (", ", ": ") if spaces else (",", ":")
    queue.world.push(job_id, kwargs=json.dumps(kwargs, separators=separators).encode())


@pytest.mark.parametrize("spaces", [False, True])
@pytest.mark.parametrize("more", [{}, {"note": LONG}])
def test_a_masked_value_is_not_found_and_the_rest_is(
    queue: FakeQueue, spaces: bool, more: dict[str, str]
) -> None:
    push(queue, "one", {"to": "ann", "password": "hunter2", **more}, spaces=spaces)
    push(queue, "two", {"to": "bob", "password": "swordfish", **more}, spaces=spaces)
    assert found("hunter2") == []
    assert found("hunt") == []
    assert found('"password":"s') == []
    assert found("ann") == ["one"]
    assert found('"to": "bob"' if spaces else '"to":"bob"') == ["two"]
    assert found("password") == ["one", "two"]


def test_by_id_and_task_it_is_found_also_if_the_text_is_a_secret_as_well(queue: FakeQueue) -> None:
    push(queue, "tasks", {"password": "tasks.t"})
    assert found("task") == ["tasks"]
    assert found("tasks.t") == ["tasks"]


def test_the_same_text_beside_the_secret_is_found(queue: FakeQueue) -> None:
    push(queue, "one", {"password": "hunter2", "note": "not hunter2"})
    assert found("hunter2") == ["one"]


@pytest.mark.parametrize(
    ("field", "label", "most"),
    [
        ("queue", "Queue", 64), ("task", "Task", 256), ("text", "Id, task or arguments", 256),
        ("error", "Error", 256),
    ],
)  # fmt: skip
def test_of_a_text_that_is_too_long_the_field_and_its_limit_are_told(
    field: str, label: str, most: int
) -> None:
    wanted({field: "x" * most})
    with pytest.raises(Invalid) as met:
        wanted({field: "x" * (most + 1)})
    assert f"“{label}” may have {most} characters at most" in met.value.message


def test_a_name_that_no_queue_can_have_is_refused_in_plain_words() -> None:
    with pytest.raises(Invalid) as met:
        wanted({"queue": "a\nb"})
    assert met.value.message == "No queue has a name with such characters."


def test_letters_that_json_escapes_are_found(queue: FakeQueue) -> None:
    push(queue, "one", {"to": "Zoë", "token": "x"})
    assert found("Zoë") == ["one"]


def test_a_page_is_filled_with_what_is_visible(queue: FakeQueue) -> None:
    for number in range(30):
        push(queue, f"hidden-{number:02}", {"password": "abc"})
        push(queue, f"shown-{number:02}", {"note": "abc"})
    asked = source.Source("default")
    page = searching.search(asked.list, asked.get, wanted({"text": "abc"}), None, 10)
    assert [job.id for job in page.jobs] == [f"shown-{number:02}" for number in range(10)]
    assert page.cursor is not None
    assert not page.partial
    rest = searching.search(asked.list, asked.get, wanted({"text": "abc"}), page.cursor, 100)
    assert [job.id for job in rest.jobs] == [f"shown-{number:02}" for number in range(10, 30)]


def test_very_many_hidden_jobs_look_like_none(queue: FakeQueue) -> None:
    queue.world.push(*(f"job-{number}" for number in range(3_000)), kwargs=b'{"api_key":"abc"}')
    asked = source.Source("default")
    page = searching.search(asked.list, asked.get, wanted({"text": "abc"}), None)
    none = searching.search(asked.list, asked.get, wanted({"text": "abd"}), None)
    assert page == none == searching.Found((), None, False, 3_000)


def test_a_long_search_stops_and_says_so(queue: FakeQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "LOOK_FOR_S", -1.0)
    monkeypatch.setattr("objq.core.listing.MAX_SCANNED", 10)
    for number in range(30):
        push(queue, f"job-{number:02}", {})
    asked = source.Source("default")
    page = searching.search(asked.list, asked.get, wanted({"error": "none"}), None)
    assert (page.jobs, page.partial, page.scanned) == ((), True, 10)
    assert page.cursor is not None


@pytest.mark.parametrize(
    "query",
    [
        {"state": "nonsense"},
        {"queue": "q" * 65},
        {"queue": "a\nb"},
        {"task": "t" * 257},
        {"text": "t" * 257},
        {"error": "e" * 257},
    ],
)
def test_a_filter_that_no_job_can_meet_is_refused_and_never_means_all(
    query: dict[str, str],
) -> None:
    with pytest.raises(Invalid):
        wanted(query)


def test_what_a_filter_names() -> None:
    query = {
        "state": "dead",
        "queue": "mail",
        "task": "a.b",
        "text": "x",
        "error": "E",
        "page": "2",
    }
    assert wanted(query) == ops.Filter(
        states=("dead",), queues=("mail",), task="a.b", text="x", error="E"
    )
    assert wanted({"state": "", "text": ""}) == ops.Filter()
