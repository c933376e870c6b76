"""Requests that change nothing: `get`, `stats`, and the answer to a heartbeat.

They are answered from the confirmed document only: at once if no write is in flight, else after
it. The one exception is a heartbeat with nothing but good news, which is answered from memory even
while a write is in flight. Bad news waits: "lost" must not be told of a claim whose end may yet
prove not to be durable, nor "cancel" of a cancellation."""

from __future__ import annotations

import asyncio
import logging

from objq.broker.commit import Committer
from objq.broker.inbox import refuse
from objq.broker.leases import Leases
from objq.clock import Clock
from objq.core import ops
from objq.core.claiming import beaten
from objq.core.document import Document
from objq.errors import ObjqError, Unknown

log = logging.getLogger("objq.broker")

Lookup = ops.Get | ops.Stats | ops.Heartbeat


class Lookups:
    def __init__(self, committer: Committer, leases: Leases, clock: Clock) -> None:
        self._committer = committer
        self._leases = leases
        self._clock = clock
        self._waiting: list[tuple[Lookup, asyncio.Future[ops.Answer]]] = []

    def ask(self, op: Lookup, future: asyncio.Future[ops.Answer]) -> None:
        """Answer now if that may be, else when `answer` is called after the write in flight."""
        document = self._committer.document
        if isinstance(op, ops.Heartbeat) and document is not None:
            answer = beaten(document, op)
            if not (answer.lost or answer.cancel):
                future.set_result(answer)
                return
        self._waiting.append((op, future))
        self.answer()

    def answer(self) -> None:
        """Answer everybody if the document in memory is the confirmed one."""
        document = self._committer.settled
        if document is None:
            return
        waiting, self._waiting = self._waiting, []
        for op, future in waiting:
            if not future.done():
                self._answer_one(document, op, future)

    def refuse(self, error: ObjqError) -> None:
        waiting, self._waiting = self._waiting, []
        for _, future in waiting:
            refuse(future, error)

    def _answer_one(
        self, document: Document, op: Lookup, future: asyncio.Future[ops.Answer]
    ) -> None:
        try:
            future.set_result(self._look_up(document, op))
        except Exception:
            log.exception("request %s failed", ops.op_name(op), extra={"event": "request_failed"})
            refuse(future, Unknown(f"{ops.op_name(op)} failed in the broker; see its log"))

    def _look_up(self, document: Document, op: Lookup) -> ops.Answer:
        if isinstance(op, ops.Get):
            # The version, so that no session sees the queue go back in time (S11).
            version = (document.epoch, document.seq, 0)
            return ops.Jobs(position=version, jobs=document.views(op.ids))
        if isinstance(op, ops.Heartbeat):
            return beaten(document, op)
        now = self._clock.monotonic()
        return document.statistics(lambda token: self._leases.heard_ago_s(token, now))
