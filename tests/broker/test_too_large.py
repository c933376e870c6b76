"""A store that takes no larger document: what makes room gets through, whatever waits (S13)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

import pytest
from msgspec import Raw

from objq import errors
from objq.broker.batch import Batch
from objq.broker.broker import Broker
from objq.broker.inbox import Entry
from objq.broker.room import FORGET_AFTER_S, too_large
from objq.core import ops
from objq.store.base import TooLarge
from tests.broker.fakestore import Meets
from tests.broker.world import World, complete, push_and_claim, settle, until, world
from tests.virtual import virtual

BIG = Raw(b'["' + b"x" * 2_000 + b'"]')


def limit(made: World, spare_bytes: int) -> None:
    """Let the store take only so many bytes more than it holds."""
    assert made.store.data is not None
    made.store.limit_bytes = len(made.store.data) + spare_bytes
    made.store.too_large = TooLarge("413 from the proxy")


async def hold(broker: Broker, made: World, jobs: int) -> tuple[str, ...]:
    """Push jobs and claim them all."""
    await broker.submit(made.push(*(made.job() for _ in range(jobs))))
    answer = await broker.submit(made.claim(most=jobs))
    assert isinstance(answer, ops.Granted)
    return tuple(grant.token for grant in answer.jobs)


async def fill(broker: Broker, made: World) -> list[ops.NewJob]:
    """Push until that is refused; return what was taken."""
    pushed: list[ops.NewJob] = []
    with contextlib.suppress(errors.QueueFull):
        while True:
            jobs = [made.job() for _ in range(10)]
            await broker.submit(made.push(*jobs))
            pushed += jobs
    return pushed


async def claim_all(broker: Broker, made: World) -> list[str]:
    """Claim job after job until that is refused; return the tokens."""
    tokens: list[str] = []
    with contextlib.suppress(errors.Unavailable):
        while True:
            answer = await broker.submit(made.claim())
            assert isinstance(answer, ops.Granted)
            tokens += [grant.token for grant in answer.jobs]
    return tokens


def result(size_bytes: int, token: str) -> ops.Complete:
    filler = Raw(b'"' + b"x" * size_bytes + b'"')
    return ops.Complete(items=(ops.Completion(token=token, result=filler),))


def delete(*jobs: ops.NewJob) -> ops.Delete:
    ids = tuple(job.id for job in jobs)
    return ops.Delete(request="1-operator:1", ids=ids, expected="ready")


# --- what gets through ---------------------------------------------------------------------------


@virtual
async def test_start_marks_that_do_not_fit_hold_up_nobody() -> None:
    """Forty jobs begin; the store has no room for that. A delete and an outcome still go in."""
    async with world() as made:
        broker = await made.lead()
        spare = [made.job("spare") for _ in range(5)]
        await broker.submit(made.push(*spare))
        tokens = await hold(broker, made, 40)
        limit(made, 100)
        beat = ops.Heartbeat(tokens=tokens, started=tokens)
        assert await broker.submit(beat) == ops.Beaten()
        await asyncio.sleep(10)
        assert await broker.submit(beat) == ops.Beaten()
        async with asyncio.timeout(5):
            await broker.submit(delete(*spare))
            answer = await broker.submit(complete(tokens[0]))
        assert isinstance(answer, ops.Outcomes)
        assert answer.items[0].state == "succeeded"


@virtual
async def test_a_queue_that_fills_a_small_store_is_worked_off_after_a_delete() -> None:
    """Pushes fill the store, and workers claim what it takes: however many bytes that leaves."""
    for first in range(1, 10):
        async with world() as made:
            made.store.limit_bytes, made.store.too_large = 16 * 1024, TooLarge("413")
            broker = await made.lead()
            jobs = [made.job() for _ in range(first)]
            await broker.submit(made.push(*jobs))
            jobs += await fill(broker, made)
            tokens = await claim_all(broker, made)
            assert tokens
            beat = ops.Heartbeat(tokens=tuple(tokens), started=tuple(tokens))
            async with asyncio.timeout(60):
                assert await broker.submit(beat) == ops.Beaten()
                completed = broker.submit(complete(*tokens))
                await broker.submit(delete(*jobs[-10:]))
                await completed
            assert made.document().totals["default"].succeeded == len(tokens)
            await made.kill(broker)


@virtual
async def test_what_a_delete_frees_is_kept_for_the_outcomes_of_the_claims_that_live() -> None:
    async with world() as made:
        broker = await made.lead()
        spare = [made.job("spare") for _ in range(3)]
        tokens = await hold(broker, made, 2)
        await broker.submit(made.push(made.job(), *spare))
        limit(made, 0)
        for _ in range(2):
            with pytest.raises(errors.Unavailable, match="another claim"):
                await broker.submit(made.claim())
            if spare:
                await broker.submit(delete(*spare))
                spare = []
        async with asyncio.timeout(10):
            await broker.submit(complete(*tokens))
        assert made.document().totals["default"].succeeded == 2
        granted = await broker.submit(made.claim())
        assert isinstance(granted, ops.Granted)
        assert len(granted.jobs) == 1, "nobody else's outcome needs the room now"


@virtual
async def test_a_delete_goes_in_alone_while_an_outcome_that_does_not_fit_waits() -> None:
    async with world() as made:
        broker = await made.lead()
        small, large = made.job("spare"), made.job("spare", args=BIG)
        await broker.submit(made.push(small, large))
        (token,) = await hold(broker, made, 1)
        limit(made, 0)
        completed = broker.submit(result(1_000, token))
        await asyncio.sleep(30)
        assert not completed.done()
        lost = await broker.submit(ops.Heartbeat(tokens=("gone", token)))
        assert lost == ops.Beaten(lost=("gone",)), "answered from what was read anew"
        async with asyncio.timeout(30):
            await broker.submit(delete(small))
            assert not completed.done(), "too little room yet"
            await broker.submit(
                ops.Delete(request="1-operator:2", ids=(large.id,), expected="ready")
            )
            answer = await completed
        assert isinstance(answer, ops.Outcomes)
        assert answer.items[0].state == "succeeded"


@virtual
async def test_of_many_outcomes_those_that_fit_go_in() -> None:
    async with world() as made:
        broker = await made.lead()
        tokens = await hold(broker, made, 8)
        limit(made, 400)
        heavy = [broker.submit(result(5_000, token)) for token in tokens[:4]]
        light = broker.submit(ops.Release(tokens=tokens[4:5]))
        async with asyncio.timeout(30):
            await light
        assert not any(completed.done() for completed in heavy)


@virtual
async def test_a_claim_that_holds_its_job_is_told_so_also_where_nothing_is_granted() -> None:
    async with world() as made:
        broker = await made.lead()
        await broker.submit(made.push(made.job(), made.job()))
        claim = made.claim()
        granted = await broker.submit(claim)
        assert isinstance(granted, ops.Granted)
        limit(made, 0)
        with pytest.raises(errors.Unavailable, match="another claim"):
            await broker.submit(made.claim())
        again = await broker.submit(claim)
        assert isinstance(again, ops.Granted)
        assert [grant.token for grant in again.jobs] == [grant.token for grant in granted.jobs]


@virtual
async def test_a_claim_that_waits_is_not_served_by_what_does_not_fit_and_harms_nobody() -> None:
    """A job is handed back: that fits, and granting it to the claim that waits does not."""
    async with world() as made:
        broker = await made.lead()
        (held,) = await hold(broker, made, 1)
        waiting = broker.submit(made.claim(wait=7))
        await settle()
        limit(made, 0)
        await broker.submit(ops.Release(tokens=(held,)))
        assert not waiting.done()
        assert await waiting == ops.Granted(position=(1, 4, 0))
        made.store.limit_bytes = None
        await asyncio.sleep(FORGET_AFTER_S)
        granted = await broker.submit(made.claim())
        assert isinstance(granted, ops.Granted)
        assert len(granted.jobs) == 1


@virtual
async def test_a_challenge_is_answered_also_where_start_marks_do_not_fit() -> None:
    async with world() as made:
        broker = await made.lead()
        tokens = await hold(broker, made, 20)
        limit(made, 300)  # enough for the challenge
        await broker.submit(ops.Heartbeat(tokens=tokens, started=tokens))
        await until(lambda: broker.readiness()["problem"] is not None)
        made.cut.update(made.brokers)
        made.start(2)
        async with asyncio.timeout(60):
            await until(lambda: made.document().challenge is not None)
            await until(lambda: made.document().challenge is None)
        assert broker.leading
        assert made.document().epoch == 1


@virtual
async def test_a_standby_whose_challenge_does_not_fit_says_so_once_and_does_not_hammer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with world() as made:
        await made.lead()
        limit(made, 0)
        made.cut.update(made.brokers)
        standby = made.start(2)
        with caplog.at_level(logging.ERROR, logger="objq.broker"):
            await asyncio.sleep(100)
        assert len(caplog.records) == 1
        assert "413" in standby.readiness()["problem"]
        assert len(made.store.attempts) < 50


@virtual
async def test_a_stopping_broker_steps_down_although_an_outcome_does_not_fit() -> None:
    async with world() as made:
        broker = await made.lead()
        (token,) = await hold(broker, made, 1)
        limit(made, 0)
        completed = broker.submit(result(1_000, token))
        await asyncio.sleep(30)
        began = made.clock.monotonic()
        assert await broker.stop()
        assert made.clock.monotonic() - began < 10
        assert made.document().broker is None
        with pytest.raises(errors.Unknown):
            await completed


# --- what is told --------------------------------------------------------------------------------


@virtual
async def test_a_push_that_may_be_in_is_not_told_as_refused() -> None:
    """Applied, the reply lost; the identical repeat meets a proxy that takes less."""
    async with world() as made:
        broker = await made.lead()
        job = made.job()
        made.store.plan = [Meets.LOST_REPLY, TooLarge("413")]
        with pytest.raises(errors.Unknown):
            await broker.submit(made.push(job))
        assert job.id in made.document().jobs


@virtual
async def test_a_push_that_is_in_beneath_what_is_too_large_is_acknowledged() -> None:
    """Applied, the reply lost; somebody pushes on top, and a claim of that does not fit."""
    async with world() as made:
        broker = await made.lead()
        first, second = broker.submit(made.claim(wait=7)), broker.submit(made.claim(wait=7))
        await asyncio.sleep(1)
        job = made.job()
        made.store.plan = [Meets.LOST_REPLY]
        pushed = broker.submit(made.push(job))
        await made.store.next_write()
        made.push_directly(made.job())
        limit(made, 50)
        answer = await pushed
        assert isinstance(answer, ops.Outcomes)
        assert answer.items[0].state == "running"
        granted = await first
        assert isinstance(granted, ops.Granted)
        assert [grant.id for grant in granted.jobs] == [job.id]
        assert not second.done() or await second == ops.Granted(position=(1, 3, 0))


@virtual
async def test_a_refused_size_is_forgotten_after_a_while() -> None:
    async with world() as made:
        broker = await made.lead()
        await broker.submit(made.push(*(made.job() for _ in range(40))))
        limit(made, 100)
        for _ in range(2):
            with pytest.raises(errors.QueueFull):
                await broker.submit(made.push())
        writes = len(made.store.attempts)
        with pytest.raises(errors.QueueFull):
            await broker.submit(made.push())
        assert len(made.store.attempts) == writes, "refused without another try"
        assert broker.readiness()["problem"]
        made.store.limit_bytes = None  # the operator raises the proxy's limit
        await asyncio.sleep(FORGET_AFTER_S + 1)
        assert broker.readiness()["problem"] is None
        await broker.submit(made.push())


@virtual
async def test_the_log_and_readyz_say_what_to_do_and_the_log_says_it_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with world() as made:
        broker = await made.lead()
        (token,) = await hold(broker, made, 1)
        limit(made, 0)
        with caplog.at_level(logging.ERROR, logger="objq.broker"):
            completed = broker.submit(result(1_000, token))
            await asyncio.sleep(FORGET_AFTER_S - 1)
        (line,) = [record.getMessage() for record in caplog.records]
        assert not completed.done()
        readiness = broker.readiness()
        assert "413 from the proxy" in line
        for text in (line, readiness["problem"]):
            for advice in ("MAX_BYTES", "proxy", "delete jobs"):
                assert advice in text
        assert readiness["store_ok"], "no reason to lead elsewhere"


# --- what it costs -------------------------------------------------------------------------------


class Counting(Entry):
    """An entry that counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Counting.compared += 1
        return self is other

    __hash__ = object.__hash__


