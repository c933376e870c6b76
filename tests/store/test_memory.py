"""What only the memory store has: the life of its objects."""

from __future__ import annotations

from django.core.files.storage import InMemoryStorage

from objq.store.base import ABSENT, Content
from objq.store.memory import MemoryStore


def test_stores_on_one_storage_share_their_objects() -> None:
    storage = InMemoryStorage()
    tag = MemoryStore(storage, "queue.json").write(b"one", ABSENT)
    assert MemoryStore(storage, "queue.json").read() == Content(b"one", tag)
    assert MemoryStore(storage, "other.json").read() is None
    assert MemoryStore(InMemoryStorage(), "queue.json").read() is None
