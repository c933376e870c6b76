"""`MODE = "direct"` without any broker: what each operation does, and what it costs."""

from __future__ import annotations

import asyncio
import re

import pytest
from msgspec import Raw, structs

from objq.client.patience import POLL_LONGEST_S
from objq.client.versions import FOLLOWS_S
from objq.core import ops
from objq.errors import (
    DocumentError,
    ForeignDocument,
    Invalid,
    NoDocument,
    QueueFull,
    Unavailable,
    Unknown,
    Unsupported,
)
from objq.store.base import TooLarge
from objq.store.base import Unavailable as StoreUnavailable
from tests.broker.fakestore import FakeStore, Link, Meets
from tests.broker.world import T_S, until
from tests.direct.world import DirectWorld, direct_world
from tests.virtual import VirtualClock, virtual


def now() -> float:
    return asyncio.get_running_loop().time()


def done(*grants: ops.Grant) -> list[ops.Completion]:
    return [ops.Completion(token=grant.token, result=Raw(b"1")) for grant in grants]


def failure(grant: ops.Grant) -> ops.Failure:
    return ops.Failure(token=grant.token, error=ops.JobError(type="ValueError"), retry_after=0)


# --- operations ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("run_after", 1764430000123.5, "run_after"),
        ("run_after", -1, "run_after"),
        ("queue", "a\nb", "queue"),
        ("max_attempts", 0, "max_attempts"),
        ("priority", "high", "priority"),
        ("id", "x" * 1000, "id"),
        ("task", "\ud800", "JSON"),
        ("args", Raw(b"[1"), "JSON"),
    ],
)
def test_what_a_broker_would_not_take_from_a_frame_is_refused_and_harms_nobody(
    field: str, value: object, said: str
) -> None:
    @virtual
    async def check() -> None:
        async with direct_world() as world:
            client = world.client()
            good = world.job()
            bad = structs.replace(world.job(), **{field: value})
            with pytest.raises(Invalid, match=said):
                await client.push([bad])
            if field not in ("task", "args"):  # of which the whole request is no JSON
                items = (await client.push([bad, good])).items
                assert items[0].error is not None
                assert items[0].error.code == "invalid"
                assert items[1].state == "ready"
            else:
                await client.push([good])
            assert list(world.document().jobs) == [good.id]
            await world.client().push([world.job()])  # also for a process that reads it anew

    check()


@virtual
async def test_a_request_that_is_none_is_refused() -> None:
    async with direct_world() as world:
        client = world.client()
        for asked in (client.push([]), client.pause(5), client.claim(queues=[])):  # type: ignore[arg-type]
            with pytest.raises(Invalid):
                await asked
        job = structs.replace(world.job(), args=["text", 1])
        await client.push([job])
        (grant,) = (await client.claim()).jobs
        assert bytes(grant.args) == b'["text",1]'


@virtual
async def test_a_job_goes_all_its_way_without_a_broker() -> None:
    async with direct_world() as world:
        client = world.client()
        job = world.job()
        pushed = await client.push([job])
        assert pushed.items[0].state == "ready"
        assert pushed.position == (0, 2, 0)
        (grant,) = (await client.claim(worker="w")).jobs
        assert grant.id == job.id
        claim = world.document().claims[grant.token].claim
        assert claim is not None
        assert claim.epoch is None
        assert await client.heartbeat([grant.token], [grant.token]) == ops.Beaten()
        ended = await client.complete(done(grant))
        assert ended.items[0].state == "succeeded"
        (view,) = (await client.get([job.id])).jobs
        assert view is not None
        assert view.state == "succeeded"
        assert (await client.stats()).queues["default"].totals["succeeded"] == 1


