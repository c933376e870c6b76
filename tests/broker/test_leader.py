"""Group commit, waiting claims, heartbeats, expiry, pauses, stopping (scenarios 13–14, 18–22)."""

from __future__ import annotations

import asyncio
import logging

import msgspec
import pytest
from msgspec import Raw

from objq import errors
from objq.broker import batch as batch_module
from objq.broker import inbox
from objq.broker.broker import Broker
from objq.core import ops, rules
from objq.core.codec import seal
from objq.core.document import Document
from objq.core.leading import take_over
from objq.store import base
from tests.broker.fakestore import FakeStore, Link, Meets
from tests.broker.world import (
    T_S,
    TTL_S,
    URL,
    World,
    complete,
    push_and_claim,
    settle,
    until,
    world,
)
from tests.virtual import VirtualClock, virtual


async def hold_first(broker: Broker, made: World) -> asyncio.Future[ops.Answer]:
    """Push, and keep the write of it in flight."""
    made.store.hold()
    pushed = broker.submit(made.push())
    await made.store.next_attempt()
    return pushed


# --- group commit --------------------------------------------------------------------------------


def granted(answer: ops.Answer) -> tuple[ops.Grant, ...]:
    assert isinstance(answer, ops.Granted)
    return answer.jobs


@virtual
async def test_everything_that_arrives_during_a_write_is_in_the_next_one() -> None:
    async with world(FakeStore()) as made:
        broker = await made.lead()
        before = len(made.store.history)
        first = await hold_first(broker, made)
        pushes = []
        for _ in range(200):
            pushes.append(broker.submit(made.push()))
            await asyncio.sleep(0.001)
        made.store.release()
        answers = await asyncio.gather(first, *pushes)
        assert len(made.store.history) == before + 2
        assert made.store.max_in_flight == 1
        positions = [answer.position for answer in answers]
        assert positions == [(1, 2, 0), *((1, 3, index) for index in range(200))]


@virtual
async def test_an_ok_is_sent_only_after_the_commit() -> None:
    async with world(FakeStore()) as made:
        broker = await made.lead()
        pushed = await hold_first(broker, made)
        await asyncio.sleep(3)
        assert not pushed.done()
        made.store.release()
        await pushed


@virtual
async def test_followers_of_acknowledged_requests_are_gathered_and_a_lone_client_never_waits() -> (
    None
):
    async with world(FakeStore(latency_s=0.2)) as made:
        broker = await made.lead()

        async def client(pushes: int) -> None:
            for _ in range(pushes):
                await broker.submit(made.push())
                await asyncio.sleep(0.002)  # the way of an answer and of the next request

        began, before = made.clock.monotonic(), len(made.store.history)
        await asyncio.gather(*(client(10) for _ in range(20)))
        assert len(made.store.history) - before <= 11
        began = made.clock.monotonic()
        await client(10)
        assert made.clock.monotonic() - began < 10 * 0.203


@virtual
async def test_one_request_that_fails_unexpectedly_fails_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = rules.apply

    def apply(document: Document, op: ops.Change, *args: object, **kwargs: object) -> object:
        if isinstance(op, ops.Push) and op.jobs[0].task == "bad":
            document.jobs.clear()  # half done
            raise ZeroDivisionError
        return real(document, op, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(batch_module, "apply", apply)
    async with world(FakeStore()) as made:
        broker = await made.lead()
        first = await hold_first(broker, made)
        good = broker.submit(made.push())
        bad_op = made.push(ops.NewJob(id="bad", task="bad"))
        bad = broker.submit(bad_op)
        also = broker.submit(made.push())
        made.store.release()
        await asyncio.gather(first, good, also)
        with pytest.raises(errors.Unknown) as failed:
            await bad
        assert failed.value.ids == ("bad",)
        assert len(made.document().jobs) == 3
        assert broker.leading


@virtual
async def test_a_refused_request_harms_no_neighbour() -> None:
    async with world(FakeStore()) as made:
        broker = await made.lead()
        first = await hold_first(broker, made)
        refused = broker.submit(ops.Push(request="0-old:1", jobs=(made.job(),)))
        pushed = broker.submit(made.push())
        made.store.release()
        await asyncio.gather(first, pushed)
        with pytest.raises(errors.ExpiredId):
            await refused


@virtual
async def test_a_full_inbox_refuses_pushes_and_admits_outcomes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inbox, "MAX_REQUESTS", 5)
    async with world() as made:
        broker = await made.lead()
        grant = await push_and_claim(broker, made)
        first = await hold_first(broker, made)
        pushes = [broker.submit(made.push()) for _ in range(5)]
        with pytest.raises(errors.Overloaded) as refused:
            await broker.submit(made.push())
        assert refused.value.retry_after_s is not None
        completed = broker.submit(complete(grant.token))
        made.store.release()
        await asyncio.gather(first, completed, *pushes)


