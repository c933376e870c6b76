"""What the server side needs of a broker, so that a test or a simulation can bring its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from objq.broker.company import Company
from objq.broker.gauges import Gauges
from objq.broker.measures import Measures
from objq.broker.roster import Roster
from objq.broker.stats import CommitStats
from objq.broker.watchers import Watcher
from objq.core import ops

Json = dict[str, Any]


class Broker(Protocol):
    """The part of `objq.broker.broker.Broker` that sockets, metrics and the server use."""

    on_reset: list[Callable[[], None]]
    on_state: list[Callable[[], None]]

    @property
    def id(self) -> str: ...

    @property
    def document(self) -> str | None: ...

    @property
    def company(self) -> Company: ...

    @property
    def roster(self) -> Roster: ...

    @property
    def stats(self) -> CommitStats: ...

    @property
    def measures(self) -> Measures: ...

    def gauges(self) -> Gauges | None: ...

    def readiness(self) -> Json: ...

    def welcome(self, role: str) -> ops.Welcome: ...

    def submit(self, op: Any) -> asyncio.Future[Any]: ...

    def watch(self, watcher: Watcher) -> asyncio.Future[ops.Answer]: ...

    def unwatch(self, watcher: Watcher) -> None: ...

    async def run(self) -> None: ...

    async def stop(self) -> bool: ...