@virtual
async def test_a_claim_that_fails_and_one_that_is_handed_back() -> None:
    async with direct_world() as world:
        client = world.client()
        await client.push([world.job()])
        (grant,) = (await client.claim()).jobs
        assert (await client.fail([failure(grant)])).items[0].state == "ready"
        (grant,) = (await client.claim()).jobs
        assert grant.attempt == 2
        assert (await client.release([grant.token])).items[0].state == "ready"
        (grant,) = (await client.claim()).jobs
        assert grant.attempt == 2, "a release burns no attempt"
        lost = await client.heartbeat(["nobody's"])
        assert lost.lost == ("nobody's",)


@virtual
async def test_what_an_operator_does() -> None:
    async with direct_world() as world:
        client = world.client()
        later = world.job(run_after=world.clock.wall_ms() + 3_600_000)
        one, two = world.job(), world.job()
        await client.push([later, one, two])
        assert (await client.run_now([later.id])).items[0].state == "ready"
        assert (await client.cancel([one.id], "ready")).items[0].state == "cancelled"
        assert (await client.retry([one.id], "cancelled")).items[0].state == "ready"
        assert (await client.delete([two.id], "ready")).items[0].error is None
        await client.pause("default")
        assert (await client.claim()).jobs == ()
        await client.resume("default")
        assert [grant.id for grant in (await client.claim(max_jobs=9)).jobs] == [later.id, one.id]


@virtual
async def test_what_there_is_to_see() -> None:
    async with direct_world() as world:
        client = world.client()
        await client.push([world.job(), world.job()])
        (grant,) = (await client.claim(worker="w")).jobs
        await asyncio.sleep(5)
        listed = await client.call(ops.ListJobs())
        assert isinstance(listed, ops.Listed)
        assert [row.state for row in listed.jobs] == ["running", "ready"]
        workers = await client.call(ops.Workers())
        assert isinstance(workers, ops.AllWorkers)
        assert [(w.name, w.holds, w.connected) for w in workers.workers] == [("w", 1, False)]
        (running,) = (await client.stats()).running
        assert running.id == grant.id
        with pytest.raises(Unsupported, match="none leads"):
            await client.call(ops.History())


@virtual
async def test_what_is_asked_together_is_one_write_and_during_a_write_the_next() -> None:
    async with direct_world(FakeStore(latency_s=0.2)) as world:
        client = world.client()
        await client.claim()  # creates the document
        before = len(world.store.history)
        first = [asyncio.create_task(client.push([world.job()])) for _ in range(50)]
        await world.store.next_attempt()
        later = [asyncio.create_task(client.push([world.job()])) for _ in range(50)]
        await asyncio.gather(*first, *later)
        assert len(world.store.history) - before == 2
        assert world.store.max_in_flight == 1


@virtual
async def test_a_script_pays_one_read_and_one_write_for_a_push() -> None:
    async with direct_world() as world:
        await world.client().claim()
        reads, writes = world.store.reads, len(world.store.attempts)
        await world.client().push([world.job()])
        assert len(world.store.attempts) - writes == 1
        assert world.store.reads - reads <= 2


@virtual
async def test_writes_that_follow_each_other_are_not_preceded_by_reads() -> None:
    async with direct_world() as world:
        client = world.client()
        await client.push([world.job()])
        reads = world.store.reads

        async def one_after_the_other() -> None:
            for _ in range(10):
                await client.push([world.job()])

        await asyncio.gather(one_after_the_other(), one_after_the_other())
        assert world.store.reads - reads <= 4


@virtual
async def test_processes_side_by_side_lose_nothing_and_double_nothing() -> None:
    async with direct_world(FakeStore(latency_s=0.05)) as world:
        clients = [world.client(enqueue_timeout_s=60.0) for _ in range(4)]
        await asyncio.gather(
            *(clients[n % 4].push([world.job()]) for n in range(100)),
        )
        granted: list[str] = []

        async def work(number: int) -> None:
            while len(granted) < 100:
                answer = await clients[number].claim(max_jobs=7, wait_s=1.0, timeout_s=60)
                granted.extend(grant.id for grant in answer.jobs)
                if answer.jobs:
                    await clients[number].complete(done(*answer.jobs))

        await asyncio.gather(*map(work, range(4)))
        document = world.document()
        assert sorted(granted) == sorted(document.finished)
        assert len(set(granted)) == 100
        assert document.totals["default"].claimed == 100


