"""Several brokers on one document: who leads, and when another takes over (scenarios 7, 13, 15–18,
29)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from objq import errors
from objq.broker.election import ProbeResult, Reach
from objq.core import ops
from objq.store import base
from tests.broker.fakestore import FakeStore, Link, Meets
from tests.broker.world import T_S, TTL_S, URL, push_and_claim, settle, until, world
from tests.newer import newer
from tests.virtual import virtual


@virtual
async def test_of_two_brokers_that_create_at_once_one_wins_and_the_other_reads() -> None:
    async with world() as made:
        first, second = made.start(1), made.start(2)
        await until(lambda: first.leading or second.leading)
        await asyncio.sleep(60)
        assert first.leading != second.leading
        assert first.document == second.document
        assert len(made.store.history) == 1
        assert made.document().epoch == 1


@virtual
async def test_a_creation_whose_reply_is_lost_is_recognised() -> None:
    async with world() as made:
        made.store.plan = [Meets.LOST_REPLY]
        broker = await made.lead()
        assert len(made.store.history) == 1
        await broker.submit(made.push())


@virtual
async def test_a_take_over_whose_reply_is_lost_is_recognised_beneath_a_direct_push() -> None:
    async with world() as made:
        incumbent = await made.lead(1)
        await incumbent.stop()
        made.store.plan = [Meets.LOST_REPLY]
        successor = made.start(2)
        await made.store.next_write()
        made.push_directly(made.job())
        await made.leads(successor)
        assert made.document().epoch == 2
        await successor.submit(made.push())
        assert len(made.document().jobs) == 2


@virtual
async def test_a_standby_never_creates_a_document_that_vanished() -> None:
    async with world() as made:
        incumbent = await made.lead(1)
        standby = made.start(2)
        await asyncio.sleep(5)
        made.store.delete()
        await made.kill(incumbent)
        await asyncio.sleep(300)
        assert made.store.data is None
        assert standby.readiness()["problem"]


@virtual
async def test_a_dead_leader_whose_port_refuses_is_replaced_within_a_second() -> None:
    async with world() as made:
        incumbent = await made.lead(1)
        standby = made.start(2)
        await asyncio.sleep(TTL_S)
        reads = made.store.reads
        await asyncio.sleep(TTL_S / 8)
        assert made.store.reads - reads <= 3  # asking the leader does not touch the store
        await made.kill(incumbent)
        died = made.clock.monotonic()
        await made.leads(standby)
        assert made.clock.monotonic() - died <= 1.0
        assert made.document().epoch == 2


@virtual
async def test_a_standby_is_ready_for_as_long_as_the_leader_is_well() -> None:
    async with world() as made:
        await made.lead(1)
        standby = made.start(2)
        await asyncio.sleep(1)
        for _ in range(600):
            await asyncio.sleep(1)
            assert standby.readiness()["store_ok"]


@virtual
async def test_an_idle_standby_reads_about_as_often_as_the_leader() -> None:
    async with world() as made:
        await made.lead(1)
        link = Link(made.store)
        made.start(2, store=link)
        reads = 0

        async def count(read: Callable[[], Awaitable[Any]] = link.read_head) -> Any:
            nonlocal reads
            reads += 1
            return await read()

        link.read_head = count  # type: ignore[method-assign]
        await asyncio.sleep(10 * TTL_S)
        assert 4 * 10 <= reads <= 8 * 10 + 2


@virtual
async def test_a_standby_that_looked_long_ago_does_not_take_over_an_old_version_put_back() -> None:
    async with world() as made:
        leader = await made.lead(1)
        old = made.store.data
        assert old is not None
        standby = made.start(2)
        await asyncio.sleep(1)
        for _ in range(20):
            await leader.submit(made.push())
            await asyncio.sleep(1)
        made.store.put(old)
        writes = len(made.store.history)
        await asyncio.sleep(20 * TTL_S)
        assert not standby.leading
        assert len(made.store.history) == writes
        for broker in (leader, standby):
            assert "went back" in broker.readiness()["problem"]


@virtual
async def test_a_standby_started_after_an_old_version_was_put_back_believes_the_leader() -> None:
    async with world() as made:
        leader = await made.lead(1)
        old = made.store.data
        assert old is not None
        await leader.submit(made.push())
        made.store.put(old)
        standby = made.start(2)
        writes = len(made.store.history)
        await asyncio.sleep(20 * TTL_S)
        assert leader.leading
        assert not standby.leading
        assert len(made.store.history) == writes
        assert "went back" in standby.readiness()["problem"]


@virtual
async def test_a_version_put_back_just_before_the_leader_dies_is_not_taken_over() -> None:
    async with world() as made:
        leader = await made.lead(1)
        standby = made.start(2)
        await asyncio.sleep(1)
        old = made.store.data
        assert old is not None
        await leader.submit(made.push())
        await asyncio.sleep(1.0)  # in which the standby asks the leader, and reads nothing
        made.store.put(old)
        await made.kill(leader)
        writes = len(made.store.history)
        await asyncio.sleep(20 * TTL_S)
        assert not standby.leading
        assert len(made.store.history) == writes
        assert "went back" in standby.readiness()["problem"]


@virtual
async def test_a_newer_schema_is_neither_led_nor_written() -> None:
    """An older standby stays when the leader of a newer objq raises the schema, and dies."""
    async with world() as made:
        leader = await made.lead()
        standby = made.start(2)
        await asyncio.sleep(1)
        await made.kill(leader)
        assert made.store.data is not None
        made.store.put(written := newer(made.store.data))
        await asyncio.sleep(10 * TTL_S)
        assert not standby.leading
        assert made.store.data == written
        assert "schema 2" in str(standby.readiness()["problem"])


@virtual
async def test_in_trouble_a_line_is_logged_for_each_kind_and_not_for_each_version_found(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with world() as made:
        leader = await made.lead(1)
        standby = made.start(2)
        kept = []
        for _ in range(10):
            kept.append(made.store.data or b"")
            await leader.submit(made.push())
        await asyncio.sleep(TTL_S)
        caplog.clear()
        for data in kept:
            made.store.put(data)
            await asyncio.sleep(TTL_S)
        assert "seq 10" in leader.readiness()["problem"]  # which tells of what was found last
        assert "seq 10" in standby.readiness()["problem"]
        made.store.put(b"")
        await asyncio.sleep(TTL_S)
        events = Counter(getattr(record, "event", None) for record in caplog.records)
        # Each of the two says once that it went back, and once that it is empty.
        assert events["document_refused"] == 2 * 2
        assert events["commit_lost"] == 1
        assert events["standing_by"] <= 4


@virtual
async def test_a_leader_that_was_never_reached_is_replaced_only_after_a_challenge() -> None:
    async with world() as made:
        incumbent = await made.lead(1)
        await made.kill(incumbent)
        standby = made.start(2)
        began = made.clock.monotonic()
        await made.leads(standby)
        assert made.clock.monotonic() - began >= TTL_S
        assert made.clock.monotonic() - began <= 1.5 * TTL_S


@virtual
async def test_direct_pushes_do_not_make_a_dead_leader_look_alive() -> None:
    async with world() as made:
        incumbent = await made.lead(1)
        await made.kill(incumbent)
        standby = made.start(2)
        began = made.clock.monotonic()
        while not standby.leading:
            made.push_directly(made.job())
            await asyncio.sleep(0.7)
        assert made.clock.monotonic() - began <= 2 * TTL_S


@virtual
async def test_a_broker_restarted_on_its_own_port_leads_at_once() -> None:
    async with world() as made:
        before = await made.lead(1, bound=True)
        grant = await push_and_claim(before, made)
        await made.kill(before)
        began = made.clock.monotonic()
        after = await made.lead(1, bound=True)
        assert made.clock.monotonic() - began <= 1.0
        assert await after.submit(ops.Heartbeat(tokens=(grant.token,))) == ops.Beaten()


@virtual
async def test_a_leader_without_credentials_is_replaced_by_a_standby_with_them() -> None:
    async with world() as made:
        link = Link(made.store)
        incumbent = await made.lead(1, store=link)
        standby = made.start(2)
        await asyncio.sleep(TTL_S)
        link.down = base.Denied("ExpiredToken")
        await made.leads(standby)
        link.down = None
        await until(lambda: not incumbent.leading)
        await asyncio.sleep(300)
        assert standby.leading
        assert made.document().epoch == 2


@virtual
async def test_a_leader_that_answers_in_the_store_is_left_alone_however_idle() -> None:
    async with world() as made:
        incumbent = await made.lead(1)
        made.cut.add(URL)
        standbys = [made.start(2), made.start(3)]
        await asyncio.sleep(1800)
        assert incumbent.leading
        assert not any(standby.leading for standby in standbys)
        assert made.document().epoch == 1
        # Challenges that were answered back off: two writes each, ever more rarely.
        assert len(made.store.history) <= 2 * 2 * (5 + 1800 / (16 * TTL_S / 2))


@virtual
async def test_brokers_that_cannot_reach_each_other_do_not_take_turns() -> None:
    async with world() as made:
        links = [Link(made.store), Link(made.store)]
        first = await made.lead(1, store=links[0])
        second = made.start(2, store=links[1])
        made.cut |= set(made.brokers)
        # They reach themselves, as each did before the cut, and never each other.
        second._standby._check_self = False
        links[0].down = base.Unavailable("no route")
        await made.leads(second)
        links[0].down = None
        await asyncio.sleep(3600 / 4)
        assert second.leading
        assert not first.leading
        assert made.document().epoch == 2


@virtual
async def test_two_brokers_that_bound_the_same_recorded_address_do_not_take_turns() -> None:
    async with world() as made:
        first = await made.lead(1, bound=True)
        second = made.start(1, bound=True)  # on another machine, with the same loopback address
        await made.leads(second)
        await asyncio.sleep(900)
        assert second.leading
        assert not first.leading
        assert made.document().epoch == 2


@virtual
async def test_two_standbys_see_the_silence_and_one_leads() -> None:
    async with world() as made:
        incumbent = await made.lead(1)
        standbys = [made.start(2), made.start(3), made.start(4)]
        await asyncio.sleep(TTL_S)
        await made.kill(incumbent)
        await asyncio.sleep(60)
        assert sum(standby.leading for standby in standbys) == 1
        assert made.document().epoch == 2


@virtual
async def test_an_idle_system_writes_nothing_with_standbys() -> None:
    async with world() as made:
        await made.lead(1)
        made.start(2)
        made.start(3)
        await asyncio.sleep(1800)
        assert len(made.store.attempts) == 1


@virtual
async def test_a_new_leader_waits_the_longer_of_both_timeouts_before_it_expires_a_claim() -> None:
    async with world() as made:
        before = await made.lead(1, bound=True)
        grant = await push_and_claim(before, made)
        await made.kill(before)
        after = await made.lead(1, bound=True, heartbeat_timeout_s=6.0, broker_ttl_s=6.0)
        await asyncio.sleep(T_S - 2)
        assert list(made.document().claims) == [grant.token]
        assert await after.submit(ops.Heartbeat(tokens=(grant.token,))) == ops.Beaten()
        await asyncio.sleep(6 + 3)
        assert not made.document().claims


@virtual
async def test_a_broker_does_not_lead_before_it_reaches_itself() -> None:
    async with world() as made:
        made.cut.add(URL)
        broker = made.start(1)
        await asyncio.sleep(60)
        assert not broker.leading
        assert made.store.data is None
        assert "--advertise" in broker.readiness()["problem"]
        made.cut.clear()
        await made.leads(broker)


def test_a_standby_that_could_not_lead_says_so_before_it_is_needed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @virtual
    async def check() -> None:
        async with world() as made:
            await made.lead(1)
            made.cut.add("ws://10.0.0.1:2/objq/v1/")
            standby = made.start(2)
            await until(lambda: standby.readiness()["problem"] is not None)
            assert "--advertise" in standby.readiness()["problem"]
            await asyncio.sleep(60)
            said = [each for each in caplog.messages if "does not reach itself" in each]
            assert len(said) == 1
            made.cut.clear()
            await until(lambda: standby.readiness()["problem"] is None)

    check()


@virtual
async def test_the_repeat_at_a_new_broker_gets_the_answer_of_the_first() -> None:
    async with world() as made:
        link = Link(made.store)
        first = await made.lead(1, store=link, heartbeat_timeout_s=120.0)
        push = made.push()
        made.store.plan = [Meets.LOST_REPLY]
        pushed = first.submit(push)
        await made.store.next_write()
        link.open.clear()  # the reply is lost, and then nothing gets through
        made.cut.add(URL)
        second = await made.lead(2)
        link.open.set()
        with pytest.raises(errors.Unknown):
            await pushed
        answer = await second.submit(push)
        assert isinstance(answer, ops.Outcomes)
        assert answer.items[0].state == "ready"
        assert len(made.document().jobs) == 1


@virtual
async def test_a_standby_names_the_leader() -> None:
    async with world() as made:
        await made.lead(1)
        standby = made.start(2)
        await asyncio.sleep(1)
        with pytest.raises(errors.NotBroker) as refused:
            await standby.submit(made.push())
        assert refused.value.url == URL
        with pytest.raises(errors.NotBroker):
            standby.welcome("push")
        await standby.stop()
        assert standby.state == "stopped"


@virtual
async def test_a_broker_stopped_in_the_middle_of_a_take_over_clears_it_again() -> None:
    async with world(FakeStore(latency_s=1.0)) as made:
        broker = made.start(1)
        await made.store.next_attempt()
        await broker.stop()
        assert made.document().broker is None


@virtual
async def test_a_standby_that_meets_a_corrupt_body_stops_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The header is well, so it would take over; what follows was edited by hand."""
    async with world() as made:
        before = await made.lead()
        await before.submit(made.push())
        await before.stop()
        assert made.store.data is not None
        made.store.put(made.store.data.replace(b'"dead": []', b'"dead": [}'))
        standby = made.start(2)
        await asyncio.sleep(20)
        assert standby.readiness()["problem"]
        began = made.clock.monotonic()
        assert await standby.stop()
        assert made.clock.monotonic() == began
        assert "stepped down" not in caplog.text