@virtual
async def test_many_pushes_are_refused_in_one_pass() -> None:
    op = ops.Push(request="1-a:1", jobs=(ops.NewJob(id="x", task="t"),))
    loop = asyncio.get_running_loop()
    entries: list[Any] = [Counting(op, loop.create_future(), at, 1) for at in range(1_000)]
    for entry in entries:
        entry.changed = True
    batch = Batch(entries)
    assert batch.lighten(too_large)
    assert batch.entries == []
    assert all(entry.future.done() for entry in entries)
    assert Counting.compared <= len(entries)


@virtual
async def test_a_silent_holder_costs_no_write_after_write_that_is_refused() -> None:
    """Its expiry makes the document larger, so it waits; it is tried again once a minute."""
    async with world() as made:
        broker = await made.lead()
        grant = await push_and_claim(broker, made)
        await broker.submit(ops.Heartbeat(tokens=(grant.token,), started=(grant.token,)))
        await until(lambda: made.document().jobs[grant.id].view().attempts == 1)
        limit(made, 0)
        await asyncio.sleep(40)
        writes = len(made.store.attempts)
        await asyncio.sleep(10 * FORGET_AFTER_S)
        assert grant.token in made.document().claims
        assert 10 <= len(made.store.attempts) - writes <= 30
        made.store.limit_bytes = None
        await until(lambda: grant.token not in made.document().claims)
