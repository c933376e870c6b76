"""What the broker's tests share: brokers on one store that can see each other, or not."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

from msgspec import Raw

from objq.broker.broker import Broker
from objq.broker.election import ProbeResult, Reach
from objq.clock import Clock
from objq.core import ops
from objq.core.codec import decode, seal
from objq.core.document import Document
from objq.core.rules import apply
from objq.ids import Ids
from objq.options import Options
from objq.store.base import AsyncStore
from tests.broker.fakestore import FakeStore
from tests.virtual import VirtualClock

T_S = 30.0
TTL_S = 10.0
DEFAULTS: dict[str, Any] = {"heartbeat_timeout_s": T_S, "broker_ttl_s": TTL_S}
URL = "ws://10.0.0.1:1/objq/v1/"
"""What the broker with port 1 advertises."""


class World:
    """A store, and brokers by URL. `cut` are URLs that nobody reaches."""

    def __init__(self, store: FakeStore | None = None) -> None:
        self.store = store or FakeStore(latency_s=0.1)
        self.clock = VirtualClock()
        self.ids = Ids(random.Random(1))
        self.brokers: dict[str, Broker] = {}
        self.cut: set[str] = set()
        self.tasks: dict[Broker, asyncio.Task[None]] = {}
        self.number = 0
        self.started = 0

    async def probe(self, url: str, introduction: bytes = b"") -> ProbeResult:
        await asyncio.sleep(0.001)
        if url in self.cut:
            return ProbeResult(Reach.UNREACHABLE)
        broker = self.brokers.get(url)
        if broker is None:
            return ProbeResult(Reach.REFUSED)
        return ProbeResult.answered(broker.readiness())

    def start(
        self,
        port: int = 1,
        *,
        store: AsyncStore | None = None,
        clock: Clock | None = None,
        bound: bool = False,
        **options: Any,
    ) -> Broker:
        """Start a broker that advertises `port`, and has bound it if `bound` says so."""
        url = f"ws://10.0.0.1:{port}/objq/v1/"
        self.started += 1
        broker = Broker(
            store or self.store,
            Options(
                storage="objq", **{"heartbeat_timeout_s": T_S, "broker_ttl_s": TTL_S, **options}
            ),
            clock=clock or self.clock,
            ids=Ids(random.Random(self.started)),
            advertise=url,
            bound=("10.0.0.1", port) if bound else None,
            probe=self.probe,
        )
        self.brokers[url] = broker
        self.tasks[broker] = asyncio.create_task(broker.run())
        return broker

    async def lead(self, port: int = 1, **options: Any) -> Broker:
        broker = self.start(port, **options)
        await self.leads(broker)
        return broker

    async def leads(self, broker: Broker) -> None:
        await until(lambda: broker.leading or self.tasks[broker].done())
        assert broker.leading

    async def kill(self, broker: Broker) -> None:
        """End a broker as kill -9 does: nothing is flushed and its port refuses."""
        for url in [url for url, other in self.brokers.items() if other is broker]:
            del self.brokers[url]
        task = self.tasks.pop(broker)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    def document(self) -> Document:
        assert self.store.data is not None
        return decode(self.store.data)

    def push_directly(self, *jobs: ops.NewJob) -> None:
        """Push as a process does that finds no broker."""
        document = self.document()
        apply(document, self.push(*jobs), self.clock.wall_ms(), mint=self.ids.token, epoch=None)
        self.store.put(seal(document, self.ids.token(), self.clock.wall_ms(), leading=False))

    def job(self, queue: str = "default", **fields: Any) -> ops.NewJob:
        return ops.NewJob(id=self.ids.job_id(self.clock.wall_ms()), task="t", queue=queue, **fields)

    def push(self, *jobs: ops.NewJob) -> ops.Push:
        self.number += 1
        return ops.Push(request=f"1-world:{self.number}", jobs=jobs or (self.job(),))

    def claim(self, wait: float = 0.0, most: int = 1, queue: str = "default") -> ops.TakeClaim:
        return ops.TakeClaim(claim=self.ids.token(), wait=wait, max=most, queues=(queue,))


@contextlib.asynccontextmanager
async def world(store: FakeStore | None = None) -> AsyncIterator[World]:
    """A world whose brokers are killed at the end."""
    made = World(store)
    try:
        yield made
    finally:
        for broker in list(made.tasks):
            await made.kill(broker)


async def until(condition: Any, step_s: float = 0.02) -> None:
    """Let time pass until the condition holds; the loop's time is virtual."""
    while not condition():  # noqa: ASYNC110 - the loop's time is virtual
        await asyncio.sleep(step_s)


async def settle() -> None:
    """Let everything run that can run without time passing."""
    for _ in range(20):
        await asyncio.sleep(0)


def complete(*tokens: str) -> ops.Complete:
    return ops.Complete(
        items=tuple(ops.Completion(token=token, result=Raw(b"1")) for token in tokens)
    )


async def push_and_claim(broker: Broker, made: World) -> ops.Grant:
    """Push one job and claim it."""
    await broker.submit(made.push())
    answer = await broker.submit(made.claim())
    assert isinstance(answer, ops.Granted)
    return answer.jobs[0]
