"""Wakes all who look on at a queue: when something has changed, and once a second for the ages.

There is one hub for each backend in a process (to be exact, in each event loop, of which a server
has one). While somebody looks on it holds one watch of the client, so that a broker has one watcher
for this process, however many pages are open; when nobody does, nothing runs. What has changed is
not passed on: whoever is woken builds its page anew, from answers that all share.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import objq
from objq_dashboard.source import source

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger("objq_dashboard")

PACE_S: Final = 0.5
"""However much happens, nobody is woken more often."""

AGES_S: Final = 1.0
"""However little happens, everybody is woken that often: ages grow, heartbeats go stale."""

RETRY_S: Final = 5.0
"""After how long a watch that was refused is tried again. Where there is no broker, the watch waits
for one by itself."""


class Hub:
    def __init__(self, alias: str, on_change: Callable[[str], None] = source.expire) -> None:
        self._alias = alias
        self._on_change = on_change
        self._changed = asyncio.Event()
        self._woken: set[asyncio.Event] = set()  # one for each who looks on
        self._tasks: list[asyncio.Task[None]] = []
        self._complained = False

    def __len__(self) -> int:
        return len(self._woken)

    @contextmanager
    def looking_on(self) -> Iterator[asyncio.Event]:
        """Give an event that is set whenever the page may be another; whoever waits clears it."""
        woken = asyncio.Event()
        self._woken.add(woken)
        if len(self._woken) == 1:
            self._start()
        try:
            yield woken
        finally:
            self._woken.discard(woken)
            if not self._woken:
                self._stop()

    def _start(self) -> None:
        self._changed.clear()
        self._tasks = [
            asyncio.create_task(self._watch(), name=f"objq dashboard watch of {self._alias}"),
            asyncio.create_task(self._wake(), name=f"objq dashboard hub of {self._alias}"),
        ]

    def _stop(self) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()

    async def _wake(self) -> None:
        while True:
            await asyncio.sleep(PACE_S)
            try:
                async with asyncio.timeout(AGES_S - PACE_S):
                    await self._changed.wait()
            except TimeoutError:
                pass
            if self._changed.is_set():
                self._changed.clear()
                self._tell_change()
            for woken in self._woken:
                woken.set()

    def _tell_change(self) -> None:
        try:
            self._on_change(self._alias)
        except Exception:  # pages are a second older then, but they go on
            logger.exception("A change was not told.", extra={"event": "dashboard_hub_failed"})

    async def _watch(self) -> None:
        while True:
            try:
                await self._follow()
            except Exception as error:
                self._complain(error)
                self._changed.set()
            await asyncio.sleep(RETRY_S)

    async def _follow(self) -> None:
        client = await objq.aconnect(self._alias)
        events = client.watch()
        try:
            # A snapshot, a delta and the loss of the broker are all reasons to look again.
            async for _ in events:
                self._complained = False
                self._changed.set()
        finally:
            await events.aclose()

    def _complain(self, error: Exception) -> None:
        """Log why there is no watch, once; the pages go on by the second, and say it too."""
        if self._complained:
            return
        self._complained = True
        expected = isinstance(error, objq.ObjqError)
        logger.warning(
            "The dashboard cannot watch the queue of %r: %s",
            self._alias,
            error,
            exc_info=None if expected else error,
            extra={"event": "dashboard_watch_failed"},
        )


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Hub]] = WeakKeyDictionary()


def hub_of(alias: str) -> Hub:
    """Return the hub of a backend, for the loop that runs."""
    hubs = _hubs.setdefault(asyncio.get_running_loop(), {})
    return hubs.setdefault(alias, Hub(alias))
