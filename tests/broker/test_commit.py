"""What the only writer of the document does with each thing a store may say (scenarios 1–10)."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import msgspec
import pytest

from objq import errors
from objq.broker.stats import CommitStats
from objq.core import ops
from objq.core.codec import decode, seal
from objq.store import base
from tests.broker.fakestore import FakeStore, Meets
from tests.broker.world import complete, push_and_claim, settle, until, world
from tests.virtual import virtual


@virtual
async def test_a_push_whose_reply_is_lost_is_there_once_and_the_broker_stays_leader() -> None:
    async with world() as made:
        broker = await made.lead()
        before = len(made.store.history)
        made.store.plan = [Meets.LOST_REPLY]
        answer = await broker.submit(made.push())
        assert answer.position == (1, 2, 0)
        assert len(made.store.history) == before + 1
        assert len(made.document().jobs) == 1
        assert broker.leading
        assert made.store.attempts[-1] == made.store.attempts[-2]  # identical bytes, expectation


@virtual
async def test_a_claim_whose_reply_is_lost_is_granted_once() -> None:
    async with world() as made:
        broker = await made.lead()
        await broker.submit(made.push(made.job(), made.job()))
        made.store.plan = [Meets.LOST_REPLY]
        answer = await broker.submit(made.claim())
        assert isinstance(answer, ops.Granted)
        assert [grant.token for grant in answer.jobs] == list(made.document().claims)


@virtual
async def test_a_completion_whose_reply_is_lost_ends_the_job_once() -> None:
    async with world() as made:
        broker = await made.lead()
        grant = await push_and_claim(broker, made)
        made.store.plan = [Meets.LOST_REPLY, base.Unavailable("gone"), Meets.LOST_REPLY]
        answer = await broker.submit(complete(grant.token))
        assert isinstance(answer, ops.Outcomes)
        assert answer.items[0].state == "succeeded"
        assert made.document().totals["default"].succeeded == 1


@virtual
async def test_requests_are_applied_again_when_somebody_wrote_on_top_of_a_lost_reply() -> None:
    async with world() as made:
        broker = await made.lead()
        made.store.plan = [Meets.LOST_REPLY]
        pushed = broker.submit(made.push())
        await made.store.next_write()
        made.push_directly(made.job())
        answer = await pushed
        assert isinstance(answer, ops.Outcomes)
        assert answer.items[0].state == "ready"
        assert len(made.document().jobs) == 2
        assert broker.leading


@virtual
async def test_a_push_that_is_in_but_was_forgotten_before_that_was_seen_is_unknown() -> None:
    """The reply is lost; somebody whose clock is an hour ahead writes on top and drops the id."""
    async with world() as made:
        broker = await made.lead()
        made.store.plan = [Meets.LOST_REPLY]
        pushed = broker.submit(made.push())
        await made.store.next_write()
        document = made.document()
        document.requests.prune(1 << 60)
        made.store.put(seal(document, "ahead", document.at + 3_600_000, leading=False))
        with pytest.raises(errors.Unknown):
            await pushed
        assert len(made.document().jobs) == 1


@virtual
async def test_a_waiting_claim_keeps_its_jobs_when_somebody_wrote_on_top_of_a_lost_reply() -> None:
    async with world() as made:
        broker = await made.lead()
        waiting = broker.submit(made.claim(wait=7))
        await settle()
        made.store.plan = [Meets.LOST_REPLY]
        await_push = broker.submit(made.push())
        await made.store.next_write()
        granted = list(made.document().claims)
        made.push_directly(made.job())
        answer = await waiting
        assert isinstance(answer, ops.Granted)
        assert [grant.token for grant in answer.jobs] == granted == list(made.document().claims)
        await await_push


@virtual
async def test_waiting_claims_are_served_in_their_order_also_after_a_conflict() -> None:
    async with world() as made:
        broker = await made.lead()
        first = broker.submit(made.claim(wait=7))
        await settle()
        second = broker.submit(made.claim(wait=7))
        await asyncio.sleep(0.5)
        made.store.before_write = lambda: push_once()
        foreign = [made.job("mail")]

        def push_once() -> None:
            if foreign:
                made.push_directly(foreign.pop())

        await broker.submit(made.push())
        answer = await first
        assert isinstance(answer, ops.Granted)
        assert len(answer.jobs) == 1
        assert not second.done()


@virtual
async def test_a_write_that_lands_late_is_the_one_that_is_repeated() -> None:
    async with world() as made:
        broker = await made.lead()
        made.store.plan = [Meets.LATE, *[base.Ambiguous("timed out")] * 8]
        pushed = broker.submit(made.push())
        await until(lambda: not made.store.plan)
        assert made.store.land() == [True]
        answer = await pushed
        assert isinstance(answer, ops.Outcomes)
        assert answer.items[0].state == "ready"
        assert made.document().seq == 2


@virtual
async def test_a_write_that_lands_after_others_is_refused_by_the_store() -> None:
    async with world() as made:
        broker = await made.lead()
        made.store.plan = [Meets.LATE]
        await broker.submit(made.push())
        await broker.submit(made.push())
        assert made.store.land() == [False]
        assert len(made.document().jobs) == 2


@virtual
async def test_a_queue_that_returns_to_the_same_contents_never_has_the_same_bytes() -> None:
    async with world() as made:
        broker = await made.lead()
        for _ in range(3):
            grant = await push_and_claim(broker, made)
            await broker.submit(complete(grant.token))
        assert len(set(made.store.history)) == len(made.store.history)
        sequence = [decode(data).seq for data in made.store.history]
        assert sequence == list(range(1, len(sequence) + 1))


@virtual
async def test_a_store_that_says_try_again_loses_nobody_of_the_batch() -> None:
    async with world() as made:
        broker = await made.lead()
        made.store.plan = [base.Ambiguous("409 ConditionalRequestConflict")] * 3
        answers = await asyncio.gather(*(broker.submit(made.push()) for _ in range(20)))
        assert len(answers) == len(made.document().jobs) == 20
        assert len(made.store.history) == 2


@virtual
async def test_a_throttling_store_is_written_more_slowly_and_nothing_is_dropped() -> None:
    async with world() as made:
        broker = await made.lead()
        made.store.plan = [base.Throttled("slow down", 2.0)] * 2
        began = made.clock.monotonic()
        await broker.submit(made.push())
        assert made.clock.monotonic() - began >= 4.0  # as long as the store asked for, twice
        await broker.submit(made.push())
        await broker.submit(made.push())
        assert made.store.times[-1] - made.store.times[-2] >= 0.1
        assert len(made.document().jobs) == 3


@virtual
async def test_the_pace_of_the_store_is_kept_and_the_batch_grows() -> None:
    async with world(FakeStore(latency_s=0.1, pace_s=1.0)) as made:
        broker = await made.lead()
        pushes = []
        for _ in range(50):
            pushes.append(broker.submit(made.push()))
            await asyncio.sleep(0.1)
        await asyncio.gather(*pushes)
        gaps = [b - a for a, b in pairwise(made.store.times)]
        assert min(gaps) >= 0.999
        assert len(made.store.history) <= 8


@virtual
async def test_a_vanished_document_is_not_created_again_and_its_return_resumes() -> None:
    async with world() as made:
        broker = await made.lead()
        await broker.submit(made.push())
        kept = made.store.data
        assert kept is not None
        made.store.delete()
        pushed = broker.submit(made.push())
        with pytest.raises(errors.Unavailable, match="vanished"):
            await pushed
        assert made.store.data is None
        assert broker.readiness()["problem"]
        made.store.put(kept)
        await until(lambda: broker.readiness()["problem"] is None)
        await broker.submit(made.push())
        assert broker.stats.lost_commits == 1  # it was told durable and was not there


@virtual
async def test_an_older_version_is_not_built_upon_and_the_loss_is_an_alarm() -> None:
    async with world() as made:
        broker = await made.lead()
        old = made.store.data
        assert old is not None
        await broker.submit(made.push())
        made.store.put(old)
        writes = len(made.store.history)
        await until(lambda: broker.readiness()["problem"] is not None)
        with pytest.raises(errors.Unavailable, match="went back"):
            await broker.submit(made.push())
        assert len(made.store.history) == writes
        assert broker.stats.lost_commits == 1


@virtual
async def test_a_stale_read_is_read_again() -> None:
    async with world() as made:
        broker = await made.lead()
        old = base.Content(made.store.data or b"", made.store.tag)
        await broker.submit(made.push())
        made.push_directly(made.job())
        made.store.stale = [old]
        answer = await broker.submit(made.push())  # conflicts, and then reads the old version once
        assert answer.position == (1, 4, 0)
        assert broker.stats.lost_commits == 0


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda data: b"", id="empty"),
        pytest.param(lambda data: data[: len(data) // 2], id="cut short"),
        pytest.param(lambda data: data.replace(b'"objq":1', b'"objq":2', 1), id="newer schema"),
        pytest.param(lambda data: data.replace(b'"document":"', b'"document":"x', 1), id="foreign"),
    ],
)
def test_what_is_not_understood_is_kept_and_never_an_empty_queue(spoil: object) -> None:
    @virtual
    async def test() -> None:
        async with world() as made:
            broker = await made.lead()
            await broker.submit(made.push())
            good = made.store.data
            assert good is not None
            assert callable(spoil)
            bad = spoil(good)
            made.store.put(bad)
            await until(lambda: broker.readiness()["problem"] is not None)
            with pytest.raises(errors.Unavailable):
                await broker.submit(made.push())
            assert made.store.data == bad
            made.store.put(good)
            await until(lambda: broker.readiness()["problem"] is None)
            await broker.submit(made.push())
            assert len(made.document().jobs) == 2

    test()


@virtual
async def test_a_document_that_is_too_large_refuses_pushes_and_lets_outcomes_through() -> None:
    async with world() as made:
        broker = await made.lead()
        grant = await push_and_claim(broker, made)
        assert made.store.data is not None
        made.store.limit_bytes = len(made.store.data) + 600
        made.store.too_large = base.TooLarge("413")
        big = made.job(args=msgspec.Raw(b'["' + b"x" * 2000 + b'"]'))
        pushed = broker.submit(made.push(big))
        completed = broker.submit(complete(grant.token))
        with pytest.raises(errors.QueueFull):
            await pushed
        answer = await completed
        assert isinstance(answer, ops.Outcomes)
        assert answer.items[0].state == "succeeded"
        assert broker.leading


@virtual
async def test_a_broker_whose_credentials_expire_recovers_by_itself() -> None:
    async with world() as made:
        broker = await made.lead()
        made.store.down = base.Denied("ExpiredToken")
        pushed = broker.submit(made.push())
        with pytest.raises(errors.Unavailable):
            await pushed
        with pytest.raises(errors.Unavailable):
            await broker.submit(ops.Stats())
        made.store.down = None
        await until(lambda: broker.readiness()["store_ok"])
        answer = await broker.submit(made.push())
        assert answer.position is not None
        assert broker.leading


@virtual
async def test_there_are_never_two_writes_in_flight() -> None:
    async with world(FakeStore(latency_s=0.2)) as made:
        broker = await made.lead()
        made.store.plan = [Meets.LOST_REPLY, base.Unavailable("no route"), Meets.LATE] * 5
        pushes = []
        for _ in range(100):
            pushes.append(broker.submit(made.push()))
            await asyncio.sleep(0.03)
        await asyncio.gather(*pushes)
        assert made.store.max_in_flight == broker.stats.max_in_flight == 1
        assert isinstance(broker.stats, CommitStats)
        assert len(made.document().jobs) == 100


@virtual
async def test_a_direct_writer_between_two_commits_costs_one_conflict_and_no_leadership() -> None:
    async with world() as made:
        broker = await made.lead()
        made.push_directly(made.job())
        answer = await broker.submit(made.push())
        assert answer.position == (1, 3, 0)
        assert broker.stats.conflicts == 1
        assert len(made.document().jobs) == 2


@virtual
async def test_a_foreign_epoch_met_in_a_conflict_deposes() -> None:
    async with world() as made:
        broker = await made.lead()
        mine = broker.id
        resets = []
        broker.on_reset.append(lambda: resets.append(True))
        document = made.document()
        assert document.broker is not None
        document.broker = msgspec.structs.replace(document.broker, id="other", url="ws://o:1/")
        document.epoch += 1
        made.store.put(seal(document, "c", made.clock.wall_ms(), leading=True))
        with pytest.raises(errors.Unknown):
            await broker.submit(made.push())
        assert resets
        assert broker.id != mine
        with pytest.raises(errors.NotBroker) as refused:
            await broker.submit(made.push())
        assert refused.value.url == "ws://o:1/"
