"""What is told when nobody answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from objq.client.shared import shared
from objq_dashboard import applying, choosing
from tests.client.localbroker import LocalBroker
from tests.dashboard.acting import stage
from tests.dashboard.acting.stage import act

if TYPE_CHECKING:
    from pytest_django.fixtures import Settings


@pytest.mark.usefixtures("store")
def test_no_broker(operator: Client, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "TIMEOUT_S", 0.5)
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


def _impatient(tasks: dict[str, Any]) -> dict[str, Any]:
    options = {**tasks["default"]["OPTIONS"], "ENQUEUE_TIMEOUT": 0.5}
    return {"default": {**tasks["default"], "OPTIONS": options}}
