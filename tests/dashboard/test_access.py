"""Who sees the dashboard: on every address of it, not only on the one that is linked."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.test import Client
from django.urls import get_resolver, reverse

from objq_dashboard.models import Queue

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.dashboard.conftest import FakeQueue

PREFIX = "objq_dashboard_queue_"
PAGES = ("changelist", "jobs", "job", "workers", "dead", "broker")
OTHERS = ("act", "live")


def address(name: str) -> str:
    return reverse(f"admin:{PREFIX}{name}", args=["job-1"] if name == "job" else [])


def test_these_are_all_addresses() -> None:
    patterns = get_resolver().namespace_dict["admin"][1]
    named = {name for name in patterns.reverse_dict if isinstance(name, str)}
    ours = {name.removeprefix(PREFIX) for name in named if name.startswith(PREFIX)}
    assert ours == {*PAGES, *OTHERS}


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("permission", ["view_queue", "manage_queue"])
def test_either_permission_lets_in(
    signed_in: Callable[..., Client], queue: FakeQueue, name: str, permission: str
) -> None:
    browser = signed_in(permission)
    assert browser.get(address(name)).status_code == 200
    assert browser.get(address(name), headers={"accept": "application/json"}).json()["known"]


@pytest.mark.parametrize("name", PAGES)
def test_superuser_has_both(signed_in: Callable[..., Client], queue: FakeQueue, name: str) -> None:
    assert signed_in(superuser=True).get(address(name)).status_code == 200


@pytest.mark.parametrize("name", [*PAGES, *OTHERS])
@pytest.mark.parametrize("method", ["get", "post"])
def test_staff_without_permission_is_refused_and_nothing_is_asked(
    signed_in: Callable[..., Client], queue: FakeQueue, name: str, method: str
) -> None:
    browser = signed_in()
    assert getattr(browser, method)(address(name)).status_code == 403
    assert queue.asked == []


@pytest.mark.parametrize("name", [*PAGES, *OTHERS])
def test_others_are_sent_to_the_login(
    signed_in: Callable[..., Client], queue: FakeQueue, name: str
) -> None:
    browsers = [Client(), signed_in("view_queue", staff=False)]
    for browser in browsers:
        response = browser.get(address(name))
        assert response.status_code == 302
        assert "/login/" in response["Location"]
    assert queue.asked == []


def test_the_socket_answers_over_http_what_it_is(
    signed_in: Callable[..., Client], queue: FakeQueue
) -> None:
    response = signed_in("view_queue").get(address("live"))
    assert response.status_code == 426
    assert response.content.startswith(b"This is a websocket")


def test_the_link_is_shown_only_to_who_may_follow_it(
    signed_in: Callable[..., Client], queue: FakeQueue
) -> None:
    browser = signed_in()
    assert address("changelist") not in browser.get("/admin/").content.decode()
    User.objects.get().user_permissions.add(Permission.objects.get(codename="view_queue"))
    text = browser.get("/admin/").content.decode()
    assert f'href="{address("changelist")}"' in text
    assert f"{address('changelist')}add/" not in text


@pytest.mark.django_db
def test_there_is_no_table_and_no_migration_but_two_permissions() -> None:
    found = Permission.objects.filter(content_type__app_label="objq_dashboard")
    assert {permission.codename for permission in found} == {"view_queue", "manage_queue"}
    assert not Queue._meta.managed
    call_command("makemigrations", check=True, dry_run=True, stdout=io.StringIO())