# --- what can go wrong ---------------------------------------------------------------------------


@virtual
async def test_a_lost_reply_is_recognised_for_every_kind_of_request() -> None:
    async with direct_world() as world:
        client = world.client()
        await client.claim()
        world.store.plan = [Meets.LOST_REPLY]
        await client.push([world.job()])
        world.store.plan = [Meets.LOST_REPLY]
        (grant,) = (await client.claim()).jobs
        world.store.plan = [Meets.LOST_REPLY]
        assert (await client.complete(done(grant))).items[0].state == "succeeded"
        totals = world.document().totals["default"]
        assert (totals.pushed, totals.claimed, totals.succeeded) == (1, 1, 1)


@virtual
async def test_a_repeated_claim_gets_the_same_jobs_and_never_more() -> None:
    async with direct_world() as world:
        client = world.client()
        await client.push([world.job(), world.job()])
        first = await client.claim(claim="c")
        again = await client.claim(claim="c")
        assert [g.token for g in again.jobs] == [g.token for g in first.jobs]
        assert world.document().totals["default"].claimed == 1


@virtual
async def test_a_store_out_of_reach_means_not_sent() -> None:
    async with direct_world() as world:
        client = world.client()
        await client.claim()
        await asyncio.sleep(1)
        world.store.down = StoreUnavailable("no route")
        with pytest.raises(Unavailable, match="no route"):
            await client.push([world.job()])


@virtual
async def test_a_write_whose_fate_is_not_known_says_so_and_may_be_repeated() -> None:
    async with direct_world() as world:
        client = world.client()
        await client.claim()
        world.store.hold()
        job = world.job()
        with pytest.raises(Unknown) as caught:
            await client.push([job])
        world.store.release()
        request = caught.value.request
        assert request is not None
        await client.push([job], request=request, repeat=True)
        assert list(world.document().jobs) == [job.id]
        assert world.document().totals["default"].pushed == 1


@virtual
async def test_a_document_too_large_for_the_store_refuses_pushes_and_takes_outcomes() -> None:
    async with direct_world() as world:
        client = world.client()
        await client.push([world.job(), world.job()])
        (grant,) = (await client.claim()).jobs
        assert world.store.data is not None
        world.store.limit_bytes = len(world.store.data) + 500
        world.store.too_large = TooLarge("5 GiB")
        large = world.job(args=Raw(b'["%b"]' % (b"x" * 5000)))
        pushed, ended = await asyncio.gather(
            client.push([large]), client.release([grant.token]), return_exceptions=True
        )
        assert isinstance(pushed, QueueFull)
        assert isinstance(ended, ops.Outcomes)
        assert ended.items[0].state == "ready"


@virtual
async def test_a_push_that_may_be_in_is_not_refused_for_the_size_of_its_repeat() -> None:
    async with direct_world() as world:
        client = world.client()
        await client.push([world.job()])
        job = world.job()
        world.store.plan = [Meets.LOST_REPLY, TooLarge("413")]
        pushed = await client.push([job])  # the next try finds it
        assert pushed.items[0].state == "ready"
        assert job.id in world.document().jobs


@virtual
async def test_what_the_store_refuses_for_its_size_is_not_written_again_and_again() -> None:
    async with direct_world() as world:
        client = world.client()
        await client.push([world.job()])
        (grant,) = (await client.claim()).jobs
        before = len(world.store.attempts)
        world.store.plan = [TooLarge("413")] * 10_000
        with pytest.raises(Unknown, match="413"):
            await client.complete(done(grant), timeout_s=10)
        assert len(world.store.attempts) - before < 20


# --- the document --------------------------------------------------------------------------------


@virtual
async def test_a_document_is_created_with_the_options_of_its_creator() -> None:
    async with direct_world() as world:
        await world.client(max_jobs=7).push([world.job()])
        assert world.document().settings.max_jobs == 7
        assert world.document().broker is None