@virtual
async def test_the_bytes_of_waiting_requests_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox, "MAX_REQUEST_BYTES", 5_000)
    async with world() as made:
        broker = await made.lead()
        first = await hold_first(broker, made)
        big = made.job(args=Raw(b'["' + b"x" * 4_000 + b'"]'))
        pushed = broker.submit(made.push(big))
        with pytest.raises(errors.Overloaded):
            await broker.submit(made.push(made.job(args=Raw(b'["' + b"x" * 4_000 + b'"]'))))
        made.store.release()
        await asyncio.gather(first, pushed)


MANY = 1_000
ID = "x" * 36
ERROR = ops.JobError(type="E", message="m" * 5_000, traceback="t" * 20_000)


@pytest.mark.parametrize(
    ("op", "least_bytes"),
    [
        (ops.Cancel(request="1-a:1", ids=(ID,) * MANY, expected="ready"), 36 * MANY),
        (ops.Delete(request="1-a:1", ids=(ID,) * MANY, expected="dead"), 36 * MANY),
        (ops.Release(tokens=(ID,) * MANY), 36 * MANY),
        (ops.Get(ids=(ID,) * MANY), 36 * MANY),
        (ops.TakeClaim(claim=ID, queues=(ID,) * 100), 3_600),
        (ops.Fail(items=(ops.Failure(token=ID, error=ERROR),) * 4), 100_000),
        (complete(*(ID,) * MANY), 36 * MANY),
        (ops.Push(request="1-a:1", jobs=(ops.NewJob(id=ID, task="t"),) * MANY), 36 * MANY),
    ],
    ids=lambda value: ops.op_name(value) if isinstance(value, ops.Op) else "",
)
def test_the_size_of_a_request_counts_what_it_holds(op: ops.Op, least_bytes: int) -> None:
    assert least_bytes < inbox.size_of(op) < 20 * least_bytes


@virtual
async def test_the_bytes_of_an_operators_waiting_requests_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inbox, "MAX_REQUEST_BYTES", 500_000)
    async with world() as made:
        broker = await made.lead()
        first = await hold_first(broker, made)
        asked: list[asyncio.Future[ops.Answer]] = []
        while len(asked) < 100:
            number = len(asked)
            op = ops.Cancel(request=f"1-o:{number}", ids=(ID,) * MANY, expected="ready")
            asked.append(broker.submit(op))
        refused = [each for each in asked if each.done()]
        assert 90 <= len(refused) < 100
        made.store.release()
        answers = await asyncio.gather(first, *asked, return_exceptions=True)
        assert sum(isinstance(answer, errors.Overloaded) for answer in answers) == len(refused)


# --- nothing to do is no write -------------------------------------------------------------------


@virtual
async def test_nothing_to_do_means_no_write() -> None:
    async with world() as made:
        broker = await made.lead()
        standby = made.start(2)
        writes = len(made.store.attempts)
        for _ in range(100):
            await broker.submit(made.claim())
            await broker.submit(ops.Get(ids=("nothing",)))
            await broker.submit(ops.Stats())
            await asyncio.sleep(6)
        await broker.submit(made.claim(wait=5))
        assert len(made.store.attempts) == writes
        assert not standby.leading


@virtual
async def test_the_repeat_of_a_request_is_no_write() -> None:
    async with world() as made:
        broker = await made.lead()
        push = made.push()
        await broker.submit(push)
        writes = len(made.store.attempts)
        answer = await broker.submit(push)
        assert isinstance(answer, ops.Outcomes)
        assert answer.items[0].state == "ready"
        assert len(made.store.attempts) == writes


