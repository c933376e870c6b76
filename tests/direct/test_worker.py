"""The worker itself on a direct session: it knows no difference (S2, S5, S10)."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

from objq.client.session import Session
from objq.core import ops
from objq.ids import Ids
from objq.store.base import Unavailable as StoreUnavailable
from objq.worker import Ending, Outcome, Worker, WorkerOptions
from objq.worker.holdings import Stage
from objq.worker.seam import Control
from tests.broker.fakestore import FakeStore, Link
from tests.broker.world import T_S, TTL_S, until
from tests.direct.world import DirectWorld, direct_world
from tests.virtual import virtual


class Runs:
    """An executor: jobs take `takes_s`, and it is counted how often each was started."""

    def __init__(self, takes_s: float) -> None:
        self.takes_s = takes_s
        self.started: Counter[str] = Counter()

    async def run(self, grant: ops.Grant, control: Control) -> Outcome:
        self.started[grant.id] += 1
        await asyncio.sleep(self.takes_s)
        return Outcome(ops.Completion(token=grant.token))


def start(world: DirectWorld, session: Session, runs: Runs) -> tuple[Worker, asyncio.Task[Ending]]:
    worker = Worker(
        session,
        runs,
        WorkerOptions(name="w", queues=("default",), slots=4, prefetch=4, shutdown_grace_s=30.0),
        settings=lambda: session.settings,
        clock=world.clock,
        ids=Ids(random.Random(5)),
        claim_id=session.claim_id,
        in_doubt=session.in_doubt,
    )
    return worker, asyncio.create_task(worker.run())


async def finished(world: DirectWorld, jobs: int) -> None:
    await until(lambda: len(world.document().finished) == jobs)


@virtual
async def test_two_workers_without_a_broker_run_every_job_once() -> None:
    async with direct_world(FakeStore(latency_s=0.05)) as world:
        runs = Runs(0.5)
        await world.client().push([world.job() for _ in range(60)])
        workers = [start(world, world.session(), runs) for _ in range(2)]
        await finished(world, 60)
        assert set(runs.started.values()) == {1}
        for worker, _ in workers:
            worker.drain()
        assert [await task for _, task in workers] == [Ending.CLEAN] * 2


@virtual
async def test_a_job_longer_than_the_timeout_is_kept_alive_by_heartbeats() -> None:
    async with direct_world() as world:
        runs = Runs(5 * T_S)
        await world.client().push([world.job()])
        workers = [start(world, world.session(), runs) for _ in range(2)]
        await finished(world, 1)
        assert list(runs.started.values()) == [1]
        assert world.document().totals["default"].expired == 0
        for _, task in workers:
            task.cancel()


@virtual
async def test_brokers_come_and_go_and_no_job_notices() -> None:
    async with direct_world(FakeStore(latency_s=0.05)) as world:
        runs = Runs(3.0)
        pusher = world.client()
        workers = [start(world, world.session(), runs) for _ in range(2)]
        for turn in range(6):
            await pusher.push([world.job() for _ in range(20)])
            await asyncio.sleep(2)
            broker = await world.lead()
            await pusher.push([world.job() for _ in range(20)])
            await asyncio.sleep(TTL_S)
            if turn % 2:
                await world.kill(broker)
                await asyncio.sleep(TTL_S)
                broker = await world.lead(bound=True)
            await world.stop(broker)
        await finished(world, 240)
        assert len(runs.started) == 240
        assert set(runs.started.values()) == {1}
        assert world.document().totals["default"].expired == 0
        for _, task in workers:
            task.cancel()


@virtual
async def test_a_worker_cut_from_the_store_starts_nothing_that_may_have_gone_elsewhere() -> None:
    """It holds jobs that wait for a slot; they go to the other worker before a slot is free."""
    async with direct_world() as world:
        link = Link(world.store)
        cut, other = Runs(0.2), Runs(0.1)
        await world.client().push([world.job() for _ in range(40)])
        worker, first = start(world, world.session(store=link), cut)
        await until(lambda: len(cut.started) >= 8)
        cut.takes_s = 2 * T_S
        full = len(cut.started) + 4
        await until(
            lambda: len(cut.started) == full and worker.holdings.at(Stage.WAITING), step_s=0.001
        )
        link.down = StoreUnavailable("no route")
        waiting = [held.grant.id for held in worker.holdings.at(Stage.WAITING)]
        _, second = start(world, world.session(), other)
        await until(lambda: all(job in other.started for job in waiting))
        await asyncio.sleep(2 * T_S)
        assert not any(job in cut.started for job in waiting)
        for task in (first, second):
            task.cancel()
