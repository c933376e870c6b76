"""`list`, `workers` and `history` as the leader answers them, and that they hold nobody up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec import Raw

from objq import errors
from objq.broker import lookups, roster
from objq.broker.broker import Broker
from objq.broker.history import EVERY_S, POINTS
from objq.broker.measures import MAX_SAMPLES, Histogram, Samples
from objq.core import ops
from tests.broker.fakestore import FakeStore
from tests.broker.world import T_S, World, complete, push_and_claim, settle, until, world
from tests.virtual import virtual


async def ask(broker: Broker, op: ops.Asked) -> Any:
    return await broker.submit(op)


def worker(name: str, **fields: Any) -> ops.Hello:
    return ops.Hello(client=f"client-{name}", version="1", worker=name, **fields)


async def claim_as(broker: Broker, made: World, name: str, most: int = 1) -> ops.Granted:
    op = ops.TakeClaim(claim=made.ids.token(), max=most, worker=name)
    answer = await broker.submit(op)
    assert isinstance(answer, ops.Granted)
    return answer


# --- only what is confirmed, and never for long ---------------------------------------------------


@virtual
async def test_a_list_shows_what_is_confirmed_and_its_version() -> None:
    async with world() as made:
        broker = await made.lead()
        await broker.submit(made.push())
        made.store.hold()
        pushed = broker.submit(made.push())
        await made.store.next_attempt()
        listed = broker.submit(ops.ListJobs())
        await settle()
        assert not listed.done()  # the second job may not be there
        made.store.release()
        await pushed
        answer = await listed
        assert isinstance(answer, ops.Listed)
        assert (len(answer.jobs), answer.total, answer.position) == (2, 2, (1, 3, 0))


@virtual
async def test_overviews_are_answered_a_few_per_turn() -> None:
    async with world() as made:
        broker = await made.lead()
        asked = [broker.submit(ops.ListJobs()) for _ in range(3 * lookups.OVERVIEWS_PER_TURN)]
        assert not any(future.done() for future in asked)
        done = []
        while not all(future.done() for future in asked):
            await asyncio.sleep(0)
            done.append(sum(future.done() for future in asked))
        steps = [after - before for before, after in zip([0, *done], done, strict=False)]
        assert max(steps) == lookups.OVERVIEWS_PER_TURN


@virtual
async def test_too_many_overviews_are_refused_and_work_goes_on() -> None:
    async with world() as made:
        broker = await made.lead()
        made.store.hold()
        pushed = broker.submit(made.push())
        await made.store.next_attempt()
        kinds = (ops.ListJobs(), ops.Stats(), ops.Workers(), ops.History(), ops.Watch())
        asked = [broker.submit(kinds[n % 5]) for n in range(lookups.MAX_OVERVIEWS)]
        for op in kinds:
            with pytest.raises(errors.Overloaded) as refused:
                await broker.submit(op)
            assert refused.value.retry_after_s == lookups.RETRY_AFTER_S
        beaten = await broker.submit(ops.Heartbeat(tokens=()))
        assert beaten == ops.Beaten()
        got = broker.submit(ops.Get(ids=("x",)))
        made.store.release()
        await asyncio.gather(pushed, got, *asked)


@virtual
async def test_gets_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "MAX_WAITING", 3)
    async with world() as made:
        broker = await made.lead()
        made.store.hold()
        pushed = broker.submit(made.push())
        await made.store.next_attempt()
        asked = [broker.submit(ops.Get(ids=("x",))) for _ in range(3)]
        with pytest.raises(errors.Overloaded):
            await broker.submit(ops.Get(ids=("x",)))
        lost = broker.submit(ops.Heartbeat(tokens=("gone",)))
        made.store.release()
        await asyncio.gather(pushed, *asked)
        assert await lost == ops.Beaten(lost=("gone",))


@virtual
async def test_the_bytes_of_gets_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "MAX_WAITING_BYTES", 50_000)
    async with world() as made:
        broker = await made.lead()
        for _ in range(2):  # what was answered counts no more
            made.store.hold()
            pushed = broker.submit(made.push())
            await made.store.next_attempt()
            asked = broker.submit(ops.Get(ids=("x" * 36,) * 1_000))
            with pytest.raises(errors.Overloaded):
                await broker.submit(ops.Get(ids=("x",)))
            made.store.release()
            await asyncio.gather(pushed, asked)


@virtual
async def test_a_get_of_more_than_a_socket_takes_is_refused_and_one_job_never(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lookups, "MAX_JOBS_BYTES", 1_000)
    async with world() as made:
        broker = await made.lead()
        jobs = [made.job(args=Raw(b'["%s"]' % (b"x" * 2_000))) for _ in range(2)]
        await broker.submit(made.push(*jobs))
        with pytest.raises(errors.TooLarge, match="fewer"):
            await broker.submit(ops.Get(ids=tuple(job.id for job in jobs)))
        one = await ask(broker, ops.Get(ids=(jobs[0].id,)))
        assert one.jobs[0].id == jobs[0].id


@virtual
async def test_a_cursor_that_is_none_is_refused_by_the_broker() -> None:
    async with world() as made:
        broker = await made.lead()
        with pytest.raises(errors.Invalid, match="cursor"):
            await broker.submit(ops.ListJobs(page=ops.Page(cursor="x")))


@virtual
async def test_a_standby_answers_none_of_them() -> None:
    async with world() as made:
        await made.lead()
        standby = made.start(2)
        await settle()
        for op in (ops.ListJobs(), ops.Workers(), ops.History(), ops.Watch()):
            with pytest.raises(errors.NotBroker):
                await standby.submit(op)


# --- workers -------------------------------------------------------------------------------------


@virtual
async def test_workers_are_those_connected_and_those_that_hold_claims() -> None:
    async with world() as made:
        broker = await made.lead()
        seat = broker.roster.join(worker("a", queues=("default", "mail"), slots=4, host="h1"))
        broker.roster.join(worker("idle", slots=2))
        await broker.submit(made.push(made.job(), made.job()))
        granted = await claim_as(broker, made, "a")
        (lone,) = (await claim_as(broker, made, "elsewhere")).jobs
        await asyncio.sleep(3)
        token = granted.jobs[0].token
        await broker.submit(ops.Heartbeat(tokens=(token,), started=(token,)))
        seat.hear()
        await asyncio.sleep(1)
        answer = await ask(broker, ops.Workers())
        a, elsewhere, idle = answer.workers
        assert answer.total == 3
        assert (a.name, a.connected, a.client, a.host) == ("a", True, "client-a", "h1")
        assert (a.queues, a.slots, a.holds, a.version) == (("default", "mail"), 4, 1, "1")
        assert a.heard_ago_s == pytest.approx(1, abs=0.2)
        assert [job.id for job in a.running] == [granted.jobs[0].id]
        assert (elsewhere.connected, elsewhere.holds, elsewhere.client) == (False, 1, "")
        assert elsewhere.running[0].id == lone.id
        assert elsewhere.heard_ago_s == pytest.approx(4, abs=0.5)
        assert (idle.connected, idle.holds, idle.running) == (True, 0, ())
        broker.roster.leave(seat)
        answer = await ask(broker, ops.Workers())
        assert [(each.name, each.connected) for each in answer.workers] == [
            ("a", False),
            ("elsewhere", False),
            ("idle", True),
        ]


@virtual
async def test_workers_are_bounded_and_say_how_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(roster, "MAX_WORKERS", 3)
    monkeypatch.setattr(roster, "MAX_RUNNING", 2)
    monkeypatch.setattr(roster, "MAX_RUNNING_OF_ALL", 3)
    async with world() as made:
        broker = await made.lead()
        await broker.submit(made.push(*(made.job() for _ in range(20))))
        for name in "abcde":
            await claim_as(broker, made, name, 3)
        answer = await ask(broker, ops.Workers())
        assert answer.total == 5
        assert [(each.name, each.holds, len(each.running)) for each in answer.workers] == [
            ("a", 3, 2),
            ("b", 3, 1),
            ("c", 3, 0),
        ]


@virtual
async def test_a_worker_that_connects_again_is_one_worker() -> None:
    async with world() as made:
        broker = await made.lead()
        old = broker.roster.join(worker("a", slots=1))
        broker.roster.join(worker("a", slots=2))
        broker.roster.leave(old)
        broker.roster.leave(old)
        (only,) = (await ask(broker, ops.Workers())).workers
        assert (only.slots, only.connected) == (2, True)


# --- history and measures ------------------------------------------------------------------------


@virtual
async def test_history_tells_rates_depths_and_times() -> None:
    async with world(FakeStore(latency_s=0.2)) as made:
        broker = await made.lead()
        await until(lambda: broker.gauges() is not None)
        await asyncio.sleep(EVERY_S)
        for _ in range(3):
            grant = await push_and_claim(broker, made)
            await broker.submit(complete(grant.token))
        await broker.submit(made.push(made.job(), made.job()))
        await asyncio.sleep(3 * EVERY_S)
        answer = await ask(broker, ops.History())
        points = answer.points
        assert answer.every_s == EVERY_S
        assert sum(point.pushed for point in points) == 5
        assert sum(point.finished for point in points) == 3
        assert points[-1].ready == 2 and points[-1].pushed == 0
        busy = next(point for point in points if point.finished)
        assert busy.commit_p50_s == pytest.approx(0.2, abs=0.01)
        assert busy.wait_p50_s is not None and busy.batch >= 1
        assert busy.size_bytes > 0
        quiet = points[-1]
        assert (quiet.commits, quiet.commit_p50_s, quiet.wait_p99_s) == (0, None, None)
        assert all(EVERY_S <= point.seconds <= 2 * EVERY_S for point in points)


@virtual
async def test_history_is_bounded_and_writes_nothing() -> None:
    async with world() as made:
        broker = await made.lead()
        await asyncio.sleep(2.0 * EVERY_S * POINTS)
        answer = await ask(broker, ops.History())
        assert len(answer.points) == POINTS
        assert len(made.store.history) == 1


@virtual
async def test_waits_runs_batches_and_expiries_are_measured() -> None:
    async with world() as made:
        broker = await made.lead()
        await broker.submit(made.push(made.job(run_after=made.clock.wall_ms() + 5_000)))
        await asyncio.sleep(6)
        (first,) = (await ask(broker, made.claim())).jobs
        await broker.submit(ops.Heartbeat(tokens=(first.token,), started=(first.token,)))
        await broker.submit(complete(first.token))
        second = await push_and_claim(broker, made)
        await broker.submit(ops.Release(tokens=(second.token,)))
        await broker.submit(made.claim())  # not its first grant, so its wait is not known
        await asyncio.sleep(2 * T_S)
        measures = broker.measures
        assert sum(measures.wait_s.counts) == 2
        assert measures.wait_s.total < 2  # the time before `run_after` is no waiting
        assert sum(measures.run_s.counts) == 1
        assert measures.expired == 1
        assert measures.take_overs == 1
        assert measures.batched == sum(measures.batch_requests.counts)  # one at a time here
        assert sum(measures.commit_s.counts) == broker.stats.commits


@virtual
async def test_records_that_retention_drops_are_counted() -> None:
    async with world() as made:
        broker = await made.lead(max_finished=1)
        for _ in range(3):
            grant = await push_and_claim(broker, made)
            await broker.submit(complete(grant.token))
        assert broker.measures.dropped == {"finished": 2}


def test_samples_stay_few_and_spread_over_the_whole_time() -> None:
    samples = Samples()
    for value in range(100_000):
        samples.add(value)
    median, most = samples.take()
    assert median == pytest.approx(50_000, rel=0.02)
    assert most == pytest.approx(99_000, rel=0.02)
    assert samples.take() == (None, None)
    for value in range(10 * MAX_SAMPLES):
        samples.add(value)
        assert len(samples._values) < MAX_SAMPLES


def test_a_histogram_counts_every_value_once() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 3.0):
        histogram.observe(value)
    assert histogram.counts == [2, 2, 1]
    assert histogram.total == 8.0