@virtual
async def test_whoever_only_looks_creates_nothing() -> None:
    async with direct_world() as world:
        client = world.client()
        for look in (ops.Stats(), ops.Get(ids=("job",)), ops.Workers()):
            with pytest.raises(NoDocument, match="the first push"):
                await client.call(look)
        assert world.store.attempts == []
        looking = asyncio.gather(*(client.stats() for _ in range(5)), return_exceptions=True)
        await client.push([world.job()])
        await looking
        assert len(world.document().jobs) == 1
        assert (await client.stats()).queues["default"].ready == 1


@virtual
async def test_everybody_follows_the_settings_of_the_document() -> None:
    async with direct_world() as world:
        await world.client(max_jobs=1, heartbeat_timeout_s=60.0).claim()
        session = world.session(max_jobs=99)
        answer = await session.call(world.push(world.job(), world.job()))
        assert isinstance(answer, ops.Outcomes)
        assert [item.error and item.error.code for item in answer.items] == [None, "queue_full"]
        assert session.settings.heartbeat_timeout_s == 60


@virtual
async def test_two_processes_that_create_at_once_lose_nothing() -> None:
    async with direct_world() as world:
        await asyncio.gather(*(world.client().push([world.job()]) for _ in range(5)))
        assert len(world.document().jobs) == 5


@virtual
async def test_a_document_that_vanished_is_never_created_anew() -> None:
    async with direct_world() as world:
        seen: set[str] = set()
        client = world.client(seen=seen)
        await client.push([world.job()])
        saved = world.store.data
        assert saved is not None
        world.store.delete()
        await asyncio.sleep(1)
        with pytest.raises(ForeignDocument, match="vanished"):
            await world.client(seen=seen).push([world.job()])
        with pytest.raises(DocumentError, match="vanished"):
            await client.push([world.job()])
        assert world.store.data is None
        world.store.put(saved)
        await client.push([world.job()])
        assert len(world.document().jobs) == 2


# --- claims that wait ----------------------------------------------------------------------------


@virtual
async def test_claims_that_find_nothing_write_nothing_and_read_seldom() -> None:
    async with direct_world() as world:
        client = world.client()
        await client.claim()
        writes, reads = len(world.store.attempts), world.store.reads
        for _ in range(80):
            began = now()
            assert (await client.claim(wait_s=T_S, timeout_s=60)).jobs == ()
            assert now() - began <= T_S / 4 + POLL_LONGEST_S
        assert len(world.store.attempts) == writes
        assert world.store.reads - reads <= 80 * (T_S / 4 / (POLL_LONGEST_S / 2) + 4)


@virtual
async def test_a_push_of_the_same_process_is_granted_in_the_same_write() -> None:
    async with direct_world() as world:
        client = world.client()
        waiting = asyncio.create_task(client.claim(wait_s=5.0))
        await asyncio.sleep(1.3)
        writes = len(world.store.history)
        pushed = await client.push([world.job()])
        granted = await waiting
        assert len(world.store.history) - writes == 1
        assert pushed.position is not None
        assert granted.position is not None
        assert pushed.position[:2] == granted.position[:2]


@virtual
async def test_a_push_of_another_process_is_met_at_the_next_poll() -> None:
    async with direct_world() as world:
        waiting = asyncio.create_task(world.client().claim(wait_s=7.0))
        await asyncio.sleep(3)
        pushed_at = now()
        await world.client().push([world.job()])
        assert len((await waiting).jobs) == 1
        assert now() - pushed_at <= POLL_LONGEST_S + 0.5


@virtual
async def test_a_scheduled_job_is_met_when_it_is_due_and_not_before() -> None:
    async with direct_world() as world:
        client = world.client()
        due = world.clock.wall_ms() + 3_000
        await client.push([world.job(run_after=due)])
        assert len((await client.claim(wait_s=7.0)).jobs) == 1
        assert 0 <= world.clock.wall_ms() - due <= 500


