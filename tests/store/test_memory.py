"""What only the memory store has: its object's life, and a latency."""

from __future__ import annotations

import pytest
from django.core.files.storage import InMemoryStorage

from objq.store.base import ABSENT, Content
from objq.store.memory import MemoryStore
from tests.store.conftest import open_entry

SLOW = {"BACKEND": "objq.store.memory.SlowMemoryStorage", "OPTIONS": {"latency_s": 0.25}}


def test_stores_on_one_storage_share_their_objects() -> None:
    storage = InMemoryStorage()
    tag = MemoryStore(storage, "queue.json").write(b"one", ABSENT)
    assert MemoryStore(storage, "queue.json").read() == Content(b"one", tag)
    assert MemoryStore(storage, "other.json").read() is None
    assert MemoryStore(InMemoryStorage(), "queue.json").read() is None


def test_latency_is_waited_for_around_the_change(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[tuple[float, bool]] = []
    store = open_entry(SLOW)
    monkeypatch.setattr(
        "objq.store.memory.time.sleep",
        lambda seconds: waits.append((seconds, store.read() is not None)),
    )
    store.write(b"one", ABSENT)
    assert waits == [(0.125, False), (0.125, True)]


def test_latency_can_be_set() -> None:
    store = open_entry(SLOW)
    assert isinstance(store, MemoryStore)
    sibling = store.sibling(".x")
    assert sibling.latency_s == 0.25
    store.latency_s = 0.0
    assert sibling.latency_s == 0.0