@virtual
async def test_heartbeats_ride_on_commits_and_force_few() -> None:
    async with world() as made:
        broker = await made.lead()
        await broker.submit(made.push(*(made.job() for _ in range(50))))
        grants = [await broker.submit(made.claim()) for _ in range(50)]
        tokens = [grant.jobs[0].token for grant in grants if isinstance(grant, ops.Granted)]
        writes = len(made.store.history)
        for _ in range(120):
            for token in tokens:
                beaten = await broker.submit(ops.Heartbeat(tokens=(token,)))
                assert beaten == ops.Beaten()
            await asyncio.sleep(1)
            behind_ms = [
                made.clock.wall_ms() - job.claim.heartbeat_at
                for job in made.document().claims.values()
                if job.claim
            ]
            assert max(behind_ms) <= T_S / 4 * 1000
        assert len(made.store.history) - writes <= 120 / (T_S / 8) + 1
        assert len(made.document().claims) == 50


# --- claims that wait ----------------------------------------------------------------------------


@virtual
async def test_a_push_is_granted_to_a_waiting_claim_in_the_same_commit() -> None:
    async with world() as made:
        broker = await made.lead()
        waiting = [broker.submit(made.claim(wait=7)) for _ in range(5)]
        await settle()
        writes = len(made.store.history)
        await broker.submit(made.push(made.job(), made.job()))
        await settle()
        assert [claim.done() for claim in waiting] == [True, True, False, False, False]
        assert len(made.store.history) == writes + 1
        assert len(made.document().claims) == 2


@virtual
async def test_a_claim_that_came_later_does_not_overtake_one_that_waits() -> None:
    async with world(FakeStore()) as made:
        broker = await made.lead()
        early = broker.submit(made.claim(wait=7))
        await asyncio.sleep(0.1)
        first = await hold_first(broker, made)  # granted to `early`
        made.store.release()
        await first
        assert isinstance(await early, ops.Granted)
        early = broker.submit(made.claim(wait=7))
        await asyncio.sleep(0.1)
        first = await hold_first(broker, made)
        late_push = broker.submit(made.push())
        late = broker.submit(made.claim())
        made.store.release()
        answers = await asyncio.gather(early, late, first, late_push)
        assert [len(a.jobs) for a in answers[:2] if isinstance(a, ops.Granted)] == [1, 1]


@virtual
async def test_a_claim_waits_at_most_a_quarter_of_the_timeout() -> None:
    async with world() as made:
        broker = await made.lead()
        began = made.clock.monotonic()
        answer = await broker.submit(made.claim(wait=3600))
        assert not granted(answer)
        assert answer.position is not None, "an idle worker draws its next claim's id from its seq"
        assert made.clock.monotonic() - began == pytest.approx(T_S / 4, abs=0.01)


@virtual
async def test_a_claim_ends_with_its_socket() -> None:
    async with world() as made:
        broker = await made.lead()
        waiting = broker.submit(made.claim(wait=7))
        await asyncio.sleep(0.1)
        waiting.cancel()
        await broker.submit(made.push())
        assert not made.document().claims


@virtual
async def test_a_claim_sent_again_takes_the_place_of_the_one_that_waits() -> None:
    async with world() as made:
        broker = await made.lead()
        claim = made.claim(wait=7)
        gone = broker.submit(claim)
        await asyncio.sleep(0.1)
        again = broker.submit(claim)
        await asyncio.sleep(0.1)
        assert not granted(await gone)
        await broker.submit(made.push())
        answer = await again
        assert isinstance(answer, ops.Granted)
        assert len(answer.jobs) == 1


@virtual
async def test_a_claim_whose_answer_was_lost_gets_the_same_jobs_and_nobody_else_does() -> None:
    async with world() as made:
        broker = await made.lead()
        await broker.submit(made.push())
        claim = made.claim()
        first = await broker.submit(claim)
        assert not granted(await broker.submit(made.claim()))
        again = await broker.submit(claim)
        assert isinstance(first, ops.Granted)
        assert isinstance(again, ops.Granted)
        assert [grant.token for grant in again.jobs] == [grant.token for grant in first.jobs]


