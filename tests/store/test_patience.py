"""A broker that is started in an outage is there when it is over, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest

from objq.ids import Ids
from objq.store import patience, trials
from objq.store.base import (
    Ambiguous,
    Denied,
    Expect,
    Missing,
    StoreError,
    Tag,
    Throttled,
    Unavailable,
    Unsupported,
)
from objq.store.memory import MemoryStore
from objq.store.patience import probe_patiently
from objq.store.probe import ProbeFailed
from tests.http1 import Message
from tests.proxy import Action, CutReply, Drop, Proxy, s3_error
from tests.store.test_probe import Faulty, overwrites_newer

ministack = pytest.mark.parametrize("server", ["ministack"], indirect=True)


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "MAX_WAIT_S", 0.001)
    monkeypatch.setattr(trials, "UNAVAILABLE_WAIT_S", 0.0)
    monkeypatch.setattr(trials, "THROTTLE_WAIT_S", 0.001)


def failing(*errors: StoreError) -> Callable[[MemoryStore, bytes, Expect], Tag]:
    """Return writes that fail so, one after the other, and then succeed."""
    coming = iter(errors)

    def write(memory: MemoryStore, data: bytes, expect: Expect) -> Tag:
        if (error := next(coming, None)) is not None:
            raise error
        return memory.write(data, expect)

    return write


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    found = [(getattr(record, "event", ""), record) for record in caplog.records]
    return [(event, record.levelname) for event, record in found if event.startswith("store_")]


@pytest.mark.parametrize(
    ("error", "level"),
    [
        (Unavailable("refused"), "WARNING"),
        (Ambiguous("500"), "WARNING"),
        (Throttled("503", retry_after_s=0.001), "WARNING"),
        (Denied("ExpiredToken"), "ERROR"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_trouble_that_may_pass_is_waited_out_and_told_once(
    error: StoreError, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = Faulty(failing(*[error] * 60))
    await probe_patiently(store)
    assert lines(caplog) == [("store_awaited", level), ("store_back", "WARNING")]
    assert str(error) in caplog.text
    assert store.left() == {}


async def test_trouble_of_another_kind_is_told_again(caplog: pytest.LogCaptureFixture) -> None:
    await probe_patiently(Faulty(failing(*[Unavailable("refused")] * 9, *[Denied("denied")] * 4)))
    assert [event for event, _ in lines(caplog)] == ["store_awaited"] * 2 + ["store_back"]


async def test_a_store_that_can_be_asked_is_not_talked_about(
    caplog: pytest.LogCaptureFixture,
) -> None:
    await probe_patiently(Faulty(MemoryStore.write))
    assert not caplog.records


@pytest.mark.parametrize(
    ("write", "ends_with"),
    [
        (overwrites_newer, ProbeFailed),
        (failing(Unsupported("501")), ProbeFailed),
        (failing(Missing("no such bucket")), Missing),
    ],
)
async def test_what_waiting_cannot_change_is_not_waited_for(
    write: Any, ends_with: type[Exception]
) -> None:
    with pytest.raises(ends_with):
        await probe_patiently(Faulty(write))


async def test_what_an_outage_kept_from_being_removed_is_removed_after_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    written: list[bytes] = []
    refusals = iter(range(20))

    def write(memory: MemoryStore, data: bytes, expect: Expect) -> Tag:
        written.append(data)
        tag = memory.write(data, expect)
        if len(written) == 1:
            raise Ambiguous("the reply was lost")
        return tag

    def delete(self: Faulty) -> None:
        if next(refusals, None) is not None:
            assert written == [b"first"]  # nothing more is written meanwhile
            raise Unavailable("no route")
        self.memory.delete()

    monkeypatch.setattr(Faulty, "delete", delete)
    store = Faulty(write)
    await probe_patiently(store)
    assert store.left() == {}
    assert "could not be removed" not in caplog.text


async def test_a_store_that_cannot_be_read_is_not_written_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failures = iter(range(20))
    written: list[bytes] = []

    def write(memory: MemoryStore, data: bytes, expect: Expect) -> Tag:
        written.append(data)
        return memory.write(data, expect)

    def read(self: Faulty, unless: Tag | None = None) -> Any:
        if next(failures, None) is not None:
            assert not written
            raise Unavailable("no route")
        return self.memory.read(unless)

    monkeypatch.setattr(Faulty, "read", read)
    await probe_patiently(Faulty(write))
    assert written


async def test_who_may_not_delete_may_probe_and_is_told_what_stays_behind(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def delete(self: Faulty) -> None:
        raise Denied("no DeleteObject")

    monkeypatch.setattr(Faulty, "delete", delete)
    await probe_patiently(Faulty(MemoryStore.write))
    assert caplog.text.count("could not be removed: no DeleteObject") == 2


async def test_a_probe_that_is_no_longer_wanted_ends_and_removes_what_it_wrote() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def write(memory: MemoryStore, data: bytes, expect: Expect) -> Tag:
        tag = memory.write(data, expect)
        begun.set()
        go_on.wait(10)
        return tag

    store = Faulty(write)
    probing = asyncio.create_task(probe_patiently(store))
    await asyncio.to_thread(begun.wait, 10)
    probing.cancel()
    asyncio.get_running_loop().call_soon(go_on.set)
    with pytest.raises(asyncio.CancelledError):
        await probing
    assert store.left() == {}


async def test_a_wait_for_a_store_that_is_down_ends_when_it_is_no_longer_wanted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(patience, "MAX_WAIT_S", 3600.0)
    monkeypatch.setattr(patience, "FIRST_WAIT_S", 3600.0)
    probing = asyncio.create_task(probe_patiently(Faulty(failing(*[Denied("no")] * 99))))
    while not caplog.records:
        await asyncio.wait({probing}, timeout=0.01)
    probing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await probing


# --- over HTTP -----------------------------------------------------------------------------------


@ministack
async def test_gets_through_a_brown_out_that_spares_no_kind_of_request(
    proxied: Any, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    rng = random.Random(5)

    def rule(request: Message) -> Action | None:
        if rng.random() > 0.2:
            return None
        return rng.choice((Drop(), CutReply(), s3_error(500, "InternalError")))

    proxy.rule = rule
    await asyncio.wait_for(probe_patiently(proxied, Ids()), 60)
    made = {each.request.target for each in proxy.exchanges if each.request.is_write}
    gone = {each.request.target for each in proxy.exchanges if each.status == 204}
    names = {target.rpartition("/")[2] for target in made - gone}
    assert gone
    assert all(f"{name} could not be removed" in caplog.text for name in names)
