"""What is done to one job, and to those that were ticked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

import objq
from objq.core.ops import Completion
from objq_dashboard.actions import messages
from tests.dashboard.acting import stage
from tests.dashboard.acting.stage import BASE, act

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_django.fixtures import Settings


@pytest.mark.usefixtures("broker")
@pytest.mark.parametrize(
    ("action", "make", "seen", "after", "says"),
    [
        ("retry", stage.dead, "dead", "ready", "1 job was put at the end of its queue."),
        ("run_now", stage.scheduled, "scheduled", "ready", "1 job is ready now."),
        ("cancel", stage.push, "ready", "cancelled", "1 job was cancelled."),
        ("cancel", stage.scheduled, "scheduled", "cancelled", "1 job was cancelled."),
    ],
)
def test_an_action_on_one_job(
    operator: Client,
    action: str,
    make: Callable[[], list[str]],
    seen: str,
    after: str,
    says: str,
) -> None:
    ids = make()
    answer = act(operator, action, ids, page="job", seen=seen)
    assert (answer.status, answer.location) == (302, f"{BASE}jobs/{ids[0]}/?backend=default")
    assert answer.said == [("success", says)]
    assert stage.states(ids) == [after]


@pytest.mark.usefixtures("broker")
def test_delete_asks_first_and_then_leads_to_the_list(operator: Client) -> None:
    ids = stage.dead()
    asked = act(operator, "delete", ids, page="job", seen="dead")
    assert asked.status == 200
    assert "Delete these jobs?" in asked.page
    assert ids[0] in asked.page
    assert stage.states(ids) == ["dead"]
    assert not LogEntry.objects.exists()
    done = asked.agree()
    assert done.said == [("success", "1 job was deleted.")]
    assert done.location == f"{BASE}jobs/?backend=default"
    assert stage.states(ids) == ["gone"]


@pytest.mark.usefixtures("broker")
def test_cancelling_a_running_job_asks_its_worker(operator: Client) -> None:
    ids = stage.running()
    ((level, text),) = act(operator, "cancel", ids, page="job", seen="running").said
    assert level == "success"
    assert text.startswith("The worker of 1 running job was asked to stop.")
    assert stage.states(ids) == ["running"]
    (job,) = objq.connect().get(ids).jobs
    assert job is not None
    assert job.cancel_requested


@pytest.mark.usefixtures("broker")
@pytest.mark.parametrize(
    ("action", "verb"), [("delete", "never deleted. Cancel it first."), ("retry", "never retried.")]
)
def test_a_job_that_runs_by_now_is_left_alone(operator: Client, action: str, verb: str) -> None:
    (job,) = ids = stage.dead()
    answer = act(operator, action, ids, seen="dead")
    if action == "retry":
        stage.claim(ids)  # it was retried and runs again; somebody else's page is older
        answer = act(operator, action, ids, seen="dead")
    else:
        objq.connect().retry(ids)
        stage.claim(ids)
        answer = answer.agree()
    ((level, text),) = answer.said
    assert level == "warning"
    assert text.startswith("1 job was left alone: it is running now, and a running job is")
    assert verb in text
    assert f'<a href="{BASE}jobs/{job}/?backend=default">{job}</a>' in text
    assert stage.states(ids) == ["running"]


@pytest.mark.usefixtures("broker")
def test_each_job_of_a_selection_is_reported(operator: Client) -> None:
    _, runs, succeeds, leaves = ids = stage.dead(4)
    objq.connect().retry([runs, succeeds])
    tokens = stage.claim([runs, succeeds])
    objq.connect().complete([Completion(token=tokens[1])])
    objq.connect().delete([leaves], "dead")
    answer = act(operator, "retry", ids, page="dead", seen="dead", query="task=shop.tasks.send")
    assert answer.location == f"{BASE}dead/?task=shop.tasks.send&backend=default"
    said = {text.partition(" <")[0]: level for level, text in answer.said}
    assert said == {
        "1 job was put at the end of its queue.": "success",
        "1 job was left alone: it is running now, and a running job is never retried.": "warning",
        "1 job was left alone: it is succeeded now.": "warning",
        "1 job is not there any more.": "warning",
    }
    assert stage.states(ids) == ["ready", "running", "succeeded", "gone"]
    (entry,) = LogEntry.objects.all()
    assert entry.object_id is None
    assert entry.object_repr == "4 jobs"
    assert entry.change_message.startswith(
        "Retry in the backend default: 1 done, 1 missing, 2 conflict. "
    )
    assert all(job_id in entry.change_message for job_id in ids)


@pytest.mark.usefixtures("broker")
def test_a_selection_of_mixed_states_is_confirmed_as_it_is_now(operator: Client) -> None:
    waits, (runs,), (sleeps,) = stage.scheduled(2), stage.running(), stage.dead()
    ids = [*waits, runs, sleeps, "no-such-job"]
    asked = act(operator, "cancel", ids, seen="")
    assert asked.status == 200
    assert asked.form["chosen"] == [
        f"scheduled:{waits[0]}",
        f"scheduled:{waits[1]}",
        f"running:{runs}",
    ]
    assert "2 jobs are left out" in asked.page
    assert stage.states(waits) == ["scheduled", "scheduled"]
    said = asked.agree().said
    assert [text.partition(" <")[0][:22] for _, text in said] == [
        "2 jobs were cancelled.",
        "The worker of 1 runnin",
    ]
    assert stage.states(ids) == ["cancelled", "cancelled", "running", "dead", "gone"]


@pytest.mark.usefixtures("broker")
def test_the_question_names_what_it_is_about(operator: Client, settings: Settings) -> None:
    ids = stage.dead(2, task="shop.tasks.charge")
    asked = act(operator, "delete", ids, page="dead", seen="dead", query="task=shop.tasks.charge")
    for job_id in ids:
        link = f'<a href="{BASE}jobs/{job_id}/?backend=default">{job_id}</a>'
        assert f"{link} <code>shop.tasks.charge</code>" in asked.page
    trail = asked.page.partition('class="breadcrumbs"')[2]
    for href in (
        f"{BASE}?backend=default",
        f"{BASE}dead/?task=shop.tasks.charge&amp;backend=default",
    ):
        assert f'<a href="{href}">' in trail
    assert "<strong>default</strong>" not in asked.page, "there is no other"
    settings.TASKS = {**settings.TASKS, "slow": settings.TASKS["default"]}
    asked = act(operator, "delete", ids[:1], page="job", seen="dead", backend="slow")
    assert "<strong>slow</strong>" in asked.page
    trail = asked.page.partition('class="breadcrumbs"')[2]
    for path in ("", "jobs/", f"jobs/{ids[0]}/"):
        assert f'<a href="{BASE}{path}?backend=slow">' in trail


@pytest.mark.usefixtures("broker")
def test_what_fits_none_is_not_sent(operator: Client) -> None:
    ids = stage.dead()
    ((level, text),) = act(operator, "run_now", ids, seen="").said
    assert level == "warning"
    assert text.startswith("Nothing was done. 1 job is left out")
    assert not LogEntry.objects.exists()


@pytest.mark.usefixtures("broker")
def test_nothing_selected(operator: Client) -> None:
    ((level, text),) = act(operator, "retry", [], seen="dead").said
    assert (level, text[:15]) == ("warning", "There is no job")


@pytest.mark.usefixtures("broker")
def test_many_of_a_kind_are_counted_and_some_are_named(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "NAMED", 3)
    ids = stage.running(5)
    ((_, text),) = act(operator, "retry", ids, seen="dead").said
    assert text.startswith("5 jobs were left alone: they are running now")
    assert text.count("listitem") == 4
    assert "and 2 more" in text
