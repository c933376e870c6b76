"""The face that a store has for the event loop."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from typing import NoReturn

import pytest
from django.core.files.storage import InMemoryStorage

from objq.errors import ConfigurationError
from objq.store import aio
from objq.store.aio import THREADS, InThread
from objq.store.base import (
    ABSENT,
    Ambiguous,
    Content,
    Denied,
    Expect,
    Sentinel,
    Tag,
    Unavailable,
)
from objq.store.memory import MemoryStore


class Held(MemoryStore):
    """Writes wait for an event."""

    def __init__(self) -> None:
        super().__init__(InMemoryStorage(), "queue.json")
        self.begun = threading.Event()
        self.release = threading.Event()
        self.ended = threading.Event()
        self.closed = False

    def write(self, data: bytes, expect: Expect) -> Tag:
        self.begun.set()
        self.release.wait(10)
        try:
            return super().write(data, expect)
        finally:
            self.ended.set()

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
    await asyncio.to_thread(store.ended.wait, 10)
    head = store.read_head()
    assert head is not None
    assert head.data == b"one"


async def test_calls_over_the_limit_wait_and_those_that_wait_at_the_end_are_cancelled() -> None:
    store = Held()
    face = InThread(store)
    before = ours()
    writing = [asyncio.ensure_future(face.write(b"one", ABSENT)) for _ in range(THREADS)]
    reading = asyncio.ensure_future(face.read())
    await asyncio.sleep(0)
    assert len(ours() - before) == THREADS
    face.close()
    with pytest.raises(asyncio.CancelledError):
        await reading
    with pytest.raises(RuntimeError, match="closed"):
        await face.read()
    store.release.set()
    outcomes = await asyncio.gather(*writing, return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Conflict"] * 3 + ["str"]


async def test_a_call_that_never_ends_is_given_up_and_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(aio, "CALL_TIMEOUT_S", 0.05)
    store = Held()
    face = InThread(store)
    writing = [face.write(b"one", ABSENT) for _ in range(THREADS)]
    outcomes = await asyncio.gather(*writing, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Ambiguous] * THREADS
    assert "has not done with a request" in str(outcomes[0])
    monkeypatch.undo()
    assert await face.read() is None
    store.release.set()


async def test_what_a_call_transfers_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aio, "CALL_TIMEOUT_S", 0.05)
    monkeypatch.setattr(aio, "SLOWEST_BYTES_PER_S", 1)
    store = Held()
    face = InThread(store)
    writing = asyncio.ensure_future(face.write(b"x" * 60, ABSENT))  # which may take a minute
    with pytest.raises(Ambiguous):
        await face.write(b"", Tag("another"))
    store.release.set()
    await writing
    face.close()


class Surprising(MemoryStore):
    """Every call ends with an error that no store should raise."""

    def __init__(self, error: Exception) -> None:
        super().__init__(InMemoryStorage(), "queue.json")
        self.error = error

    def read(self, unless: Tag | None = None) -> NoReturn:
        raise self.error

    def read_head(self) -> NoReturn:
        raise self.error

    def write(self, data: bytes, expect: Expect) -> NoReturn:
        raise self.error


async def test_what_no_store_should_raise_is_a_read_that_failed_or_a_write_in_doubt(
    caplog: pytest.LogCaptureFixture,
) -> None:
    face = InThread(Surprising(KeyError("ETag")))
    for read in (face.read, face.read_head):
        with pytest.raises(Unavailable, match="KeyError: 'ETag'"):
            await read()
    with pytest.raises(Ambiguous, match="KeyError: 'ETag'"):
        await face.write(b"one", ABSENT)
    face.close()
    (told,) = (record for record in caplog.records if record.exc_info is not None)
    assert "in a way that is not known" in told.message


@pytest.mark.parametrize("error", [Denied("no"), ConfigurationError("no bucket")])
async def test_what_a_store_says_is_passed_on(error: Exception) -> None:
    face = InThread(Surprising(error))
    for call in (face.read(), face.read_head(), face.write(b"one", ABSENT)):
        with pytest.raises(type(error)):
            await call
    face.close()


async def test_one_call_after_the_other_needs_one_thread() -> None:
    face = InThread(MemoryStore(InMemoryStorage(), "queue.json"))
    before = ours()
    for _ in range(10):
        await face.read_head()
    assert len(ours() - before) <= 2  # a thread is free a moment after its call was answered
    face.close()


def test_a_call_that_hangs_does_not_hold_up_the_end_of_the_process() -> None:
    code = """if True:
        import asyncio, threading
        from types import SimpleNamespace
        from objq.store.aio import InThread

        begun = threading.Event()

        def hang():
            begun.set()
            threading.Event().wait()

        async def main():
            store = SimpleNamespace(name="", pace_s=0.0, read_head=hang)
            asyncio.ensure_future(InThread(store).read_head())
            await asyncio.sleep(0)
            begun.wait(10)

        asyncio.run(main())
    """
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def ours() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name.startswith("objq-store")}
