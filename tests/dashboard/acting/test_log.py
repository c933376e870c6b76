"""What stays of an action in the admin."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.models import CHANGE, DELETION, LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.db import OperationalError, connection
from django.test import Client, override_settings
from django.urls import reverse

from objq_dashboard.models import Queue
from tests.dashboard.acting import stage
from tests.dashboard.acting.stage import act

ACT = "admin:objq_dashboard_queue_act"


@pytest.mark.usefixtures("broker")
def test_what_was_done_is_in_the_log_of_the_admin(operator: Client) -> None:
    (job,) = stage.dead()
    act(operator, "retry", [job], page="job", seen="dead")
    act(operator, "delete", [job], page="job", seen="ready").agree()
    retried, deleted = LogEntry.objects.order_by("pk")
    for entry in (retried, deleted):
        assert entry.user == User.objects.get()
        assert entry.content_type == ContentType.objects.get_for_model(Queue)
        assert (entry.object_id, entry.object_repr) == (job, f"job {job}")
    assert retried.action_flag == CHANGE
    assert retried.change_message == f"Retry in the backend default: 1 done. {job}"
    assert str(retried) == f"Changed “job {job}” — {retried.change_message}"
    assert deleted.action_flag == DELETION
    assert f"job {job}" in operator.get(reverse("admin:index")).content.decode()


@pytest.mark.usefixtures("broker")
def test_the_log_is_in_one_language(operator: Client) -> None:
    ids = stage.dead()
    operator.post(reverse(ACT), {}, headers={"accept-language": "de"})
    with override_settings(LANGUAGE_CODE="de"):
        act(operator, "retry", ids, seen="dead")
    assert LogEntry.objects.get().change_message.startswith("Retry in the backend")


@pytest.mark.usefixtures("broker")
def test_what_cannot_be_logged_is_not_done(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = stage.dead()

    def fail(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("no database")

    monkeypatch.setattr(LogEntry.objects, "create", fail)
    with pytest.raises(RuntimeError):
        act(operator, "retry", ids, seen="dead")
    assert stage.states(ids) == ["dead"]


@pytest.mark.usefixtures("broker")
def test_an_entry_outlives_its_request_where_requests_are_transactions(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was sent by a process that ended before the answer stands in the log."""

    def end(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("the process ends")

    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    monkeypatch.setattr("objq_dashboard.actions.applying.on_jobs", end)
    monkeypatch.setattr("objq_dashboard.actions.applying.on_queues", end)
    for action, fields in (("retry", {"seen": "dead"}), ("pause", {"page": "overview"})):
        with pytest.raises(RuntimeError, match="the process ends"):
            act(operator, action, ["one"], **fields)
    assert [entry.object_id for entry in LogEntry.objects.all()] == ["one", "one"]
    assert "not answered yet" in LogEntry.objects.latest("pk").change_message


@pytest.mark.usefixtures("broker")
def test_what_was_done_is_told_also_if_the_log_cannot_be_completed(
    operator: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ids = stage.dead()

    def fail(*args: Any, **kwargs: Any) -> None:
        raise OperationalError("database is locked")

    monkeypatch.setattr(LogEntry, "save", _first_only(LogEntry.save, fail))
    answer = act(operator, "retry", ids, seen="dead")
    assert (answer.status, stage.states(ids)) == (302, ["ready"])
    assert [level for level, _ in answer.said] == ["success", "warning"]
    assert "log of the admin could not be completed" in answer.said[1][1]
    assert "1 done" in caplog.text


def _first_only(first: Any, then: Any) -> Any:
    """Return what does the one when it is called at first, and the other ever after."""
    calls = iter((first,))
    return lambda *args, **kwargs: next(calls, then)(*args, **kwargs)
