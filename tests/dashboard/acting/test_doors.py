"""Who may act, from where, and where it leads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.http import QueryDict
from django.test import Client
from django.urls import reverse

from objq_dashboard.actions.form import read
from tests.dashboard.acting import stage
from tests.dashboard.acting.stage import BASE, act

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_django.fixtures import Settings

ACT = "admin:objq_dashboard_queue_act"


@pytest.mark.usefixtures("broker")
@pytest.mark.parametrize("permissions", [("view_queue",), ()])
def test_who_may_not_steer_is_refused(
    signed_in: Callable[..., Client], permissions: tuple[str, ...]
) -> None:
    ids = stage.dead()
    browser = signed_in(*permissions)
    assert browser.post(reverse(ACT)).status_code == 403
    for action in ("retry", "cancel", "delete", "run_now", "pause", "resume"):
        assert act(browser, action, ids, seen="dead").status == 403
    assert browser.get(reverse(ACT)).status_code == 403
    assert stage.states(ids) == ["dead"]
    assert not LogEntry.objects.exists()


@pytest.mark.usefixtures("broker")
def test_who_may_steer_is_offered_it_and_nobody_else(signed_in: Callable[..., Client]) -> None:
    stage.dead()
    browser = signed_in("view_queue")
    pages = [f"{BASE}", f"{BASE}jobs/", f"{BASE}dead/"]
    for page in pages:
        text = browser.get(page).content.decode()
        assert 'name="action"' not in text
        assert 'type="checkbox"' not in text
    browser.force_login(User.objects.create_superuser("admin"))
    for page in pages:
        text = browser.get(page).content.decode()
        assert 'name="action"' in text
        assert 'name="key"' in text


@pytest.mark.usefixtures("broker")
def test_read_only(operator: Client, settings: Settings) -> None:
    settings.OBJQ_DASHBOARD = {"READ_ONLY": True}
    ids = stage.dead()
    assert act(operator, "retry", ids, seen="dead").status == 403
    assert stage.states(ids) == ["dead"]
    page = operator.get(f"{BASE}dead/")
    assert page.status_code == 200
    assert 'name="action"' not in page.content.decode()


@pytest.mark.usefixtures("broker")
def test_signed_out(db: None) -> None:
    answer = act(Client(), "retry", ["a"], seen="dead")
    assert answer.status == 302
    assert "/login/" in answer.location


@pytest.mark.usefixtures("broker")
def test_a_form_of_another_site_is_refused(operator: Client) -> None:
    ids = stage.dead()
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(User.objects.get())
    assert act(strict, "retry", ids, seen="dead").status == 403
    assert stage.states(ids) == ["dead"]


@pytest.mark.usefixtures("broker")
def test_looking_changes_nothing(operator: Client) -> None:
    ids = stage.dead()
    response = operator.get(reverse(ACT), {"action": "retry", "key": ids, "seen": "dead"})
    assert response.status_code == 405
    assert response["Allow"] == "POST"
    assert f'href="{BASE}"' in response.content.decode()
    assert stage.states(ids) == ["dead"]


@pytest.mark.usefixtures("broker")
def test_an_admin_of_ones_own_leads_to_itself(operator: Client, settings: Settings) -> None:
    settings.ROOT_URLCONF = "tests.dashboard.acting.elsewhere"
    base = "/operations/objq_dashboard/queue/"
    first, second = stage.running(2)
    page = operator.get(f"{base}dead/").content.decode()
    assert f'action="{base}act/"' in page
    answer = act(operator, "retry", [first], address=f"{base}act/", seen="dead")
    assert answer.location == f"{base}jobs/?backend=default"
    assert f'href="{base}jobs/{first}/?backend=default"' in answer.said[0][1]
    asked = act(operator, "delete", [second], address=f"{base}act/", seen="dead")
    assert f'href="{base}jobs/?backend=default"' in asked.page


@pytest.mark.usefixtures("broker")
@pytest.mark.parametrize(
    "fields",
    [
        {"next": "https://evil.example/"},
        {"query": "next=https://evil.example/"},
        {"query": "backend=//evil.example"},
        {"query": "//evil.example/"},
    ],
)
def test_no_form_leads_to_another_site(operator: Client, fields: dict[str, str]) -> None:
    answer = act(operator, "retry", stage.dead(), seen="dead", **fields)
    assert answer.location.startswith(f"{BASE}jobs/?")
    assert answer.location.endswith("backend=default")


@pytest.mark.parametrize(
    "fields",
    [
        {"action": "explode"},
        {"page": "https://evil.example/"},
        {"page": "broker"},
        {"backend": "nonsense"},
        {"key": "x" * 500},
        {"chosen": "dead:" + "x" * 500},
        {"query": "&".join(f"a{n}=1" for n in range(100))},
    ],
)
def test_nonsense_is_refused(operator: Client, fields: dict[str, str]) -> None:
    assert act(operator, **{"action": "retry", **fields}).status == 400


@pytest.mark.usefixtures("broker")
def test_an_id_is_only_an_id(operator: Client) -> None:
    for key in ("../../logout", "//evil.example", "a/b", "<script>"):
        answer = act(operator, "retry", [key], page="job", seen="dead")
        assert answer.location.startswith(f"{BASE}jobs/")
        assert ".." not in answer.location or "%2F" in answer.location
        assert "<script>" not in "".join(text for _, text in answer.said)


def test_of_a_form_no_more_is_read_than_the_site_allows(operator: Client) -> None:
    assert act(operator, "retry", ["x"] * 1001, seen="dead").status == 400


def test_ids_that_were_confirmed_are_kept_in_order_by_state() -> None:
    form = QueryDict(mutable=True)
    form.update({"action": "delete", "backend": "default", "page": "jobs"})
    form.setlist("chosen", ["dead:b", "ready:c", "dead:a", "dead:", "nonsense:d", "e"])
    wish = read(form)
    assert wish is not None
    assert dict(wish.chosen) == {"dead": ["b", "a"], "ready": ["c"]}
