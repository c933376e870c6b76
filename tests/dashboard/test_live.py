"""One socket by itself: what it sends, when it waits, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from django.http import Http404
from django.utils import timezone, translation

from objq_dashboard.live import consumer, subscription
from objq_dashboard.page import Cell, Health, Page, Row
from tests.dashboard.peer import TIMEOUT_S, Peer, accepted


class World:
    """What a socket meets: who may look on, what the page is, and what wakes it."""

    def __init__(self) -> None:
        self.allowed: bool | Exception = True
        self.good_pass = "pass"
        self.checks = 0
        self.check_gate = threading.Event()
        """Checks wait for it."""
        self.check_gate.set()
        self.note = "first"
        self.error: Exception | None = None
        self.builds = 0
        self.gate = threading.Event()
        """Builders wait for it."""
        self.gate.set()
        self.woken: list[asyncio.Event] = []

    def refusal(self, session_key: str | None, given_pass: str) -> str | None:
        self.checks += 1
        self.check_gate.wait(TIMEOUT_S)
        if isinstance(self.allowed, Exception):
            raise self.allowed
        if not self.allowed:
            return "denied"
        return None if given_pass == self.good_pass else "unknown"

    def build(self, source: Any, query: Any) -> Page:
        self.builds += 1
        self.gate.wait(TIMEOUT_S)
        if self.error is not None:
            raise self.error
        return Page(health=Health(level="good", sentence="Well."), note=self.note)

    @contextlib.contextmanager
    def looking_on(self) -> Iterator[asyncio.Event]:
        event = asyncio.Event()
        self.woken.append(event)
        try:
            yield event
        finally:
            self.woken.remove(event)

    def wake(self, note: str | None = None) -> None:
        self.note = note or self.note
        for event in self.woken:
            event.set()

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while not condition():
                self.wake()
                await asyncio.sleep(0.005)  # what happens in threads tells nobody


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()
    monkeypatch.setattr(consumer, "refusal", world.refusal)
    monkeypatch.setattr(consumer, "hub_of", lambda alias: world)
    monkeypatch.setattr(subscription, "PAGES", {"overview": SimpleNamespace(build=world.build)})
    return world


def a_scope(query: str = "page=overview", session: str = "key") -> dict[str, Any]:
    return {
        "type": "websocket",
        "path": "/x/",
        "headers": [],
        "query_string": query.encode(),
        "subprotocols": ["objq", "pass"],
        "session": SimpleNamespace(session_key=session),
    }


@contextlib.asynccontextmanager
async def opened(query: str = "page=overview", session: str = "key") -> AsyncIterator[Peer]:
    others = set(consumer.Live._open)
    async with accepted(consumer.Live.as_asgi(), a_scope(query, session)) as peer:
        yield peer
    async with asyncio.timeout(TIMEOUT_S):
        while consumer.Live._open != others:  # noqa: ASYNC110  # its task ends and tells nobody
            await asyncio.sleep(0.005)


async def test_the_page_and_then_what_changes(world: World) -> None:
    async with opened() as peer:
        assert (await peer.next())["snapshot"]["note"] == "first"
        await world.until(lambda: world.builds > 5)  # and nothing is sent of what is the same
        world.wake("second")
        assert await peer.next() == {"delta": {"note": "second"}}
        world.wake("third")
        assert await peer.next() == {"delta": {"note": "third"}}
    await world.until(lambda: not world.woken)


async def test_language_and_zone_are_the_viewers(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(source: Any, query: Any) -> Page:
        note = f"{translation.get_language()} {timezone.get_current_timezone_name()} {query}"
        return Page(health=Health(level="good", sentence=""), note=note)

    monkeypatch.setattr(subscription, "PAGES", {"overview": SimpleNamespace(build=build)})
    async with opened("page=overview&language=de&zone=Asia/Kolkata&text=x&empty=") as peer:
        note = (await peer.next())["snapshot"]["note"]
    assert note == "de Asia/Kolkata {'text': 'x', 'backend': 'default'}"
    assert translation.get_language() != "de"


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("", "no page"),
        ("page=admin", "no page"),
        ("page=overview&backend=nope", "called 'nope'"),
        ("page=overview&language=tlh", "speak 'tlh'"),
        ("page=overview&zone=../../etc/passwd", "no time zone"),
        ("page=overview&zone=%2B9999", "no time zone"),
        ("page=overview&" + "x=1&" * 100, "cannot be read"),
        ("page=overview&text=" + "x" * 9000, "too long"),
    ],
)
async def test_what_there_is_not_is_said(world: World, query: str, says: str) -> None:
    async with opened(query) as peer:
        message = await peer.message()
        assert message["closing"] == "unknown" and says in message["reason"]
        assert await peer.close() == 4404
    assert world.builds == 0


async def test_a_page_that_is_not_there_any_more(world: World) -> None:
    async with opened() as peer:
        await peer.next()
        world.error = Http404("There is no such job.")
        await world.until(lambda: world.builds > 1)
        assert await peer.message() == {"closing": "unknown", "reason": "There is no such job."}
        assert await peer.close() == 4404


async def test_who_may_not_is_told_before_anything_is_built(world: World) -> None:
    world.allowed = False
    async with opened() as peer:
        assert (await peer.message())["closing"] == "denied"
        assert await peer.close() == 4403
    assert world.builds == 0


async def test_a_page_without_its_pass(world: World) -> None:
    world.good_pass = "another"
    async with opened() as peer:
        message = await peer.message()
        assert message["closing"] == "unknown" and "pass of the page" in message["reason"]
        assert await peer.close() == 4404


async def test_a_refusal_does_not_wait_for_a_store_that_hangs(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "CHECK_EVERY_S", 0.01)
    async with opened() as peer:
        await peer.next()
        world.gate.clear()
        await world.until(lambda: world.builds > 1)
        world.allowed = False
        assert (await peer.message())["closing"] == "denied"
        assert await peer.close() == 4403
        world.gate.set()


async def test_when_the_database_fails_nobody_is_trusted(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(consumer, "CHECK_EVERY_S", 0.01)
    async with opened() as peer:
        await peer.next()
        world.allowed = OSError("no database")
        assert (await peer.message())["closing"] == "failed"
        assert await peer.close() == 4500
    assert "no database" in caplog.text


async def test_when_the_database_hangs_nobody_looks_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "CHECK_EVERY_S", 0.01)
    async with opened() as peer:
        await peer.next()
        world.check_gate.clear()
        monkeypatch.setattr(consumer, "CHECK_TIMEOUT_S", 0.01)
        assert (await peer.message())["closing"] == "failed"
        assert await peer.close() == 4500
        world.check_gate.set()


async def test_when_the_database_hangs_nobody_is_let_in_nor_waits(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "CHECK_TIMEOUT_S", 0.01)
    world.check_gate.clear()
    async with opened() as peer:
        assert (await peer.message())["closing"] == "failed"
        assert await peer.close() == 4500
        world.check_gate.set()
    assert world.builds == 0


async def test_a_pass_that_is_none_any_more(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer, "CHECK_EVERY_S", 0.01)
    async with opened() as peer:
        await peer.next()
        world.good_pass = "another"
        assert (await peer.message())["closing"] == "unknown"
        assert await peer.close() == 4404


async def test_a_page_that_cannot_be_built_is_said_and_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(consumer, "FIRST_TROUBLE_S", 0.01)
    async with opened() as peer:
        await peer.next()
        world.error = ZeroDivisionError("a fault")
        await world.until(lambda: world.builds > 1)
        assert await peer.next() == {"trouble": True}
        world.error = None
        await world.until(lambda: world.builds > 3)
        message = await peer.next()
        while message == {"trouble": True}:
            message = await peer.next()
        assert message == {"delta": {}}  # by which the page knows that all is well
    assert "a fault" in caplog.text


async def test_a_page_that_does_not_read_gets_the_newest_when_it_does(world: World) -> None:
    async with opened() as peer:
        await peer.message()
        world.wake("second")
        assert await peer.message() == {"delta": {"note": "second"}}
        builds = world.builds
        for number in range(20):
            world.wake(f"never seen {number}")
            await asyncio.sleep(0.005)
        assert peer.is_silent()
        assert world.builds == builds  # nor is anything built for it
        world.note = "newest"
        peer.answer()
        assert await peer.message() == {"delta": {"note": "newest"}}


async def test_a_page_that_never_reads_gives_up_its_place(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "UNREAD_FOR_S", 0.01)
    async with opened() as peer:
        await peer.message()
        world.wake("second")
        await peer.message()
        world.wake("third")
        assert (await peer.message())["closing"] == "failed"
        assert await peer.close() == 4500


async def test_a_long_quiet_is_broken(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened() as peer:
        await peer.next()
        monkeypatch.setattr(consumer, "QUIET_S", 0.01)
        task = asyncio.create_task(world.until(lambda: False))
        assert await peer.next() == {"delta": {}}
        task.cancel()


async def test_beyond_the_limit_pages_poll(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer, "MAX_SOCKETS", 1)
    async with opened() as first:
        await first.next()
        async with opened() as second:
            assert (await second.message())["closing"] == "full"
            assert await second.close() == 4429
    async with opened() as third:
        assert "snapshot" in await third.next()


async def test_nobody_takes_all_places(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer, "MAX_OF_ONE", 1)
    async with opened() as first:
        await first.next()
        async with opened() as second:
            assert (await second.message())["closing"] == "full"
        async with opened(session="another") as third:
            assert "snapshot" in await third.next()


async def test_of_those_who_arrive_only_so_many_are_looked_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "MAX_SOCKETS", 1)
    world.check_gate.clear()
    app = consumer.Live.as_asgi()
    async with accepted(app, a_scope()) as first, accepted(app, a_scope()) as second:
        await world.until(lambda: world.checks == 2)
        async with opened() as third:  # and it is told at once, whatever hangs
            assert (await third.message())["closing"] == "full"
            assert await third.close() == 4429
        world.check_gate.set()
        told = [await first.message(), await second.message()]
        assert sorted(next(iter(message)) for message in told) == ["closing", "snapshot"]
    await world.until(lambda: not consumer.Live._open)
    async with opened() as fourth:
        assert "snapshot" in await fourth.next()
    assert not consumer.Live._arriving


async def test_a_page_says_nothing_long(world: World) -> None:
    async with opened() as peer:
        await peer.message()
        peer.answer("x" * 1000)
        assert (await peer.message())["closing"] == "unknown"
        assert await peer.close() == 4404


def test_a_message_is_small_json() -> None:
    row = Row(key="ä", cells=(Cell(text="ä"),))
    page = Page(health=Health(level="good", sentence=""), tables={"t": (row,)})
    text = subscription.message(None, page)
    assert text is not None and '"key":"ä"' in text
    assert subscription.message(page, page) is None


async def test_a_browser_that_leaves_in_the_middle_is_no_fault(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    sent: list[str] = []

    async def send(event: dict[str, str]) -> None:
        sent.append(event["type"])
        if event["type"] == "websocket.send":
            raise OSError("the client is gone")

    events: asyncio.Queue[dict[str, object]] = asyncio.Queue()
    events.put_nowait({"type": "websocket.connect"})
    task = asyncio.ensure_future(consumer.Live.as_asgi()(a_scope(), events.get, send))
    await world.until(lambda: len(sent) == 2)
    await world.until(lambda: not world.woken)
    events.put_nowait({"type": "websocket.disconnect", "code": 1006})
    await task
    assert not caplog.records
