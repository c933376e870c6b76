from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from objq.core.ops import BrokerInfo, QueueStats, Running, Statistics

if TYPE_CHECKING:
    from collections.abc import Callable

NOW_MS = 1_764_430_000_000
SINCE_MS = NOW_MS - 3_600_000


def statistics(**changes: Any) -> Statistics:
    values: dict[str, Any] = {
        "document": "doc-1",
        "seq": 48_213,
        "epoch": 7,
        "at": NOW_MS - 200,
        "broker": BrokerInfo(
            id="broker-1", url="ws://10.0.0.42:3000/objq/v1/", since=SINCE_MS, version="0.1.0"
        ),
        "size_bytes": 3_500,
        "heartbeat_timeout_s": 30.0,
        "queues": {
            "mail": QueueStats(paused=True, scheduled=2),
            "default": QueueStats(
                ready=12,
                running=2,
                dead=1,
                oldest_ready_at=NOW_MS - 65_000,
                totals={"pushed": 1_500, "succeeded": 1_485},
            ),
        },
        "running": (
            Running(
                id="job-1", queue="default", task="shop.tasks.send", worker="host-1",
                claimed_at=NOW_MS - 90_000, attempt=2, started=True, heard_ago_s=21.0,
            ),
            Running(
                id="job-2", queue="default", task="shop.tasks.send", worker="host-2",
                claimed_at=NOW_MS - 400, attempt=1, started=False, heard_ago_s=0.4,
            ),
        ),
    }  # fmt: skip
    return Statistics(**{**values, **changes})


class FakeQueue:
    """In the place of objq's client: answers `answer`, or raises it."""

    def __init__(self) -> None:
        self.answer: Statistics | Exception = statistics()
        self.asked: list[str] = []

    def __call__(self, alias: str = "default") -> FakeQueue:
        self.asked.append(alias)
        return self

    def stats(self, **_: Any) -> Statistics:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> FakeQueue:
    fake = FakeQueue()
    monkeypatch.setattr("objq.connect", fake, raising=False)
    monkeypatch.setattr("objq_dashboard.overview.time.time_ns", lambda: NOW_MS * 1_000_000)
    return fake


@pytest.fixture
def signed_in(db: None) -> Callable[..., Client]:
    """Return a browser with a staff user who has the permissions that are named."""

    def sign_in(*permissions: str, staff: bool = True, superuser: bool = False) -> Client:
        user = User.objects.create_user("someone", is_staff=staff, is_superuser=superuser)
        for name in permissions:
            user.user_permissions.add(Permission.objects.get(codename=name))
        client = Client()
        client.force_login(user)
        return client

    return sign_in
