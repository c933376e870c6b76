"""Several processes write one document as fast as they can: each has its turn (design §1, S5)."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from objq.client.client import Client
from objq.client.known import Known
from objq.client.versions import Versions
from objq.core.codec import seal
from objq.core.document import Document, QueueState
from objq.core.ops import DocumentSettings
from objq.ids import Ids
from objq.store.base import Expect, Tag
from tests.broker.fakestore import FakeStore
from tests.client.fakes import World
from tests.virtual import VirtualClock, virtual

T_S = 6.0
FOR_S = 300.0


SLOWEST_S = 0.25


class Jittery(FakeStore):
    """Each access takes 50 to 250 ms."""

    def __init__(self) -> None:
        super().__init__()
        self.rng = random.Random(3)

    async def read(self, unless: Tag | None = None) -> Any:
        await asyncio.sleep(self.rng.uniform(0.05, SLOWEST_S))
        return await super().read(unless)

    async def write(self, data: bytes, expect: Expect) -> Tag:
        self.latency_s = self.rng.uniform(0.05, SLOWEST_S)
        return await super().write(data, expect)


def process(store: Jittery, number: int) -> Versions:
    return Versions(
        store,
        VirtualClock(),
        Ids(random.Random(number)),
        creates=None,
        on_confirmed=lambda document, began: None,
        seen=set(),
        known=Known(),
    )


def a_store() -> Jittery:
    store = Jittery()
    document = Document.new("document-1", DocumentSettings(heartbeat_timeout_s=T_S), 1)
    store.put(seal(document, "first", 1, leading=False))
    return store


async def writes(versions: Versions, name: str, apart_s: float = 0.0) -> list[float]:
    """Write again and again; return how long each commit was after the one before (seconds)."""

    def change(document: Document) -> bool:
        document.queues[name] = QueueState(paused=True)
        return True

    clock, gaps = VirtualClock(), []
    until = clock.monotonic() + FOR_S
    while (before := clock.monotonic()) < until:
        await versions.transact(change)
        await asyncio.sleep(apart_s)
        gaps.append(clock.monotonic() - before)
    return gaps


@virtual
@pytest.mark.parametrize("processes", [2, 3, 6])
async def test_no_process_waits_for_its_turn_as_long_as_a_claim_lasts(processes: int) -> None:
    store = a_store()
    busy = (writes(process(store, n), f"queue-{n}") for n in range(processes))
    assert max(map(max, await asyncio.gather(*busy))) < T_S


@virtual
async def test_whoever_writes_now_and_then_owes_others_no_room() -> None:
    """However many versions there were since it wrote last."""
    clock, store = VirtualClock(), a_store()
    other, rare = process(store, 1), process(store, 2)
    others = asyncio.create_task(writes(other, "other", apart_s=2.0))
    slowest = {"write": 0.0, "read": 0.0}
    while not others.done():
        for kind in ("write", "write", "read", "write", "read"):
            began = clock.monotonic()
            await rare.transact(lambda _: kind == "write", may_write=kind == "write")  # noqa: B023
            slowest[kind] = max(slowest[kind], clock.monotonic() - began)
        await asyncio.sleep(60)
    assert slowest["read"] <= SLOWEST_S
    assert slowest["write"] <= 4 * SLOWEST_S, "two commits, and reads"


@virtual
async def test_a_look_waits_for_nobodys_turn() -> None:
    clock, looking = VirtualClock(), process(a_store(), 1)
    looking._turn_at = clock.monotonic() + 60
    began = clock.monotonic()
    await looking.transact(lambda document: False, may_write=False)
    assert clock.monotonic() - began <= SLOWEST_S


@virtual
async def test_a_process_that_is_alone_leaves_no_room() -> None:
    gaps = await writes(process(a_store(), 1), "queue")
    assert max(gaps[1:]) < 0.26  # one write each, no read and no pause between


@virtual
async def test_a_dead_workers_job_is_granted_again_in_time_though_all_others_are_busy() -> None:
    """Whoever waits for its turn to write looks meanwhile, or would never see T of silence."""
    at_s = {"write": 0.5, "read": 0.45, "read_head": 0.45}
    world = World(heartbeat_timeout_s=10.0)
    dead = world.client(mode="direct")
    await dead.push([world.job(number) for number in range(4)])
    (lost,) = (await dead.claim(claim="dead")).jobs
    await world.sessions[0].close()
    world.store.before = lambda name: asyncio.sleep(at_s[name])
    granted: asyncio.Queue[str] = asyncio.Queue()

    async def wait_for_more(client: Client) -> None:
        while True:
            for grant in (await client.claim(wait_s=2.5, timeout_s=60)).jobs:
                granted.put_nowait(grant.id)

    async def beat(client: Client, token: str) -> None:
        while True:
            await client.heartbeat([token], [token], timeout_s=60)
            await asyncio.sleep(10 / 6)

    began = world.clock.monotonic()
    async with asyncio.TaskGroup() as group:
        clients = [world.client(mode="direct") for _ in range(3)]
        held = [(await client.claim()).jobs[0] for client in clients]
        works = [beat(client, grant.token) for client, grant in zip(clients, held, strict=True)]
        waits = [wait_for_more(client) for client in clients]
        tasks = [group.create_task(each) for each in (*works, *waits)]
        while await granted.get() != lost.id:
            pass
        for task in tasks:
            task.cancel()
    assert world.clock.monotonic() - began < 2 * 10.0
    for session in world.sessions:
        await session.close()
