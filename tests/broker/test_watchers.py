"""`watch`: a snapshot, then deltas of confirmed commits; a gap rather than a buffer (design §7)."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from objq import errors
from objq.broker import watchers
from objq.broker.broker import Broker
from objq.broker.watchers import EVERY_S
from objq.core import ops
from objq.core.codec import seal
from objq.errors import ObjqError
from objq.store import base
from tests.broker.fakestore import FakeStore, Link
from tests.broker.world import T_S, TTL_S, World, complete, settle, world
from tests.virtual import virtual


class Watcher:
    """Keeps what it is told, and what a client would know by it."""

    def __init__(self) -> None:
        self.deltas: list[ops.Delta] = []
        self.seq = -1
        self.gaps = 0
        self.told = asyncio.Event()
        self.ends: list[ObjqError] = []
        self.begins = False
        self.is_behind = False

    def refuse(self, error: ObjqError) -> bool:
        if not self.begins:
            self.ends.append(error)
        return not self.begins

    def tell(self, delta: ops.Delta) -> bool:
        if self.is_behind:
            return False
        self.deltas.append(delta)
        if delta.after > self.seq:
            self.gaps += 1
        self.seq = max(self.seq, delta.seq)
        self.told.set()
        return True

    async def begin(self, broker: Broker) -> ops.Statistics:
        snapshot = await broker.watch(self)
        assert isinstance(snapshot, ops.Statistics)
        self.seq = snapshot.seq
        return snapshot

    async def next(self) -> ops.Delta:
        self.told.clear()
        if not self.deltas:
            await self.told.wait()
        return self.deltas.pop(0)


def document_of(broker: Broker) -> Any:
    gauges = broker.gauges()
    assert gauges is not None
    return gauges.document


async def lead(made: World) -> tuple[Broker, Watcher]:
    broker, watcher = await made.lead(), Watcher()
    await watcher.begin(broker)
    return broker, watcher


@virtual
async def test_a_delta_tells_what_a_commit_has_changed() -> None:
    async with world() as made:
        broker, watcher = await lead(made)
        job = made.job()
        pushed = await broker.submit(made.push(job))
        delta = await watcher.next()
        assert pushed.position is not None
        assert (delta.epoch, delta.seq, delta.after) == (1, pushed.position[1], 1)
        assert [(row.id, row.state) for row in delta.jobs] == [(job.id, "ready")]
        assert delta.queues["default"].ready == 1
        assert delta.broker is not None and delta.broker.id == broker.id
        assert not (delta.removed or delta.left_out)

        granted: Any = await broker.submit(made.claim())
        delta = await watcher.next()
        assert [(row.id, row.state) for row in delta.jobs] == [(job.id, "running")]

        await broker.submit(complete(granted.jobs[0].token))
        assert (await watcher.next()).jobs[0].state == "succeeded"

        await broker.submit(ops.Delete(request="1-w:1", ids=(job.id,), expected="succeeded"))
        delta = await watcher.next()
        assert (delta.removed, delta.jobs) == ((job.id,), ())

        await broker.submit(ops.Pause(request="1-w:2", queue="default"))
        delta = await watcher.next()
        assert delta.queues["default"].paused and not delta.jobs
        assert watcher.gaps == 0


@virtual
async def test_a_queue_of_which_nothing_is_left_to_say_is_told_of() -> None:
    async with world() as made:
        broker, watcher = await lead(made)
        await broker.submit(ops.Pause(request="1-w:1", queue="mail"))
        assert (await watcher.next()).queues["mail"].paused
        await broker.submit(ops.Resume(request="1-w:2", queue="mail"))
        assert (await watcher.next()).queues == {"mail": ops.QueueStats()}


@virtual
async def test_who_begins_between_two_deltas_is_told_of_what_is_then_as_it_was_before() -> None:
    """Paused and resumed between two deltas: for those who watched before, nothing has changed."""
    async with world() as made:
        broker, first = await lead(made)
        await broker.submit(made.push())
        await first.next()
        await broker.submit(ops.Pause(request="1-w:1", queue="default"))
        second = Watcher()
        snapshot = await second.begin(broker)
        assert snapshot.queues["default"].paused
        await broker.submit(ops.Resume(request="1-w:2", queue="default"))
        assert not (await second.next()).queues["default"].paused


@virtual
async def test_what_comes_due_after_a_snapshot_is_told_with_the_next_version() -> None:
    """A delta that leads to the version of the snapshot is known already, and left unread."""
    async with world() as made:
        broker, _ = await lead(made)
        await broker.submit(made.push())
        soon = made.job(run_after=made.clock.wall_ms() + 200)
        await broker.submit(made.push(soon))  # which nobody is told of for half a second
        second = Watcher()
        snapshot = await second.begin(broker)
        assert snapshot.queues["default"].scheduled == 1
        await asyncio.sleep(0.3)
        await broker.submit(made.claim(queue="mail"))  # finds nothing, so nothing is written
        await asyncio.sleep(EVERY_S)
        known = [delta.seq <= snapshot.seq for delta in second.deltas]
        assert all(known)
        second.deltas.clear()
        await broker.submit(ops.Pause(request="1-w:1", queue="mail"))
        await asyncio.sleep(2 * EVERY_S)
        assert second.deltas[0].queues["default"].ready == 2


@virtual
async def test_a_document_that_was_read_anew_is_a_gap_also_under_the_same_number() -> None:
    """What came due in it before anybody took note again would else never be told."""
    async with world() as made:
        broker, watcher = await lead(made)
        await broker.submit(made.push(made.job(run_after=made.clock.wall_ms() + 3_000)))
        assert (await watcher.next()).queues["default"].scheduled == 1
        gaps, seq = watcher.gaps, watcher.seq
        broker._committer.drop()
        await asyncio.sleep(3.5)
        await broker.submit(made.claim(queue="mail"))  # finds nothing, so nothing is written
        await asyncio.sleep(TTL_S)
        assert watcher.gaps == gaps + 1
        assert [delta.seq for delta in watcher.deltas] == [seq]


@virtual
async def test_only_confirmed_commits_are_told() -> None:
    async with world() as made:
        broker, watcher = await lead(made)
        made.store.hold()
        pushed = broker.submit(made.push())
        await made.store.next_attempt()
        await asyncio.sleep(3)
        assert not watcher.deltas
        made.store.release()
        await pushed
        assert (await watcher.next()).queues["default"].ready == 1


@virtual
async def test_a_snapshot_under_load_is_followed_without_a_gap() -> None:
    async with world(FakeStore(latency_s=0.05)) as made:
        broker = await made.lead()

        async def push_on() -> None:
            while True:
                await broker.submit(made.push())

        pushers = [asyncio.create_task(push_on()) for _ in range(5)]
        await asyncio.sleep(1)
        watcher = Watcher()
        await watcher.begin(broker)
        await asyncio.sleep(3)
        for pusher in pushers:
            pusher.cancel()
        assert watcher.gaps == 0
        assert 4 <= len(watcher.deltas) <= 3 / EVERY_S + 1  # a few a second, not one per commit
        rows = {row.id for delta in watcher.deltas for row in delta.jobs}
        assert len(rows) > 100


@virtual
async def test_a_broker_that_is_cut_from_the_store_tells_who_watches_that_it_cannot_know() -> None:
    async with world() as made:
        link = Link(made.store)
        broker, watcher, beginning = await made.lead(store=link), Watcher(), Watcher()
        await watcher.begin(broker)
        await beginning.begin(broker)
        beginning.begins = True
        link.down = base.Unavailable("no route")
        await asyncio.sleep(T_S / 2 - TTL_S / 4 - 1)
        assert not watcher.ends
        await asyncio.sleep(TTL_S / 2 + 2)
        assert [error.code for error in watcher.ends] == ["unavailable"]
        beginning.begins = False  # its snapshot has been sent
        await asyncio.sleep(TTL_S / 4)
        assert [error.code for error in beginning.ends] == ["unavailable"]

        link.down = None
        await asyncio.sleep(TTL_S)
        await watcher.begin(broker)
        await broker.submit(made.push())
        assert (await watcher.next()).queues["default"].ready == 1
        assert len(watcher.ends) == 1


@virtual
async def test_watching_writes_nothing_and_is_noted_only_while_somebody_does() -> None:
    async with world() as made:
        broker = await made.lead()
        await broker.submit(made.push())
        assert document_of(broker).touched is None
        before = len(made.store.history)
        watcher = Watcher()
        await watcher.begin(broker)
        assert document_of(broker).touched == {}
        await asyncio.sleep(60)
        assert len(made.store.history) == before
        assert not watcher.deltas
        broker.unwatch(watcher)
        broker.unwatch(watcher)
        assert document_of(broker).touched is None
        await broker.submit(made.push())
        await asyncio.sleep(1)
        assert not watcher.deltas


@virtual
async def test_heartbeats_alone_are_not_told() -> None:
    async with world() as made:
        broker, watcher = await lead(made)
        await broker.submit(made.push())
        granted: Any = await broker.submit(made.claim())
        token = granted.jobs[0].token
        await broker.submit(ops.Heartbeat(tokens=(token,), started=(token,)))
        await broker.submit(made.push())
        await asyncio.sleep(1)
        started = [row for delta in watcher.deltas for row in delta.jobs if row.started_at]
        assert [row.id for row in started] == [granted.jobs[0].id]
        watcher.deltas.clear()
        for _ in range(10):
            await broker.submit(ops.Heartbeat(tokens=(token,), started=(token,)))
            await asyncio.sleep(2)
        assert [row for delta in watcher.deltas for row in delta.jobs] == []


@virtual
async def test_a_delta_is_bounded_and_says_what_it_leaves_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with world() as made:
        broker, watcher = await lead(made)
        jobs = [made.job() for _ in range(watchers.MAX_JOBS + 7)]
        await broker.submit(made.push(*jobs))
        delta = await watcher.next()
        assert (len(delta.jobs), delta.left_out) == (watchers.MAX_JOBS, 7)
        assert delta.queues["default"].ready == len(jobs)
        assert len(msgspec.json.encode(delta)) < 100_000


@virtual
async def test_a_version_from_elsewhere_is_a_gap_for_everybody() -> None:
    async with world() as made:
        broker, watcher = await lead(made)
        made.push_directly(made.job())
        delta = await watcher.next()  # once the leader has looked
        assert watcher.gaps == 1
        assert delta.queues["default"].ready == 1
        again = await watcher.begin(broker)
        await broker.submit(made.push())
        delta = await watcher.next()
        assert delta.after <= again.seq < delta.seq


@virtual
async def test_a_conflict_with_a_direct_push_is_a_gap_and_then_goes_on() -> None:
    async with world() as made:
        broker, watcher = await lead(made)
        made.push_directly(made.job())
        await broker.submit(made.push())
        await watcher.next()
        assert watcher.gaps == 1
        await broker.submit(made.push())
        await watcher.next()
        assert watcher.gaps == 1


@virtual
async def test_who_could_not_take_the_last_delta_before_quiet_is_told_once_it_can() -> None:
    async with world() as made:
        broker, slow = await lead(made)
        quick = Watcher()
        await quick.begin(broker)
        slow.is_behind = True
        pushed = await broker.submit(made.push(made.job()))
        await quick.next()
        await asyncio.sleep(10 * EVERY_S)
        slow.is_behind = False
        delta = await slow.next()
        assert pushed.position is not None
        assert (delta.seq, slow.gaps, delta.jobs) == (pushed.position[1], 1, ())
        assert delta.queues["default"].ready == 1
        await asyncio.sleep(10 * EVERY_S)
        assert not slow.deltas, "once"
        assert not quick.deltas


@virtual
async def test_who_leaves_while_it_is_behind_is_asked_no_more() -> None:
    async with world() as made:
        broker, slow = await lead(made)
        slow.is_behind = True
        await broker.submit(made.push(made.job()))
        await asyncio.sleep(2 * EVERY_S)
        broker.unwatch(slow)
        slow.is_behind = False
        await asyncio.sleep(10 * EVERY_S)
        assert not slow.deltas


@virtual
async def test_watchers_are_bounded() -> None:
    async with world() as made:
        broker = await made.lead()
        many = [Watcher() for _ in range(watchers.MAX_WATCHERS)]
        for watcher in many:
            await watcher.begin(broker)
        with pytest.raises(errors.Overloaded) as refused:
            await Watcher().begin(broker)
        assert refused.value.retry_after_s == watchers.RETRY_AFTER_S
        broker.unwatch(many[0])
        await Watcher().begin(broker)


@virtual
async def test_nobody_is_told_by_a_leader_that_was_deposed() -> None:
    async with world() as made:
        broker, watcher = await lead(made)
        resets: list[int] = []
        broker.on_reset.append(lambda: resets.append(1))
        other = made.document()
        other.epoch += 1
        other.broker = ops.BrokerInfo(id="other", url="ws://10.0.0.2:1/", since=1, version="0")
        made.store.put(seal(other, made.ids.token(), made.clock.wall_ms(), leading=True))
        with pytest.raises(errors.ObjqError):
            await broker.submit(made.push())
        await settle()
        assert resets and not watcher.deltas
        with pytest.raises(errors.NotBroker):
            await Watcher().begin(broker)
