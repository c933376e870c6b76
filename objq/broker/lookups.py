"""Requests that change nothing: `get`, `stats`, `list` …, and the answer to a heartbeat.

They are answered from the confirmed document only: at once if no write is in flight, else after
it. The one exception is a heartbeat with nothing but good news, which is answered from memory even
while a write is in flight. Bad news waits: "lost" must not be told of a claim whose end may yet
prove not to be durable, nor "cancel" of a cancellation.

Overviews take milliseconds each. So a few are answered per turn of the loop and the others wait,
and beyond `MAX_OVERVIEWS` they are refused: nobody who only looks holds up those who work."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Final, NamedTuple

from objq.broker.answering import refuse
from objq.broker.commit import Committer
from objq.broker.history import History
from objq.broker.inbox import size_of
from objq.broker.leases import Leases
from objq.broker.roster import Roster
from objq.broker.watchers import Watcher, Watchers
from objq.clock import Clock
from objq.core import ops
from objq.core.claiming import beaten
from objq.core.document import Document
from objq.core.listing import Listing
from objq.core.statistics import statistics
from objq.errors import ObjqError, Overloaded, TooLarge, Unknown

logger = logging.getLogger("objq.broker")

MAX_WAITING: Final = 20_000
MAX_WAITING_BYTES: Final = 32 * 1024 * 1024
"""Beyond either, a `get` that has to wait for the write in flight is refused; a heartbeat never."""

MAX_OVERVIEWS: Final = 100
OVERVIEWS_PER_TURN: Final = 4

MAX_JOBS_BYTES: Final = 4 * 1024 * 1024
"""Of the jobs in one answer to `get`: an answer has to fit a socket's buffers."""

FORGET_AFTER_S: Final = 60.0
"""What makes `list` fast takes memory, which is given back when nobody has listed for so long."""

RETRY_AFTER_S: Final = 1.0


class _Asked(NamedTuple):
    op: ops.Lookup | ops.Heartbeat
    future: asyncio.Future[ops.Answer]
    watcher: Watcher | None = None


class Lookups:
    def __init__(
        self,
        committer: Committer,
        leases: Leases,
        clock: Clock,
        *,
        roster: Roster,
        history: History,
        watchers: Watchers,
    ) -> None:
        self._committer = committer
        self._leases = leases
        self._clock = clock
        self._roster = roster
        self._history = history
        self._watchers = watchers
        self._listing = Listing()
        self._listed_at = float("-inf")
        self._waiting: list[_Asked] = []
        self._waiting_bytes = 0
        self._overviews: deque[_Asked] = deque()
        self._going_on: asyncio.Handle | None = None

    def ask(
        self,
        op: ops.Lookup | ops.Heartbeat,
        future: asyncio.Future[ops.Answer],
        watcher: Watcher | None = None,
    ) -> None:
        """Answer now if that may be, else when `answer` is called after the write in flight."""
        document = self._committer.document
        if isinstance(op, ops.Heartbeat) and document is not None:
            answer = beaten(document, op)
            if not (answer.lost or answer.cancel):
                future.set_result(answer)
                return
        if not isinstance(op, (ops.Get, ops.Heartbeat)):
            self._ask_overview(_Asked(op, future, watcher))
        elif self._is_crowded() and isinstance(op, ops.Get):
            refuse(future, _overloaded("this"))
        else:
            self._waiting.append(_Asked(op, future))
            self._waiting_bytes += size_of(op)
            self._answer_waiting()

    def answer(self) -> None:
        """Answer what waits if the document in memory is the confirmed one."""
        self._answer_waiting()
        if self._overviews and self._going_on is None:
            self._answer_overviews()

    def _is_crowded(self) -> bool:
        return len(self._waiting) >= MAX_WAITING or self._waiting_bytes >= MAX_WAITING_BYTES

    def _take_waiting(self) -> list[_Asked]:
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        return waiting

    def _ask_overview(self, asked: _Asked) -> None:
        if len(self._overviews) >= MAX_OVERVIEWS:
            refuse(asked.future, _overloaded("an overview"))
            return
        self._overviews.append(asked)
        if self._going_on is None:
            self._going_on = asyncio.get_running_loop().call_soon(self._answer_overviews)

    def _answer_waiting(self) -> None:
        document = self._committer.settled
        if document is None:
            return
        for asked in self._take_waiting():
            self._answer_one(document, asked)

    def _answer_overviews(self) -> None:
        self._going_on = None
        document = self._committer.settled
        if document is None:
            return  # `answer` is called after the write in flight
        for _ in range(min(OVERVIEWS_PER_TURN, len(self._overviews))):
            self._answer_one(document, self._overviews.popleft())
        if self._overviews:
            self._going_on = asyncio.get_running_loop().call_soon(self._answer_overviews)

    def refuse(self, error: ObjqError) -> None:
        waiting = [*self._take_waiting(), *self._overviews]
        self._overviews.clear()
        for asked in waiting:
            refuse(asked.future, error)

    def tidy(self) -> None:
        """Give memory back that is not needed any more; to be called every now and then."""
        if self._clock.monotonic() - self._listed_at > FORGET_AFTER_S:
            self._listing.forget()

    def _answer_one(self, document: Document, asked: _Asked) -> None:
        op, future, watcher = asked
        if future.done():
            return
        try:
            future.set_result(self._look_up(document, op))
            if watcher is not None:
                self._watchers.add(watcher, document)
        except ObjqError as error:
            refuse(future, error)
        except Exception:
            logger.exception(
                "Request %s failed.", ops.op_name(op), extra={"event": "request_failed"}
            )
            refuse(future, Unknown(f"{ops.op_name(op)} failed in the broker; see its log."))

    def _look_up(self, document: Document, op: ops.Lookup | ops.Heartbeat) -> ops.Answer:
        match op:
            case ops.Get():
                return _jobs(document, op)
            case ops.Heartbeat():
                return beaten(document, op)
            case ops.ListJobs():
                self._listed_at = self._clock.monotonic()
                return self._listing.page(document, op, self._heard_ago_s)
            case ops.Workers():
                return self._roster.look(document, self._leases)
            case ops.History():
                return self._history.answer()
            case ops.Watch():
                self._watchers.check_room()
        return statistics(document, self._heard_ago_s)

    def _heard_ago_s(self, token: str) -> float | None:
        return self._leases.heard_ago_s(token, self._clock.monotonic())


def _jobs(document: Document, op: ops.Get) -> ops.Jobs:
    found = (document.find(job_id) for job_id in op.ids)
    size_bytes = sum(len(job.raw) for job in found if job is not None)
    if size_bytes > MAX_JOBS_BYTES and len(op.ids) > 1:
        raise TooLarge(
            f"These {len(op.ids)} jobs have {size_bytes:,} bytes and an answer at most "
            f"{MAX_JOBS_BYTES:,}: ask for fewer at once."
        )
    # The version, so that no session sees the queue go back in time (S11).
    version = (document.epoch, document.seq, 0)
    return ops.Jobs(position=version, jobs=document.views(op.ids))


def _overloaded(what: str) -> Overloaded:
    return Overloaded(
        f"More requests wait for {what} than can be answered soon.", retry_after_s=RETRY_AFTER_S
    )