@virtual
async def test_a_scheduled_job_wakes_the_claim_that_waits_for_it() -> None:
    async with world() as made:
        broker = await made.lead()
        due = made.clock.wall_ms() + 3_000
        await broker.submit(made.push(made.job(run_after=due)))
        answer = await broker.submit(made.claim(wait=7))
        assert isinstance(answer, ops.Granted)
        assert answer.jobs[0].claimed_at >= due
        assert answer.jobs[0].claimed_at <= due + 200


@virtual
async def test_a_direct_push_is_noticed_and_granted_to_a_waiting_claim() -> None:
    async with world() as made:
        broker = await made.lead()
        waiting = broker.submit(made.claim(wait=7))
        await asyncio.sleep(0.1)
        made.push_directly(made.job())
        began = made.clock.monotonic()
        answer = await waiting
        assert isinstance(answer, ops.Granted)
        assert len(answer.jobs) == 1
        assert made.clock.monotonic() - began <= TTL_S / 4 + 0.2


# --- reads and heartbeats ------------------------------------------------------------------------


@virtual
async def test_reads_see_only_what_is_durable() -> None:
    async with world(FakeStore()) as made:
        broker = await made.lead()
        job = made.job()
        made.store.hold()
        pushed = broker.submit(made.push(job))
        await made.store.next_attempt()
        read = broker.submit(ops.Get(ids=(job.id,)))
        await asyncio.sleep(1)
        assert not read.done()
        made.store.release()
        answer = await read
        assert isinstance(answer, ops.Jobs)
        assert answer.jobs[0] is not None
        await pushed


@virtual
async def test_a_heartbeat_is_answered_while_a_write_hangs() -> None:
    async with world(FakeStore()) as made:
        broker = await made.lead()
        grant = await push_and_claim(broker, made)
        pushed = await hold_first(broker, made)
        beat = broker.submit(ops.Heartbeat(tokens=(grant.token,)))
        assert beat.result() == ops.Beaten()
        made.store.release()
        await pushed


@virtual
async def test_a_claim_whose_end_is_not_durable_yet_is_not_told_lost() -> None:
    async with world(FakeStore()) as made:
        broker = await made.lead()
        grant = await push_and_claim(broker, made)
        made.store.hold()
        completed = broker.submit(complete(grant.token))
        await made.store.next_attempt()
        beat = broker.submit(ops.Heartbeat(tokens=(grant.token,)))
        await asyncio.sleep(1)
        assert not beat.done()
        made.store.release()
        await completed
        assert await beat == ops.Beaten(lost=(grant.token,))


@virtual
async def test_a_cancellation_reaches_the_holder_and_a_stale_token_is_told_lost() -> None:
    async with world() as made:
        broker = await made.lead()
        grant = await push_and_claim(broker, made)
        await broker.submit(ops.Cancel(request="1-x:1", ids=(grant.id,), expected="running"))
        beaten = await broker.submit(ops.Heartbeat(tokens=(grant.token, "stale")))
        assert beaten == ops.Beaten(lost=("stale",), cancel=(grant.token,))


# --- leases --------------------------------------------------------------------------------------


@virtual
async def test_a_silent_holder_loses_its_claim_and_the_job_goes_to_the_next() -> None:
    async with world() as made:
        broker = await made.lead()
        await asyncio.sleep(T_S)  # past the time that a take-over waits
        grant = await push_and_claim(broker, made)
        await broker.submit(ops.Heartbeat(tokens=(grant.token,), started=(grant.token,)))
        began = made.clock.monotonic()
        while not (again := await broker.submit(made.claim(wait=7))).jobs:  # type: ignore[attr-defined]
            pass
        assert isinstance(again, ops.Granted)
        assert again.jobs[0].id == grant.id
        assert again.jobs[0].attempt == 2
        assert T_S <= made.clock.monotonic() - began <= T_S + 1
        answer = await broker.submit(complete(grant.token))
        assert isinstance(answer, ops.Outcomes)
        assert answer.items[0].error is not None
        assert answer.items[0].error.code == "claim_lost"


