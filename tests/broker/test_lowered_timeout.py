"""HEARTBEAT_TIMEOUT is lowered while workers still beat by the one before (S5)."""

from __future__ import annotations

import asyncio

from objq.broker.broker import Broker
from objq.core import ops
from tests.broker.world import T_S, World, push_and_claim, until, world
from tests.virtual import virtual

LOWER_S = 6.0
LOWER = {"heartbeat_timeout_s": LOWER_S, "broker_ttl_s": LOWER_S}


async def replace(broker: Broker, made: World) -> Broker:
    """End the leader as a deployment does; return the one with the lower timeout that follows."""
    await broker.stop()
    await made.kill(broker)
    return await made.lead(1, **LOWER)


@virtual
async def test_two_take_overs_in_a_row_wait_for_holders_that_beat_by_the_timeout_before() -> None:
    """A holder has just beaten as two brokers with a lower timeout follow one another."""
    async with world() as made:
        broker = await made.lead(1)
        grant = await push_and_claim(broker, made)
        beat = ops.Heartbeat(tokens=(grant.token,), started=(grant.token,))
        await broker.submit(beat)
        broker = await replace(broker, made)
        await asyncio.sleep(1)
        broker = await replace(broker, made)
        await asyncio.sleep(T_S - 2)
        assert await broker.submit(beat) == ops.Beaten()
        assert list(made.document().claims) == [grant.token]


@virtual
async def test_a_lower_timeout_is_written_once_the_one_before_was_led() -> None:
    async with world() as made:
        broker = await made.lead(1)
        grant = await push_and_claim(broker, made)
        broker = await replace(broker, made)
        led_since = made.clock.monotonic()
        assert broker.welcome("work").settings.heartbeat_timeout_s == LOWER_S, "told at once"
        assert made.document().settings.heartbeat_timeout_s == T_S
        await asyncio.sleep(T_S - 2)
        await broker.submit(ops.Heartbeat(tokens=(grant.token,)))
        await until(lambda: made.document().settings.heartbeat_timeout_s == LOWER_S)
        assert made.clock.monotonic() - led_since >= T_S
        await until(lambda: not made.document().claims)
        assert made.clock.monotonic() - led_since < T_S + LOWER_S + 3, "and kept to"
        writes = len(made.store.history)
        await asyncio.sleep(600)
        assert len(made.store.history) == writes


@virtual
async def test_a_higher_timeout_holds_at_once() -> None:
    async with world() as made:
        broker = await made.lead(1)
        await broker.stop()
        await made.kill(broker)
        await made.lead(1, heartbeat_timeout_s=2 * T_S)
        assert made.document().settings.heartbeat_timeout_s == 2 * T_S
