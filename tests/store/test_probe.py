"""The probe has to refuse, by name, a store that does not keep its word, and leave nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.core.files.storage import InMemoryStorage

from objq.errors import ConfigurationError
from objq.store.base import (
    ABSENT,
    Ambiguous,
    Conflict,
    Content,
    Expect,
    Sentinel,
    Store,
    Tag,
    Throttled,
    Unavailable,
    Unsupported,
)
from objq.store.memory import MemoryStore
from objq.store.probe import ProbeFailed, probe
from objq.store.s3 import S3Store
from tests.http1 import Message
from tests.proxy import (
    Action,
    Answer,
    CutReply,
    Forward,
    Proxy,
    always,
    every_nth_write,
    s3_error,
)
from tests.store.conftest import SERVERS

ministack = pytest.mark.parametrize("server", ["ministack"], indirect=True)

Write = Callable[[MemoryStore, bytes, Expect], Tag]


class Faulty:
    """A memory store whose writes and reads can be replaced; its siblings are as faulty."""

    pace_s = 0.0

    def __init__(self, write: Write, memory: MemoryStore | None = None) -> None:
        self.memory = memory or MemoryStore(InMemoryStorage(), "queue.json", "faulty")
        self.name = self.memory.name
        self._write = write

    def read(self, unless: Tag | None = None) -> Content | Sentinel | None:
        return self.memory.read(unless)

    def read_head(self) -> Content | None:
        return self.memory.read_head()

    def write(self, data: bytes, expect: Expect) -> Tag:
        return self._write(self.memory, data, expect)

    def sibling(self, suffix: str) -> Faulty:
        return Faulty(self._write, self.memory.sibling(suffix))

    def delete(self) -> None:
        self.memory.delete()

    def close(self) -> None:
        pass

    def left(self) -> dict[str, Content]:
        return self.memory._shelf.objects


def force(memory: MemoryStore, data: bytes) -> Tag:
    while True:
        content = memory.read()
        expect = content.tag if isinstance(content, Content) else ABSENT
        try:
            return memory.write(data, expect)
        except Conflict:
            continue


def creates_again(memory: MemoryStore, data: bytes, expect: Expect) -> Tag:
    return force(memory, data) if expect is ABSENT else memory.write(data, expect)


def never_creates(memory: MemoryStore, data: bytes, expect: Expect) -> Tag:
    raise Conflict("no")


def overwrites_newer(memory: MemoryStore, data: bytes, expect: Expect) -> Tag:
    if expect is ABSENT or memory.read() is None:
        return memory.write(data, expect)
    return force(memory, data)


def writes_where_nothing_is(memory: MemoryStore, data: bytes, expect: Expect) -> Tag:
    return force(memory, data) if memory.read() is None else memory.write(data, expect)


def writes_and_refuses(memory: MemoryStore, data: bytes, expect: Expect) -> Tag:
    if expect is not ABSENT and memory.read() is None:
        force(memory, data)
        raise Conflict("said no, did yes")
    return memory.write(data, expect)


def refuses_every_change(memory: MemoryStore, data: bytes, expect: Expect) -> Tag:
    if expect is not ABSENT:
        raise Conflict("no")
    return memory.write(data, expect)


def changes_bytes(memory: MemoryStore, data: bytes, expect: Expect) -> Tag:
    return memory.write(data + b"\n0\n", expect)


def checks_before_it_writes() -> Write:
    """Compares, and writes later: racing writers with the same tag all pass the comparison."""
    barrier = threading.Barrier(8)

    def write(memory: MemoryStore, data: bytes, expect: Expect) -> Tag:
        if not data.startswith(b"racer"):
            return memory.write(data, expect)
        barrier.wait()
        return force(memory, data)

    return write


def refuses_all_racers(memory: MemoryStore, data: bytes, expect: Expect) -> Tag:
    if data.startswith(b"racer"):
        raise Conflict("no")
    return memory.write(data, expect)


def knows_no_conditions(memory: MemoryStore, data: bytes, expect: Expect) -> Tag:
    raise Unsupported("501")


@pytest.mark.parametrize(
    ("write", "says"),
    [
        (creates_again, "creates an object a second time"),
        (never_creates, "refuses to create an object"),
        (overwrites_newer, "overwrites an object that has changed"),
        (writes_where_nothing_is, "one that is not there"),
        (writes_and_refuses, "although it refuses to"),
        (refuses_every_change, "the object's own tag"),
        (changes_bytes, "does not return the bytes"),
        (checks_before_it_writes(), "8 of 8 racing writers win"),
        (refuses_all_racers, "refuses every one of several racing writers"),
        (knows_no_conditions, "has no conditional writes"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_refuses(write: Write, says: str) -> None:
    store = Faulty(write)
    with pytest.raises(ProbeFailed, match=says) as caught:
        probe(store)
    assert isinstance(caught.value, ConfigurationError)
    assert store.name in caught.value.message
    assert "Use a store that honours If-Match" in caught.value.message
    assert store.left() == {}


def test_leaves_nothing_and_does_not_touch_the_object() -> None:
    store = Faulty(MemoryStore.write)
    tag = store.write(b"document", ABSENT)
    probe(store)
    assert store.left() == {"queue.json": Content(b"document", tag)}


def test_starts_over_when_a_reply_is_lost() -> None:
    lost = iter([True, False, True])

    def write(memory: MemoryStore, data: bytes, expect: Expect) -> Tag:
        tag = memory.write(data, expect)
        if next(lost, False):
            raise Ambiguous("lost")
        return tag

    store = Faulty(write)
    probe(store)
    assert store.left() == {}


def test_slows_down_when_asked_to() -> None:
    throttled = iter([True, False] * 3)

    def write(memory: MemoryStore, data: bytes, expect: Expect) -> Tag:
        if next(throttled, False):
            raise Throttled("slow down", retry_after_s=0.001)
        return memory.write(data, expect)

    probe(Faulty(write))


@pytest.mark.parametrize("error", [Unavailable, Ambiguous])
def test_passes_on_that_the_store_cannot_be_asked(error: type[Exception]) -> None:
    def write(memory: MemoryStore, data: bytes, expect: Expect) -> Tag:
        raise error("no answer")

    with pytest.raises(error, match="no answer"):
        probe(Faulty(write))


def test_failing_to_clean_up_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def delete(self: Any) -> None:
        raise Unavailable("gone away")

    monkeypatch.setattr(Faulty, "delete", delete)
    probe(Faulty(MemoryStore.write))
    assert "could not be removed: gone away" in caplog.text


# --- over HTTP -----------------------------------------------------------------------------------


@ministack
@pytest.mark.parametrize(
    ("headers", "says"),
    [
        (("If-Match", "If-None-Match"), "creates an object a second time"),
        (("If-None-Match",), "creates an object a second time"),
        (("If-Match",), "overwrites an object that has changed"),
    ],
)
def test_refuses_a_server_that_ignores_conditions(
    proxied: Store, proxy: Proxy, headers: tuple[str, ...], says: str
) -> None:
    proxy.rule = always(Forward(strip=headers))
    with pytest.raises(ProbeFailed, match=says) as caught:
        probe(proxied)
    assert proxied.name in caught.value.message
    deleted = [each for each in proxy.exchanges if each.request.method == "DELETE"]
    assert {each.request.target.rpartition(".probe-")[0] for each in deleted}
    assert {each.status for each in deleted} == {204}


@ministack
def test_refuses_a_server_without_conditional_writes(proxied: Store, proxy: Proxy) -> None:
    def rule(request: Message) -> Action | None:
        return s3_error(501, "NotImplemented") if request.is_write else None

    proxy.rule = rule
    with pytest.raises(ProbeFailed, match="has no conditional writes"):
        probe(proxied)


@ministack
@pytest.mark.parametrize("quoted", [True, False])
def test_learns_how_tags_are_quoted(proxied: Store, proxy: Proxy, quoted: bool) -> None:
    def rule(request: Message) -> Action | None:
        tag = request.header("If-Match")
        if tag is not None and tag.startswith('"') != quoted:
            return Answer(412)
        return None

    proxy.rule = rule
    probe(proxied)
    assert isinstance(proxied, S3Store)
    tag = proxied.write(b"one", ABSENT)
    tag = proxied.write(b"two", tag)
    assert proxied.read() == Content(b"two", tag)


@pytest.mark.parametrize("server", SERVERS, indirect=True)
def test_gets_through_a_network_that_loses_replies(proxied: Store, proxy: Proxy) -> None:
    proxy.rule = every_nth_write(10, CutReply())
    probe(proxied)