@virtual
async def test_claims_that_expired_are_logged_once_that_is_durable_with_job_and_worker(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Somebody pushes directly, again and again, just before the write that holds the expiry."""
    async with world() as made:
        broker = await made.lead()
        await broker.submit(made.push(*(made.job() for _ in range(7))))
        claim = msgspec.structs.replace(made.claim(most=7), worker="host-1")
        first = granted(await broker.submit(claim))[0]
        foreign = [made.job("mail") for _ in range(3)]
        durable: list[bool] = []

        def before_write() -> None:
            if made.clock.monotonic() > 1_000 + T_S and foreign:
                made.push_directly(foreign.pop())

        made.store.before_write = before_write
        with caplog.at_level(logging.WARNING, logger="objq.broker"):
            while not caplog.records:
                await asyncio.sleep(0.05)
                durable.append(not made.document().claims)
            await asyncio.sleep(T_S)
        assert not foreign
        assert durable[-1], "told when it was so"
        (line,) = [record.getMessage() for record in caplog.records]
        assert f"job {first.id} of worker host-1" in line
        assert line.startswith("7 claims expired")
        assert line.endswith("and 2 more.")
        assert made.document().totals["default"].expired == 7


@virtual
async def test_any_frame_that_names_the_token_keeps_the_claim() -> None:
    async with world() as made:
        broker = await made.lead()
        grant = await push_and_claim(broker, made)
        for _ in range(40):
            await asyncio.sleep(T_S - 2)
            await broker.submit(ops.Heartbeat(tokens=(grant.token,)))
        assert list(made.document().claims) == [grant.token]


@virtual
async def test_a_heartbeat_heard_while_the_expiry_meets_a_conflict_wins() -> None:
    async with world() as made:
        broker = await made.lead()
        await asyncio.sleep(T_S)
        grant = await push_and_claim(broker, made)
        foreign = [made.job()]

        def meet() -> None:
            if foreign:
                broker.submit(ops.Heartbeat(tokens=(grant.token,)))
                made.push_directly(foreign.pop())

        made.store.before_write = meet
        await until(lambda: not foreign)
        await asyncio.sleep(1)
        assert list(made.document().claims) == [grant.token]


@virtual
async def test_after_an_outage_every_claim_has_a_full_timeout() -> None:
    async with world() as made:
        broker = await made.lead()
        await asyncio.sleep(T_S)
        grant = await push_and_claim(broker, made)
        made.store.down = base.Unavailable("no route")
        await asyncio.sleep(40)
        with pytest.raises(errors.Unavailable):
            await broker.submit(ops.Heartbeat(tokens=()))
        made.store.down = None
        await until(lambda: broker.readiness()["store_ok"])
        await asyncio.sleep(T_S - 6)
        assert list(made.document().claims) == [grant.token]
        assert await broker.submit(ops.Heartbeat(tokens=(grant.token,))) == ops.Beaten()


@virtual
async def test_a_heartbeat_counts_as_heard_while_the_store_is_away() -> None:
    async with world() as made:
        broker = await made.lead()
        grant = await push_and_claim(broker, made)
        made.store.down = base.Unavailable("no route")
        beat = broker.submit(ops.Heartbeat(tokens=(grant.token,)))
        for _ in range(12):
            await asyncio.sleep(5)
            beat = broker.submit(ops.Heartbeat(tokens=(grant.token,)))
            await settle()
        assert isinstance(beat.exception(), errors.Unavailable)
        made.store.down = None
        await asyncio.sleep(T_S - 6)
        assert list(made.document().claims) == [grant.token]


@virtual
async def test_a_broker_cut_from_the_store_answers_unavailable_from_half_the_timeout_on() -> None:
    async with world() as made:
        broker = await made.lead()
        grant = await push_and_claim(broker, made)
        made.store.down = base.Unavailable("no route")
        cut_at = broker._committer.confirmed_at
        pushed = broker.submit(made.push())
        with pytest.raises(errors.Unavailable):
            await pushed
        assert made.clock.monotonic() - cut_at == pytest.approx(T_S / 2, abs=2)
        with pytest.raises(errors.Unavailable):
            await broker.submit(ops.Heartbeat(tokens=(grant.token,)))
        with pytest.raises(errors.Unavailable):
            broker.welcome("work")


# --- pauses --------------------------------------------------------------------------------------


@virtual
async def test_a_paused_broker_that_nobody_replaced_gives_every_claim_a_full_timeout() -> None:
    async with world() as made:
        broker = await made.lead()
        resets: list[bool] = []
        broker.on_reset.append(lambda: resets.append(True))
        grant = await push_and_claim(broker, made)
        made.clock.jump_s += 300
        unread = broker.submit(ops.Heartbeat(tokens=("from before the pause",)))
        with pytest.raises(errors.Unavailable):
            await unread
        assert resets == [True]
        with pytest.raises(errors.Unavailable):
            broker.welcome("work")
        reads = made.store.reads
        await until(lambda: broker.leading and not refused(broker))
        assert made.store.reads > reads
        await asyncio.sleep(T_S - 3)
        assert list(made.document().claims) == [grant.token]
        assert await broker.submit(ops.Heartbeat(tokens=(grant.token,))) == ops.Beaten()
        assert broker.leading


def refused(broker: Broker) -> bool:
    try:
        broker.welcome("work")
    except errors.ObjqError:
        return True
    return False


@virtual
async def test_long_work_is_no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Very many jobs come due at once: taken for a pause, that would begin again and again."""
    async with world() as made:
        broker = await made.lead()
        resets = []
        broker.on_reset.append(lambda: resets.append(True))
        make_due_ready = Document.make_due_ready
        work_s = [9.0]

        def long(document: Document, now: int) -> None:
            made.clock.jump_s += work_s.pop() if work_s else 0.0
            make_due_ready(document, now)

        monkeypatch.setattr(Document, "make_due_ready", long)
        await broker.submit(made.push())
        await asyncio.sleep(TTL_S)
        assert not work_s
        assert not resets
        assert broker.leading

        made.clock.jump_s += 9.0  # and a pause is one
        await asyncio.sleep(TTL_S)
        assert resets


@virtual
async def test_a_broker_stopped_with_a_batch_waiting_is_deposed_and_stays_deposed() -> None:
    async with world() as made:
        link = Link(made.store)
        clock = VirtualClock()
        broker = await made.lead(1, store=link, clock=clock, heartbeat_timeout_s=120.0)
        mine = broker.id
        link.open.clear()
        pushed = broker.submit(made.push())
        await settle()
        made.cut.add(URL)
        standby = await made.lead(2)
        link.open.set()
        made.cut.discard(URL)
        with pytest.raises(errors.Unknown):
            await pushed
        assert broker.id != mine
        document = made.document()
        assert document.epoch == 2
        assert not document.jobs
        await asyncio.sleep(600)
        assert standby.leading
        assert made.document().epoch == 2


# --- stopping ------------------------------------------------------------------------------------


@virtual
async def test_stopping_flushes_and_clears_the_broker_so_that_a_standby_leads_at_once() -> None:
    async with world(FakeStore(latency_s=0.2)) as made:
        broker = await made.lead(1)
        standby = made.start(2)
        await asyncio.sleep(2)
        waiting = broker.submit(made.claim(wait=7, queue="other"))
        pushes = [broker.submit(made.push()) for _ in range(10)]
        began = made.clock.monotonic()
        stopping = asyncio.create_task(broker.stop())
        await settle()
        with pytest.raises(errors.NotBroker):
            await broker.submit(made.push())
        await stopping
        assert all(pushed.result().position for pushed in pushes)
        assert not granted(await waiting)
        assert broker.state == "stopped"
        await broker.stop()  # may be called twice
        await made.leads(standby)
        assert made.clock.monotonic() - began < 3
        assert len(made.document().jobs) == 10


@virtual
async def test_a_late_step_down_cannot_clear_a_successor() -> None:
    async with world() as made:
        broker = await made.lead(1)
        standby = made.start(2)
        await asyncio.sleep(2)
        process = made.brokers.pop(URL)  # its port refuses, though it lives
        await made.leads(standby)
        assert process is broker
        writes = len(made.store.history)
        await broker.stop()
        assert made.document().broker is not None
        assert made.document().broker.id == standby.id  # type: ignore[union-attr]
        assert len(made.store.history) == writes


@virtual
async def test_stopping_gives_up_at_the_end_of_its_grace() -> None:
    async with world() as made:
        broker = await made.lead(shutdown_grace_s=5.0)
        made.store.down = base.Unavailable("no route")
        pushed = broker.submit(made.push())
        began = made.clock.monotonic()
        assert not await broker.stop()
        assert made.clock.monotonic() - began == pytest.approx(5.0, abs=0.1)
        with pytest.raises(errors.Unknown):
            await pushed
        assert not await broker.stop()


@virtual
@pytest.mark.parametrize("moment_s", [0.1, 0.4, 0.7, 1.0])
async def test_what_was_being_written_when_another_took_over_is_unknown(moment_s: float) -> None:
    """Also where the store's pace keeps the deposed one from trying again for a while (S4)."""
    async with world(FakeStore(latency_s=0.1, pace_s=1.0)) as made:
        broker = await made.lead()
        await asyncio.sleep(3 + moment_s)
        made.store.plan = [Meets.LOST_REPLY]
        push = made.push()
        pushed = broker.submit(push)
        await made.store.next_write()
        other = made.document()
        info = ops.BrokerInfo(id="other", url="ws://10.0.0.2:1/", since=1, version="0")
        take_over(other, info, other.settings)
        made.store.put(seal(other, made.ids.token(), made.clock.wall_ms(), leading=True))
        with pytest.raises(errors.Unknown):
            await pushed
        assert push.jobs[0].id in made.document().jobs


@virtual
async def test_a_broker_that_the_store_does_not_let_step_down_does_not_say_that_it_has() -> None:
    async with world() as made:
        broker = await made.lead()
        made.store.limit_bytes, made.store.too_large = 0, base.TooLarge("413")
        assert not await broker.stop()
        assert made.document().broker is not None


@virtual
async def test_a_standby_that_waits_for_a_hanging_store_stops_at_once() -> None:
    async with world() as made:
        link = Link(made.store)
        await made.lead(1)
        standby = made.start(2, store=link)
        await asyncio.sleep(1)
        link.open.clear()
        await asyncio.sleep(TTL_S)
        began = made.clock.monotonic()
        assert await standby.stop()
        assert made.clock.monotonic() == began


@virtual
async def test_a_standby_that_sees_its_leader_stop_leads_a_fraction_of_a_second_later() -> None:
    async with world(FakeStore(latency_s=0.1)) as made:
        broker = await made.lead(1)
        standby = made.start(2)
        for _ in range(10):
            await asyncio.sleep(TTL_S / 3)  # at any point of the standby's rounds
            stopping = asyncio.create_task(broker.stop())
            await until(lambda old=broker: made.document().broker is None)
            cleared = made.clock.monotonic()
            await made.leads(standby)
            # At most the rest of a round, and the write of the take-over.
            assert made.clock.monotonic() - cleared < 0.5
            await stopping
            await made.kill(broker)
            broker, standby = standby, made.start(2 + made.started)


@virtual
async def test_a_side_task_that_dies_stops_the_broker_loudly(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with world() as made:
        broker = await made.lead()
        pushed = broker.submit(made.push())

        def die() -> bool:
            raise ZeroDivisionError

        broker._notice_pause = die  # type: ignore[method-assign]
        with caplog.at_level(logging.CRITICAL), pytest.raises(ZeroDivisionError):
            await made.tasks[broker]
        assert any("died" in record.message for record in caplog.records)
        assert pushed.done()
        assert broker.state == "stopped"
        del made.tasks[broker]


@virtual
async def test_an_outcome_is_told_again_while_a_durable_version_holds_its_record() -> None:
    """The record's time runs out between two commits, and with it only memory would change."""
    async with world() as made:
        broker = await made.lead(result_ttl_s=6.0)
        grant = await push_and_claim(broker, made)
        first = await broker.submit(complete(grant.token))
        await asyncio.sleep(7)
        assert grant.id in made.document().finished
        repeated = await broker.submit(complete(grant.token))
        assert repeated == msgspec.structs.replace(first, position=repeated.position)

        await broker.submit(made.push())
        assert grant.id not in made.document().finished
        lost = await broker.submit(complete(grant.token))
        assert isinstance(lost, ops.Outcomes)
        assert [item.error and item.error.code for item in lost.items] == ["claim_lost"]