@virtual
async def test_a_claim_sent_again_ends_the_wait_of_the_first() -> None:
    async with direct_world() as world:
        client = world.client()
        first = asyncio.create_task(client.claim(claim="c", wait_s=7.0))
        await asyncio.sleep(1)
        began = now()
        await client.claim(claim="c", wait_s=0.01)
        assert (await first).jobs == ()
        assert now() - began < 1


@virtual
async def test_as_soon_as_nobody_asks_nothing_is_read_any_more() -> None:
    async with direct_world() as world:
        await world.client().claim(wait_s=2.0)
        reads = world.store.reads
        await asyncio.sleep(600)
        assert world.store.reads == reads


# --- heartbeats and silence ----------------------------------------------------------------------


async def hold(world: DirectWorld, **options: object) -> tuple[object, ops.Grant]:
    client = world.client(**options)
    await client.push([world.job()])
    (grant,) = (await client.claim(worker="holder")).jobs
    return client, grant


@virtual
async def test_heartbeats_are_written_before_they_are_a_quarter_behind_and_no_oftener() -> None:
    async with direct_world() as world:
        client = world.client()
        await client.push([world.job() for _ in range(20)])
        tokens = [grant.token for grant in (await client.claim(max_jobs=20)).jobs]
        writes = len(world.store.attempts)
        behind_ms = 0
        for _ in range(60):
            await asyncio.sleep(T_S / 60)
            assert await client.heartbeat(tokens, tokens) == ops.Beaten()
            beaten_at = min(
                job.claim.heartbeat_at for job in world.document().claims.values() if job.claim
            )
            behind_ms = max(behind_ms, world.clock.wall_ms() - beaten_at)
        assert behind_ms <= T_S / 4 * 1000
        assert len(world.store.attempts) - writes <= 13


@virtual
async def test_a_heartbeat_is_answered_by_a_store_access_that_began_after_it() -> None:
    """Else a worker could start a job by what was true before it asked."""
    async with direct_world() as world:
        client = world.client()
        await client.push([world.job()])
        (grant,) = (await client.claim()).jobs
        reads, writes = world.store.reads, len(world.store.attempts)
        await asyncio.sleep(FOLLOWS_S / 2)  # so soon that the document in memory is tried first
        await client.heartbeat([grant.token])
        assert world.store.reads + len(world.store.attempts) > reads + writes
        await asyncio.sleep(0.1)
        world.store.down = StoreUnavailable("no route")
        with pytest.raises(Unavailable):
            await client.heartbeat([grant.token], timeout_s=5)


@virtual
async def test_the_job_of_a_dead_worker_goes_to_the_next_after_a_full_timeout() -> None:
    async with direct_world() as world:
        holder, watcher = world.session(), world.client()
        await watcher.push([world.job()])
        granted = await holder.call(world.claim())
        assert isinstance(granted, ops.Granted)
        token = granted.jobs[0].token
        await holder.call(ops.Heartbeat(tokens=(token,), started=(token,)))
        await holder.close()
        died_at = now()
        answer = ops.Granted()
        while not answer.jobs:
            answer = await watcher.claim(wait_s=T_S / 4, timeout_s=60)
        assert T_S <= now() - died_at <= T_S + 3 * POLL_LONGEST_S
        assert answer.jobs[0].attempt == 2
        assert answer.jobs[0].history[0].outcome == "expired"


