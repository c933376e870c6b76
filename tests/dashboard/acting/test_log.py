"""What stays of an action in the admin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.admin.models import CHANGE, DELETION, LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.test import Client, override_settings
from django.urls import reverse

from objq_dashboard.models import Queue
from tests.dashboard.acting import stage
from tests.dashboard.acting.stage import act

if TYPE_CHECKING:
    pass

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