@virtual
async def test_a_standby_whose_challenge_hangs_does_not_speak_of_stepping_down(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with world() as made:
        await made.lead(1)
        made.cut.add(URL)
        link = Link(made.store)
        standby = made.start(2, store=link, shutdown_grace_s=5.0)
        made.store.hold()
        await made.store.next_attempt()
        assert not await standby.stop()
        assert "SHUTDOWN_GRACE" in caplog.text
        assert "has not stepped down" not in caplog.text


@virtual
async def test_another_id_at_the_recorded_address_is_no_proof_of_death() -> None:
    async with world() as made:
        incumbent = await made.lead(1)

        async def other(url: str, introduction: bytes) -> ProbeResult:
            result = await made.probe(url)
            return ProbeResult(Reach.ANSWERED, "else", True, True) if url == URL else result

        standby = made.start(2)
        standby._standby._probe = other
        await asyncio.sleep(120)
        assert incumbent.leading
        assert not standby.leading
        await settle()


@virtual
async def test_who_asks_is_told_when_a_broker_begins_to_stand_by_and_to_lead() -> None:
    async with world() as made:
        first = await made.lead(1)
        told: list[tuple[str, str | None]] = []
        second = made.start(2)
        second.on_state.append(lambda: told.append((second.state, second.readiness()["leader"])))
        await asyncio.sleep(3 * TTL_S)
        assert told == [("standby", first.readiness()["leader"])], "once, and it knows for whom"
        await first.stop()
        await made.leads(second)
        assert told[-1] == ("leading", second.readiness()["leader"])
        assert len(told) == 2
