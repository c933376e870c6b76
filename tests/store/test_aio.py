"""The face that a store has for the event loop."""

from __future__ import annotations

import asyncio
import threading

import pytest
from django.core.files.storage import InMemoryStorage

from objq.store.aio import InThread
from objq.store.base import ABSENT, Content, Expect, Sentinel, Tag
from objq.store.memory import MemoryStore


class Held(MemoryStore):
    """Writes wait for an event."""

    def __init__(self) -> None:
        super().__init__(InMemoryStorage(), "queue.json")
        self.begun = threading.Event()
        self.release = threading.Event()
        self.closed = False

    def write(self, data: bytes, expect: Expect) -> Tag:
        self.begun.set()
        self.release.wait(10)
        return super().write(data, expect)

    def read(self, unless: Tag | None = None) -> Content | Sentinel | None:
        assert threading.current_thread().name.startswith("objq-store")
        return super().read(unless)

    def close(self) -> None:
        self.closed = True


async def test_reads_go_on_during_a_write() -> None:
    store = Held()
    face = InThread(store)
    writing = asyncio.ensure_future(face.write(b"one", ABSENT))
    await asyncio.to_thread(store.begun.wait, 10)
    assert await face.read() is None
    assert not writing.done()
    store.release.set()
    assert await face.read(unless=None) in (None, Content(b"one", await writing))
    face.close()
    assert store.closed


async def test_cancelled_write_may_still_be_applied() -> None:
    store = Held()
    face = InThread(store)
    writing = asyncio.ensure_future(face.write(b"one", ABSENT))
    await asyncio.to_thread(store.begun.wait, 10)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    store.release.set()
    face._pool.shutdown(wait=True)
    head = store.read_head()
    assert head is not None
    assert head.data == b"one"
