"""Claims that wait for a job, each until its own time is up or its socket is gone.

A waiting claim is served in the commit that makes a job ready. When that commit meets a conflict
its change is run again on another version: `take_back` then restores the claims to their places,
so that the first to come is still the first to be served."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial

from objq.broker.inbox import Entry
from objq.core import ops
from objq.core.document import Document
from objq.core.waiting import WaitingClaims


class Waiters:
    """`place` returns the position to tell a claim for which there was nothing."""

    def __init__(self, place: Callable[[], ops.Position | None]) -> None:
        self._place = place
        self._claims: WaitingClaims[Entry] = WaitingClaims()
        self._timers: dict[Entry, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        return len(self._timers)

    def add(self, entry: Entry) -> None:
        """Let a claim wait until its deadline; then it is answered empty.

        The same claim sent again takes the place of the one that waits, whose socket must be gone.
        """
        assert isinstance(entry.op, ops.TakeClaim)
        assert entry.deadline is not None
        loop = asyncio.get_running_loop()
        self._timers[entry] = loop.call_at(entry.deadline, self._end, entry)
        replaced = self._claims.add(entry, entry.op)
        if replaced is not None:
            self._end(replaced)
        entry.future.add_done_callback(partial(self._gone, entry))

    def discard(self, entry: Entry) -> None:
        """Let a claim wait no longer; one that does not wait is no error."""
        timer = self._timers.pop(entry, None)
        if timer is None:
            return
        timer.cancel()
        self._claims.discard(entry)

    def serve(
        self, document: Document, now: int, mint: Callable[[], str], epoch: int
    ) -> list[Entry]:
        """Grant what is ready to those who wait; return them, with their outcomes set."""
        if not self._timers:
            return []
        served = []
        for entry, outcome in self._claims.serve(document, now, mint=mint, epoch=epoch):
            self.discard(entry)
            entry.outcome = outcome
            entry.changed = isinstance(outcome, ops.Granted) and bool(outcome.jobs)
            served.append(entry)
        return served

    def take_back(self, entries: Iterable[Entry]) -> None:
        """Let claims that a run has served wait again, in their places."""
        waiting = [*self._timers, *(entry for entry in entries if not entry.future.done())]
        for entry in list(self._timers):
            self.discard(entry)
        for entry in sorted(waiting, key=lambda entry: entry.arrival):
            entry.outcome, entry.changed = None, False
            self.add(entry)

    def entries(self) -> list[Entry]:
        return list(self._timers)

    def send_home(self) -> None:
        """Answer every waiting claim empty."""
        for entry in list(self._timers):
            self._end(entry)

    def _end(self, entry: Entry) -> None:
        self.discard(entry)
        entry.answer(ops.Granted(position=self._place()))

    def _gone(self, entry: Entry, future: asyncio.Future[ops.Answer]) -> None:
        self.discard(entry)
