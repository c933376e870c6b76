"""What is told when nobody answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from objq.client.shared import shared
from objq.client.sync import SyncClient
from objq.core import ops
from objq.errors import Forbidden
from objq_dashboard.actions import applying, selection, views
from tests.client.localbroker import LocalBroker
from tests.dashboard.acting import stage
from tests.dashboard.acting.stage import act

if TYPE_CHECKING:
    from pytest_django.fixtures import Settings


@pytest.mark.usefixtures("store")
def test_no_broker(operator: Client, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "TIMEOUT_S", 0.5)
    settings.TASKS = _impatient(settings.TASKS)
    ((level, text),) = act(operator, "retry", ["some-job"], seen="dead").said
    assert level == "error"
    assert text.startswith("1 job was not touched, since nobody answered")
    (entry,) = LogEntry.objects.all()
    assert "1 untried" in entry.change_message
    ((level, text),) = act(operator, "retry", scope="all", page="dead").said
    assert (level, text[:17]) == ("error", "Nothing was done.")
    ((level, text),) = act(operator, "pause", ["mail"], page="overview").said
    assert (level, text[:11]) == ("error", "Not touched")


def test_an_answer_that_does_not_come_is_said_to_be_unknown(
    operator: Client, store: Any, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.TASKS = _impatient(settings.TASKS)
    monkeypatch.setattr(applying, "AT_ONCE", 1)
    monkeypatch.setattr(applying, "LOOK_TIMEOUT_S", 0.1)
    with LocalBroker(store) as broker:
        ids = stage.dead(2)
        broker.deaf.set()
        said = act(operator, "retry", ids, seen="dead").said
        shared.reset()
    assert [level for level, _ in said] == ["error", "error"]
    assert said[0][1].startswith("Whether 1 job was retried is not known.")
    assert "doing it again is safe" in said[0][1]
    assert said[1][1].startswith("1 job was not touched, since nobody answered")
    assert "1 unknown, 1 untried" in LogEntry.objects.get().change_message


class Watch:
    """A clock that only tests move, in the place of the module `time`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        for module in (views, applying):
            monkeypatch.setattr(module, "time", self)

    def monotonic(self) -> float:
        return self.now


@pytest.mark.usefixtures("broker")
def test_what_there_is_no_time_for_is_not_sent(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids, clock = stage.dead(4), Watch(monkeypatch)
    monkeypatch.setattr(applying, "AT_ONCE", 1)
    retry = SyncClient.retry

    def slowly(*args: Any) -> ops.Outcomes:
        clock.now += applying.ACT_FOR_S / 2
        return retry(*args)

    monkeypatch.setattr(SyncClient, "retry", slowly)
    said = act(operator, "retry", ids, seen="dead").said
    assert [level for level, _ in said] == ["success", "error"]
    assert said[0][1] == "2 jobs were put at the end of their queues."
    assert said[1][1].startswith("2 jobs were not touched, since this has taken long enough. Do it")
    assert stage.states(ids) == ["ready", "ready", "dead", "dead"]
    assert "2 done, 2 untried" in LogEntry.objects.get().change_message


@pytest.mark.usefixtures("broker")
def test_the_time_that_a_search_takes_counts(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids, clock = stage.dead(2), Watch(monkeypatch)
    asked = act(operator, "retry", scope="all", page="dead")
    find = selection.all_that_match

    def slowly(*args: Any) -> selection.Found:
        clock.now += applying.ACT_FOR_S
        return find(*args)

    monkeypatch.setattr(selection, "all_that_match", slowly)
    ((level, text),) = asked.agree().said
    assert (level, text[:26]) == ("error", "2 jobs were not touched, s")
    assert stage.states(ids) == ["dead", "dead"]


@pytest.mark.usefixtures("broker")
def test_queues_have_no_more_time_than_jobs(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applying, "ACT_FOR_S", 0.0)
    ((level, text),) = act(operator, "pause", ["mail"], page="overview").said
    assert level == "error"
    assert text.startswith("Not touched, since this has taken long enough: mail.")


@pytest.mark.usefixtures("broker")
@pytest.mark.parametrize(
    ("action", "page", "says"),
    [("retry", "dead", "2 jobs were refused"), ("pause", "overview", "Refused: one, two.")],
)
def test_who_is_refused_is_refused_once(
    operator: Client, monkeypatch: pytest.MonkeyPatch, action: str, page: str, says: str
) -> None:
    monkeypatch.setattr(applying, "AT_ONCE", 1)
    sent: list[object] = []

    def refuse(client: SyncClient, *args: object) -> None:
        sent.append(args)
        raise Forbidden("Not with this token.")

    monkeypatch.setattr(SyncClient, action, refuse)
    ((level, text),) = act(operator, action, ["one", "two"], page=page, seen="dead").said
    assert level == "error"
    assert text.startswith(says) and "Not with this token." in text
    assert len(sent) == 1


def _impatient(tasks: dict[str, Any]) -> dict[str, Any]:
    options = {**tasks["default"]["OPTIONS"], "ENQUEUE_TIMEOUT": 0.5}
    return {"default": {**tasks["default"], "OPTIONS": options}}