def test_a_claim_that_expires_is_told_once_and_when_that_is_durable(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @virtual
    async def check() -> None:
        async with direct_world() as world:
            holder, watcher = world.session(), world.client()
            await watcher.push([world.job()])
            await holder.call(structs.replace(world.claim(), worker="w-1"))
            await holder.close()
            others = [world.job(queue="other") for _ in range(2)]

            def interfere() -> None:  # so that the commit which ends the claim is made again
                if others:
                    world.push_directly(others.pop())

            world.store.before_write = interfere
            while world.document().totals["default"].expired == 0:
                await watcher.claim(wait_s=T_S / 4, timeout_s=60)
            assert not others

    check()
    (line,) = [each for each in caplog.messages if "expired" in each]
    assert re.fullmatch(r"1 claim expired: job \S+ of worker w-1\.", line)


@virtual
async def test_a_live_holder_is_left_alone_whatever_the_clocks_say() -> None:
    """One machine's wall clock is an hour fast, so every time in the file is one of its own."""
    async with direct_world() as world:
        fast, slow = VirtualClock(), VirtualClock()
        fast.wall_step_ms = 3_600_000
        watcher = world.client(clock=fast)
        holder = world.client(clock=slow)
        await watcher.push([world.job()])
        (grant,) = (await holder.claim()).jobs

        async def watch() -> None:
            while True:
                assert (await watcher.claim(wait_s=5.0, timeout_s=60)).jobs == ()

        watching = asyncio.create_task(watch())
        for _ in range(40):
            await asyncio.sleep(T_S / 6)
            assert (await holder.heartbeat([grant.token], [grant.token])).lost == ()
        watching.cancel()
        assert world.document().totals["default"].expired == 0
        assert (await holder.complete(done(grant))).items[0].state == "succeeded"


@virtual
async def test_an_outage_of_the_store_ends_no_claim() -> None:
    async with direct_world() as world:
        holder, watcher = world.client(), world.client()
        await holder.push([world.job()])
        (grant,) = (await holder.claim()).jobs

        async def watch() -> None:
            while True:
                try:
                    assert (await watcher.claim(wait_s=5.0, timeout_s=60)).jobs == ()
                except (Unavailable, Unknown):
                    await asyncio.sleep(1)

        watching = asyncio.create_task(watch())
        await asyncio.sleep(20)
        world.store.down = StoreUnavailable("no route")
        await asyncio.sleep(2 * T_S)
        world.store.down = None
        await asyncio.sleep(T_S / 2)
        assert (await holder.heartbeat([grant.token])).lost == ()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        assert world.document().totals["default"].expired == 0


@virtual
async def test_a_process_that_was_stopped_ends_no_claim_of_one_that_beats() -> None:
    async with direct_world() as world:
        clock = VirtualClock()
        link = Link(world.store)
        watcher, holder = world.client(clock=clock, store=link), world.client()
        await holder.push([world.job()])
        (grant,) = (await holder.claim()).jobs
        await watcher.claim()
        for _ in range(3):  # stopped between two claims, for longer than a timeout each time
            clock.jump_s += 2 * T_S
            await holder.heartbeat([grant.token])
            assert (await watcher.claim(wait_s=1.0)).jobs == ()
        assert world.document().totals["default"].expired == 0


@virtual
async def test_a_heartbeat_that_comes_with_the_end_of_the_timeout_wins() -> None:
    async with direct_world() as world:
        client = world.client()
        await client.push([world.job()])
        (grant,) = (await client.claim()).jobs
        granted_at = now()
        while now() < granted_at + T_S - 2:
            await client.stats()  # looks at the document, and so watches
            await asyncio.sleep(2)
        await asyncio.sleep(granted_at + T_S + 1 - now())
        assert await client.heartbeat([grant.token]) == ops.Beaten()
        assert world.document().totals["default"].expired == 0


@virtual
async def test_a_cancelled_running_job_is_told_to_its_holder() -> None:
    async with direct_world() as world:
        client = world.client()
        job = world.job()
        await client.push([job])
        (grant,) = (await client.claim()).jobs
        await world.client().cancel([job.id], "running")
        beaten = await client.heartbeat([grant.token])
        assert beaten.cancel == (grant.token,)


@virtual
async def test_unused_sessions_leave_no_task_behind() -> None:
    async with direct_world() as world:
        session = world.session()
        await session.call(world.push())
        await session.close()
        await until(lambda: len(asyncio.all_tasks()) == 1)
