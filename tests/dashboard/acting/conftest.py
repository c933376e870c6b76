"""A queue with the real client, wire and rules behind the dashboard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.test import Client, override_settings

from objq.client.shared import shared
from objq.conf import BACKEND
from objq.store.open import open_store
from objq_dashboard.source import source
from tests.client.localbroker import LocalBroker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def store() -> Iterator[Any]:
    options = {"STORAGE": "objq", "ENQUEUE_TIMEOUT": 10}
    storages = {
        "objq": {"BACKEND": "django.core.files.storage.InMemoryStorage"},
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }
    tasks = {"default": {"BACKEND": BACKEND, "QUEUES": [], "OPTIONS": options}}
    with override_settings(STORAGES=storages, TASKS=tasks):
        yield open_store("objq", "queue.json")
        shared.reset()
    source.forget()


@pytest.fixture
def broker(store: Any) -> Iterator[LocalBroker]:
    with LocalBroker(store) as broker:
        yield broker
        shared.reset()


@pytest.fixture
def operator(signed_in: Callable[..., Client]) -> Client:
    return signed_in("view_queue", "manage_queue")
