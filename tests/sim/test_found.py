"""Faults that the worlds have found in the broker, each in the least that shows it."""

from __future__ import annotations

import asyncio

from objq.broker.broker import Broker
from objq.core import ops
from objq.core.codec import seal
from objq.core.leading import step_down, take_over
from objq.store.base import Ambiguous
from tests.broker.fakestore import Meets
from tests.broker.world import T_S, TTL_S, complete, until, world
from tests.virtual import virtual


@virtual
async def test_a_claim_that_is_repeated_in_the_commit_that_would_expire_it_keeps_its_jobs() -> None:
    async with world() as made:
        broker = await made.lead()
        await broker.submit(made.push())
        claim = made.claim()
        await broker.submit(claim)  # and the answer is lost on its way
        await asyncio.sleep(T_S * 0.7)
        made.store.hold()
        pushed = broker.submit(made.push())
        await asyncio.sleep(T_S * 0.4)
        repeated = broker.submit(claim)
        made.store.release()

        await pushed
        answer = await repeated
        assert isinstance(answer, ops.Granted)
        token = answer.jobs[0].token
        assert token in made.document().claims
        ended = await broker.submit(complete(token))
        assert isinstance(ended, ops.Outcomes)
        assert ended.items[0].error is None


@virtual
async def test_a_store_that_answers_first_after_a_pause_expires_nothing() -> None:
    async with world() as made:
        broker = await made.lead()
        await asyncio.sleep(T_S)
        await broker.submit(made.push())
        granted = await broker.submit(made.claim())
        assert isinstance(granted, ops.Granted)
        made.store.hold()
        pushed = broker.submit(made.push())
        await made.store.next_attempt()

        made.clock.jump_s += 2 * T_S
        made.store.release()
        await until(pushed.done)

        pushed.cancel() if not pushed.done() else pushed.exception()
        assert granted.jobs[0].token in made.document().claims


@virtual
async def test_an_id_whose_take_over_was_superseded_unseen_never_leads_again() -> None:
    async with world() as made:
        first: Broker = await made.lead(1)
        second = made.start(2)
        await asyncio.sleep(TTL_S)
        await made.kill(first)
        made.store.plan = [Meets.LOST_REPLY, *[Ambiguous("timed out")] * 8]
        await made.store.next_write()
        led_unseen = made.document().broker
        assert led_unseen is not None
        assert led_unseen.id == second.id

        # Meanwhile another takes over, and steps down again.
        third = ops.BrokerInfo(id="third", url="ws://10.0.0.1:3/objq/v1/", since=1, version="0")
        for change in (
            lambda document: take_over(document, third, document.settings),
            lambda document: step_down(document, third.id),
        ):
            document = made.document()
            change(document)
            made.store.put(seal(document, made.ids.token(), 0, leading=True))

        await until(lambda: second.leading, step_s=TTL_S / 10)
        now_leads = made.document().broker
        assert now_leads is not None
        assert now_leads.id != led_unseen.id
