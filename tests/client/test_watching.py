"""The endless watch: gaps, lost connections and other brokers end in a snapshot (design §7)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from objq import wire
from objq.client import link
from objq.client.watching import SNAPSHOT_EVERY_S, Disconnected, Event, Events
from objq.core import ops
from objq.errors import Forbidden, ObjqError, Overloaded, Unavailable
from tests.client.fakes import FakeBroker, Socket, World
from tests.virtual import virtual


def statistics(seq: int, epoch: int = 1) -> ops.Statistics:
    return ops.Statistics(
        document="document-1",
        seq=seq,
        epoch=epoch,
        at=1,
        broker=None,
        size_bytes=0,
        heartbeat_timeout_s=30.0,
        queues={},
    )


def delta(seq: int, after: int | None = None, epoch: int = 1) -> ops.Delta:
    return ops.Delta(after=seq - 1 if after is None else after, seq=seq, epoch=epoch, at=1)


class Watched:
    """A broker that answers `watch` with `answers` in turn, then with the last again and again."""

    def __init__(self, broker: FakeBroker, *answers: ops.Answer | ObjqError) -> None:
        self.broker = broker
        self.answers = list(answers)
        self.asked = 0
        self.socket: Socket | None = None
        self.number = 0
        broker.handler = self._answer

    def _answer(self, socket: Socket, number: int, op: ops.Op) -> ops.Answer | ObjqError | None:
        if not isinstance(op, ops.Watch):
            return self.broker.answer(op)
        self.asked += 1
        self.socket, self.number = socket, number
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def end(self, error: ObjqError) -> None:
        assert self.socket is not None
        self.socket._to_client.put_nowait(wire.encode_error(self.number, error).decode())

    def tell(self, *deltas: ops.Delta) -> None:
        assert self.socket is not None
        for each in deltas:
            body = wire.encode_delta_body(each)
            self.socket._to_client.put_nowait(wire.encode_delta(self.number, body).decode())


@contextlib.asynccontextmanager
async def a_watch(world: World) -> AsyncIterator[Events]:
    watch = world.client().watch()
    try:
        yield watch
    finally:
        await watch.aclose()


async def take(watch: Events, count: int) -> list[Event]:
    return [await anext(watch) for _ in range(count)]


def seqs(events: list[Event]) -> list[Any]:
    """Return snapshots as their seq, deltas as a pair, and the lack of a broker as None."""
    return [
        None
        if isinstance(event, Disconnected)
        else event.seq
        if isinstance(event, ops.Statistics)
        else (event.after, event.seq)
        for event in events
    ]


@virtual
async def test_a_snapshot_then_deltas() -> None:
    world = World()
    watched = Watched(world.broker().lead(), statistics(5))
    async with a_watch(world) as watch:
        assert seqs(await take(watch, 1)) == [5]
        watched.tell(delta(6), delta(9, after=6))
        assert seqs(await take(watch, 2)) == [(5, 6), (6, 9)]
        assert watched.asked == 1


@virtual
async def test_what_is_known_already_is_left_out_and_overlap_is_no_gap() -> None:
    world = World()
    watched = Watched(world.broker().lead(), statistics(5))
    async with a_watch(world) as watch:
        await anext(watch)
        watched.tell(delta(4), delta(5), delta(7, after=2))
        assert seqs(await take(watch, 1)) == [(2, 7)]
        assert watched.asked == 1


@virtual
async def test_a_gap_is_filled_by_a_snapshot_over_the_same_socket() -> None:
    world = World()
    watched = Watched(world.broker().lead(), statistics(5), statistics(9))
    async with a_watch(world) as watch:
        await anext(watch)
        watched.tell(delta(8, after=7))
        assert seqs(await take(watch, 1)) == [9]
        watched.tell(delta(10))
        assert seqs(await take(watch, 1)) == [(9, 10)]
        assert len(world.connects) == 1


@virtual
async def test_a_replaced_document_is_a_gap() -> None:
    world = World()
    watched = Watched(world.broker().lead(), statistics(5), statistics(6))
    async with a_watch(world) as watch:
        await anext(watch)
        watched.tell(delta(6, after=6))  # follows itself
        assert seqs(await take(watch, 1)) == [6]


@virtual
async def test_gaps_without_end_ask_for_snapshots_now_and_then_only() -> None:
    world = World()
    watched = Watched(world.broker().lead(), *(statistics(5 + n) for n in range(100)))
    loop = asyncio.get_running_loop()
    async with a_watch(world) as watch:
        await anext(watch)
        began = loop.time()
        for number in range(10):
            watched.tell(delta(1000, after=999))
            assert seqs(await take(watch, 1)) == [6 + number]
        assert loop.time() - began >= 9.9 * SNAPSHOT_EVERY_S


@virtual
async def test_a_watcher_that_does_not_look_gets_a_snapshot_and_no_heap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(link, "MAX_DELTAS", 3)
    world = World()
    watched = Watched(world.broker().lead(), statistics(5), statistics(50))
    async with a_watch(world) as watch:
        await anext(watch)
        watched.tell(*(delta(seq) for seq in range(6, 20)))
        await asyncio.sleep(1)
        assert seqs(await take(watch, 1)) == [50]


@virtual
async def test_a_lost_connection_is_told_once_and_then_there_is_a_snapshot() -> None:
    world = World()
    watched = Watched(world.broker().lead(), statistics(5))
    async with a_watch(world) as watch:
        await anext(watch)
        world.reach(5)
        assert watched.socket is not None
        watched.socket.cut()
        assert seqs(await take(watch, 2)) == [None, 5]
        watched.tell(delta(6))
        assert seqs(await take(watch, 1)) == [(5, 6)]


@virtual
async def test_a_watch_that_the_broker_ends_begins_anew_there_or_where_the_document_says() -> None:
    world = World()
    first = world.broker("broker-1").lead()
    watched = Watched(first, statistics(5), statistics(6), Unavailable("no store"))
    async with a_watch(world) as watch:
        await anext(watch)
        watched.tell(delta(6))
        watched.end(Unavailable("no store"))
        assert seqs(await take(watch, 3)) == [(5, 6), None, 6]
        assert len(world.connects) == 1

        world.reach(6)
        # It is cut from the store for good and does not know that another leads.
        second = Watched(world.broker("broker-2").lead(), statistics(9, epoch=2))
        watched.end(Unavailable("no store"))
        assert seqs(await take(watch, 2)) == [None, 9]
        second.tell(delta(10, epoch=2))
        assert seqs(await take(watch, 1)) == [(9, 10)]


@virtual
async def test_a_watch_that_ends_with_its_first_words_begins_anew() -> None:
    """Snapshot, delta and end in one frame: by the end its caller has not seen the snapshot."""
    world = World()
    watched = Watched(world.broker().lead(), statistics(5))
    begin = watched._answer

    def end_at_once(socket: Socket, number: int, op: ops.Op) -> ops.Answer | ObjqError | None:
        answer = begin(socket, number, op)
        if isinstance(op, ops.Watch) and watched.asked == 1:
            assert isinstance(answer, ops.Statistics)
            socket.reply(number, answer)
            watched.tell(delta(6))
            watched.end(Unavailable("no store"))
            watched.answers = [statistics(7)]
            return None
        return answer

    watched.broker.handler = end_at_once
    async with a_watch(world) as watch:
        assert seqs(await take(watch, 4)) == [5, (5, 6), None, 7]


@virtual
async def test_it_follows_to_another_broker() -> None:
    world = World()
    first = world.broker("broker-1").lead()
    Watched(first, statistics(5))
    async with a_watch(world) as watch:
        await anext(watch)
        world.reach(5)
        first.stop()
        assert seqs(await take(watch, 1)) == [None]
        second = Watched(world.broker("broker-2").lead(), statistics(9, epoch=2))
        assert seqs(await take(watch, 1)) == [9]
        second.tell(delta(10, epoch=2))
        assert seqs(await take(watch, 1)) == [(9, 10)]


@virtual
async def test_who_watches_before_there_is_a_broker_is_told_so_and_waits() -> None:
    world = World()
    async with a_watch(world) as watch:
        event = await anext(watch)
        assert isinstance(event, Disconnected)
        assert "no broker" in event.why
        waiting = asyncio.create_task(take(watch, 1))
        await asyncio.sleep(30)
        Watched(world.broker().lead(), statistics(5))
        assert seqs(await waiting) == [5]


@virtual
async def test_an_older_version_than_was_told_is_never_told() -> None:
    world = World()
    watched = Watched(world.broker().lead(), statistics(9), statistics(7), statistics(9))
    async with a_watch(world) as watch:
        await anext(watch)
        watched.tell(delta(20, after=19))
        assert seqs(await take(watch, 1)) == [9]
        assert watched.asked == 3


@virtual
async def test_a_broker_that_has_no_room_or_no_store_is_asked_again() -> None:
    world = World()
    answers = (Overloaded("full", retry_after_s=5.0), Unavailable("no store"), statistics(5))
    watched = Watched(world.broker().lead(), *answers)
    async with a_watch(world) as watch:
        assert seqs(await take(watch, 2)) == [None, 5]
        assert watched.asked == 3


@virtual
async def test_who_may_not_watch_is_told_by_an_error() -> None:
    world = World()
    Watched(world.broker().lead(), Forbidden("no"))
    async with a_watch(world) as watch:
        with pytest.raises(Forbidden):
            await anext(watch)


@virtual
async def test_a_wait_that_is_cancelled_loses_nothing() -> None:
    world = World()
    watched = Watched(world.broker().lead(), statistics(5))
    async with a_watch(world) as watch:
        await anext(watch)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(watch), 1)
        watched.tell(delta(6))
        assert seqs(await take(watch, 1)) == [(5, 6)]
        assert watched.asked == 1


@virtual
async def test_a_watch_ends_when_it_or_its_session_is_closed() -> None:
    world = World()
    Watched(world.broker().lead(), statistics(5))
    session = world.session()
    first, second = session.watch(), session.watch()
    await anext(first)
    await anext(second)
    waiting = asyncio.create_task(anext(first, None))
    await first.aclose()
    await first.aclose()
    event = await waiting
    assert event is None or isinstance(event, Disconnected)
    assert await anext(first, None) is None
    await session.close()
    assert [event async for event in second] == []


@virtual
async def test_a_watch_that_waits_for_a_broker_can_be_closed() -> None:
    world = World()
    watch = world.client().watch()
    await anext(watch)
    waiting = asyncio.create_task(anext(watch, None))
    await asyncio.sleep(1)
    await watch.aclose()
    assert await waiting is None


# --- the other looks -----------------------------------------------------------------------------


@virtual
async def test_list_workers_and_history_are_asked_as_they_are_named() -> None:
    world = World()
    broker = world.broker().lead()
    answers: dict[type, ops.Answer] = {
        ops.ListJobs: ops.Listed(jobs=(), cursor="next", total=3, position=(1, 2, 0)),
        ops.Workers: ops.AllWorkers(workers=(), total=0),
        ops.History: ops.RecentHistory(every_s=10.0, points=()),
    }
    broker.handler = lambda socket, number, op: answers[type(op)]
    client = world.client()
    wanted = ops.Filter(states=("dead",), text="x")
    listed = await client.list(wanted, cursor="c", limit=7)
    assert (listed.cursor, listed.total) == ("next", 3)
    assert broker.ops[-1] == ops.ListJobs(filter=wanted, page=ops.Page(cursor="c", limit=7))
    assert (await client.workers()).total == 0
    assert (await client.history()).every_s == 10.0
