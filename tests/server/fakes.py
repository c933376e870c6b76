"""A broker without a document: it answers from memory, or when the test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from django.core.files.storage import Storage

from objq.broker.company import Company
from objq.broker.gauges import Gauges
from objq.broker.measures import Measures
from objq.broker.roster import Roster
from objq.broker.stats import CommitStats
from objq.broker.watchers import Watcher
from objq.clock import SYSTEM_CLOCK
from objq.core import ops
from objq.errors import NotBroker, ObjqError

DOCUMENT = "document-1"


class FakeBroker:
    """Heartbeats and `stats` are answered at once; other operations by `answer` or `refuse`."""

    def __init__(self, broker_id: str = "broker-1") -> None:
        self.id = broker_id
        self.document: str | None = DOCUMENT
        self.leading = True
        self.store_ok = True
        self.on_reset: list[Callable[[], None]] = []
        self.on_state: list[Callable[[], None]] = []
        self.submitted: list[Any] = []
        self.futures: list[asyncio.Future[Any]] = []
        self.changed = asyncio.Event()
        self.log: list[str] = []
        self.before_submit: Callable[[Any], None] | None = None
        self.roster = Roster(SYSTEM_CLOCK)
        self.company = Company(SYSTEM_CLOCK, None)
        self.stats = CommitStats()
        self.measures = Measures()
        self.watchers: dict[Watcher, None] = {}
        self.in_time = True
        """What `stop` returns."""
        self._ended = asyncio.Event()

    async def run(self) -> None:
        self.log.append("run")
        for tell in self.on_state:
            tell()
        await self._ended.wait()

    async def stop(self) -> bool:
        self.log.append("stop")
        for future in self.futures:
            if not future.done():
                future.set_exception(NotBroker("It stops."))
        self._ended.set()
        return self.in_time

    def welcome(self, role: str) -> ops.Welcome:
        if not self.leading:
            raise NotBroker("It stands by.", url="ws://elsewhere:3000/objq/v1/")
        return ops.Welcome(
            document=DOCUMENT,
            broker=self.id,
            epoch=1,
            seq=5,
            role=role,
            version="0",
            settings=ops.DocumentSettings(),
            limits={"job_bytes": 262_144},
        )

    def readiness(self) -> dict[str, Any]:
        return {
            "broker": self.id,
            "state": "leading" if self.leading else "standby",
            "document": self.document,
            "epoch": 1,
            "store_ok": self.store_ok,
            "leader": "ws://127.0.0.1:1/objq/v1/" if self.leading else None,
        }

    def submit(self, op: Any) -> asyncio.Future[Any]:
        if self.before_submit is not None:
            self.before_submit(op)
        self.submitted.append(op)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if isinstance(op, ops.Heartbeat):
            future.set_result(ops.Beaten())
        else:
            self.futures.append(future)
        self.changed.set()
        return future

    def watch(self, watcher: Watcher) -> asyncio.Future[Any]:
        self.watchers[watcher] = None
        return self.submit(ops.Watch())

    def unwatch(self, watcher: Watcher) -> None:
        self.watchers.pop(watcher, None)

    def gauges(self) -> Gauges | None:
        return None

    # --- for the test --------------------------------------------------------------------------

    async def wait_submitted(self, count: int) -> None:
        while len(self.submitted) < count:
            self.changed.clear()
            await self.changed.wait()

    def answer(self, index: int, answer: ops.Answer | ObjqError) -> None:
        future = self.futures[index]
        if isinstance(answer, ops.Answer):
            future.set_result(answer)
        else:
            future.set_exception(answer)


class NoStorage(Storage):
    """A storage class that objq knows nothing of."""
