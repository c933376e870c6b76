"""Who sees the dashboard: on every address of it, not only on the one that is linked."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import Permission
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from objq_dashboard.models import Queue

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.dashboard.conftest import FakeQueue

ADDRESSES = (
    "admin:objq_dashboard_queue_changelist",
    "admin:objq_dashboard_queue_overview_json",
)


@pytest.mark.parametrize("name", ADDRESSES)
@pytest.mark.parametrize("permission", ["view_queue", "manage_queue"])
def test_either_permission_lets_in(
    signed_in: Callable[..., Client], queue: FakeQueue, name: str, permission: str
) -> None:
    assert signed_in(permission).get(reverse(name)).status_code == 200


@pytest.mark.parametrize("name", ADDRESSES)
def test_superuser_has_both(signed_in: Callable[..., Client], queue: FakeQueue, name: str) -> None:
    assert signed_in(superuser=True).get(reverse(name)).status_code == 200


@pytest.mark.parametrize("name", ADDRESSES)
def test_staff_without_permission_is_refused_and_nothing_is_asked(
    signed_in: Callable[..., Client], queue: FakeQueue, name: str
) -> None:
    assert signed_in().get(reverse(name)).status_code == 403
    assert queue.asked == []


@pytest.mark.parametrize("name", ADDRESSES)
def test_others_are_sent_to_the_login(
    signed_in: Callable[..., Client], queue: FakeQueue, name: str
) -> None:
    browsers = [Client(), signed_in("view_queue", staff=False)]
    for browser in browsers:
        response = browser.get(reverse(name))
        assert response.status_code == 302
        assert "/login/" in response["Location"]
    assert queue.asked == []


def test_the_link_is_shown_only_to_who_may_follow_it(
    signed_in: Callable[..., Client], queue: FakeQueue
) -> None:
    address = reverse(ADDRESSES[0])
    browser = signed_in()
    assert address not in browser.get("/admin/").content.decode()
    from django.contrib.auth.models import User

    User.objects.get().user_permissions.add(Permission.objects.get(codename="view_queue"))
    text = browser.get("/admin/").content.decode()
    assert f'href="{address}"' in text
    assert f"{address}add/" not in text


@pytest.mark.django_db
def test_there_is_no_table_and_no_migration_but_two_permissions() -> None:
    found = Permission.objects.filter(content_type__app_label="objq_dashboard")
    assert {permission.codename for permission in found} == {"view_queue", "manage_queue"}
    assert not Queue._meta.managed
    call_command("makemigrations", check=True, dry_run=True, stdout=io.StringIO())
