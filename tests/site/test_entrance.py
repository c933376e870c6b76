from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from django.contrib.auth.models import User

if TYPE_CHECKING:
    from django.test import Client
    from pytest_django.fixtures import Settings

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def demo_user() -> None:
    User.objects.create_superuser("demo")


def test_the_key_signs_in_and_leads_to_the_dashboard(client: Client, settings: Settings) -> None:
    settings.ENTRANCE_KEY = "drawn"
    response = client.get("/enter/drawn/")
    assert response["Location"] == "/admin/objq_dashboard/queue/"
    assert "sessionid" in client.cookies


@pytest.mark.parametrize("key", ["", "drawn"])
def test_nothing_else_does(client: Client, settings: Settings, key: str) -> None:
    settings.ENTRANCE_KEY = key
    assert client.get("/enter/guessed/").status_code == 404
    assert client.get("/enter/None/").status_code == 404
    assert "sessionid" not in client.cookies
