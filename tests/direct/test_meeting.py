"""Direct processes that meet a broker, and go on when it is gone (design §1)."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import Raw

from objq.broker.broker import Broker
from objq.client.client import Client
from objq.core import ops
from objq.errors import ObjqError, Unavailable, Unknown
from tests.broker.world import T_S, TTL_S
from tests.direct.world import DirectWorld, direct_world
from tests.virtual import virtual


def now() -> float:
    return asyncio.get_running_loop().time()


def done(grant: ops.Grant) -> list[ops.Completion]:
    return [ops.Completion(token=grant.token, result=Raw(b"1"))]


async def claimed(world: DirectWorld, client: Client) -> ops.Grant:
    await client.push([world.job()])
    # A broker that leads notices a direct push within BROKER_TTL / 4.
    (grant,) = (await client.claim(worker="direct", wait_s=TTL_S / 2)).jobs
    return grant


async def keep_alive(client: Client, token: str) -> None:
    """Beat as a worker does, whatever is answered."""
    while True:
        try:
            beaten = await client.heartbeat([token], [token], timeout_s=T_S / 2)
        except ObjqError:
            continue
        assert beaten.lost == ()
        await asyncio.sleep(T_S / 6)


@virtual
async def test_a_claim_granted_directly_goes_on_at_the_broker_under_its_token() -> None:
    async with direct_world() as world:
        client = world.client()
        grant = await claimed(world, client)
        broker = await world.lead()
        assert await client.heartbeat([grant.token], [grant.token]) == ops.Beaten()
        assert world.connects == 1
        ended = await client.complete(done(grant))
        assert ended.items[0].state == "succeeded"
        assert ended.position is not None
        assert ended.position[0] == 1
        assert broker.leading


@virtual
async def test_a_broker_gives_direct_claims_a_full_timeout_and_then_grants_the_job_again() -> None:
    async with direct_world() as world:
        session = world.session()
        grant = await claimed(world, Client(session))
        await session.close()
        await asyncio.sleep(T_S / 2)
        broker = await world.lead()
        began = now()
        answer = ops.Granted()
        while not answer.jobs:
            waited = await broker.submit(world.claim(wait=T_S / 4))
            assert isinstance(waited, ops.Granted)
            answer = waited
        assert now() - began >= T_S - 1
        assert answer.jobs[0].id == grant.id
        assert answer.jobs[0].history[0].outcome == "expired"


@virtual
async def test_while_a_broker_leads_direct_processes_claim_from_it_and_push_by_themselves() -> None:
    async with direct_world() as world:
        await world.lead()
        client = world.client()
        pushed = await client.push([world.job()])
        assert world.connects == 0
        assert pushed.position is not None
        answer = await client.claim(worker="direct", wait_s=TTL_S / 2)
        assert world.connects == 1
        (grant,) = answer.jobs
        claim = world.document().claims[grant.token].claim
        assert claim is not None
        assert claim.epoch == 1


@virtual
async def test_a_claim_that_waits_moves_to_the_broker_that_takes_over() -> None:
    async with direct_world() as world:
        client = world.client()
        await client.claim()
        waiting = asyncio.create_task(client.claim(wait_s=T_S / 4, timeout_s=T_S))
        await asyncio.sleep(1)
        broker = await world.lead()
        await asyncio.sleep(3)
        assert world.connects == 1
        await broker.submit(world.push())
        (grant,) = (await waiting).jobs
        claim = world.document().claims[grant.token].claim
        assert claim is not None
        assert claim.epoch == 1


@virtual
async def test_when_the_broker_has_stepped_down_everything_is_direct_again() -> None:
    async with direct_world() as world:
        client = world.client()
        grant = await claimed(world, client)
        broker = await world.lead()
        await client.heartbeat([grant.token])
        other = (await client.claim(claim="c")).jobs
        assert other == ()
        await world.stop(broker)
        assert await client.heartbeat([grant.token]) == ops.Beaten()
        assert (await client.complete(done(grant))).items[0].state == "succeeded"
        again = await claimed(world, client)
        claim = world.document().claims[again.token].claim
        assert claim is not None
        assert claim.epoch is None
        assert world.document().broker is None


@virtual
async def test_a_claim_of_a_broker_that_stepped_down_is_kept_up_directly() -> None:
    async with direct_world() as world:
        broker = await world.lead()
        client, watcher = world.client(), world.client()
        grant = await claimed(world, client)
        await world.stop(broker)
        beating = asyncio.create_task(keep_alive(client, grant.token))
        began = now()
        while now() - began < 2 * T_S:
            assert (await watcher.claim(wait_s=T_S / 4, timeout_s=60)).jobs == ()
        beating.cancel()
        assert (await client.complete(done(grant))).items[0].state == "succeeded"


@virtual
async def test_a_dead_broker_stops_claims_but_not_pushes_and_the_reason_is_told() -> None:
    async with direct_world() as world:
        client = world.client()
        grant = await claimed(world, client)
        await world.kill(await world.lead())
        await client.push([world.job()])
        assert len(world.document().jobs) == 2
        with pytest.raises(Unavailable, match=r"start manage\.py runbroker") as caught:
            await client.claim()
        assert "10.0.0.1" in caught.value.message
        with pytest.raises((Unavailable, Unknown)):
            await client.complete(done(grant), timeout_s=TTL_S)
        assert (await client.stats()).queues["default"].running == 1


@virtual
async def test_a_broker_started_and_stopped_again_clears_the_way() -> None:
    """What an operator is told to do, with work in hand all the while: nothing of it is lost."""
    async with direct_world() as world:
        client = world.client()
        grant = await claimed(world, client)
        beating = asyncio.create_task(keep_alive(client, grant.token))
        await world.kill(await world.lead())
        await asyncio.sleep(2 * T_S)
        second: Broker = await world.lead(port=2)
        await world.stop(second)
        assert world.document().broker is None
        assert (await client.complete(done(grant))).items[0].state == "succeeded"
        assert world.document().totals["default"].expired == 0
        beating.cancel()


@virtual
async def test_after_a_broker_every_direct_claim_has_a_full_timeout_again() -> None:
    async with direct_world() as world:
        holder, watcher = world.session(), world.client()
        await claimed(world, Client(holder))
        await watcher.claim()
        await holder.close()
        broker = await world.lead()
        led_until = now() + T_S * 0.8
        while now() < led_until:
            await watcher.stats()  # looks at the document, but the claim is not its business now
            await asyncio.sleep(T_S / 10)
        await world.stop(broker)
        began = now()
        answer = ops.Granted()
        while not answer.jobs:
            answer = await watcher.claim(wait_s=T_S / 4, timeout_s=60)
        assert now() - began >= T_S


@virtual
async def test_a_completion_in_flight_while_a_broker_takes_over_is_taken_once() -> None:
    async with direct_world() as world:
        client = world.client()
        grant = await claimed(world, client)
        world.store.hold()
        ending = asyncio.create_task(client.complete(done(grant)))
        leading = asyncio.create_task(world.lead())
        await asyncio.sleep(0.5)
        world.store.release()
        assert (await ending).items[0].state == "succeeded"
        await leading
        assert world.document().totals["default"].succeeded == 1


@virtual
async def test_the_next_broker_is_found_as_well() -> None:
    async with direct_world() as world:
        client = world.client()
        grant = await claimed(world, client)
        for port in (1, 2, 3):
            broker = await world.lead(port=port)
            await client.heartbeat([grant.token])
            await asyncio.sleep(2)
            assert await client.heartbeat([grant.token]) == ops.Beaten()
            assert world.connects == port
            waiting = asyncio.create_task(client.claim(wait_s=3.0))
            await asyncio.sleep(1)
            await world.stop(broker)  # the claim learns from the header that nobody leads
            assert (await waiting).jobs == ()
            assert await client.heartbeat([grant.token]) == ops.Beaten()
            await asyncio.sleep(2)


@virtual
async def test_what_was_heard_before_a_broker_led_says_nothing_afterwards() -> None:
    async with direct_world() as world:
        client = world.client()
        grant = await claimed(world, client)
        await asyncio.sleep(1)
        await client.heartbeat([grant.token])  # heard, but too early to be written
        broker = await world.lead()
        await client.push([world.job()])
        await world.stop(broker)
        before = world.document().claims[grant.token].claim
        await client.push([world.job()])
        assert world.document().claims[grant.token].claim == before
