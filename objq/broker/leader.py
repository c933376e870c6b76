"""The leader's service: takes requests, commits them in groups, answers what is durable.

A request that changes something waits in the inbox for the next commit; everything that arrives
while one write is in flight goes into the next (group commit). Reads are answered from the confirmed
document: at once, or after the write in flight. Heartbeats are answered from memory at once, except
bad news ("lost", "cancel"), which is told only from a confirmed document.

`run` is the only task. It sleeps until there is something to do: requests, a claim that may have
fallen silent, heartbeats to write down, a scheduled job that somebody waits for, or the time to look
at the store, which an idle leader does `BROKER_TTL`/4 apart to notice direct pushes and challenges
and to confirm that it still leads (S2). Nothing to do means no write.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Final

import msgspec

from objq.broker.batch import Batch, Group, Poisoned
from objq.broker.commit import Committer
from objq.broker.inbox import OUTCOMES, Entry, Inbox, refuse, request_ids, tokens_of
from objq.broker.leases import Leases
from objq.broker.waiters import Waiters
from objq.clock import Clock
from objq.core import ops
from objq.core.document import Document
from objq.errors import Invalid, NotBroker, ObjqError, QueueFull, Unavailable, Unknown
from objq.ids import Ids
from objq.store.base import TooLarge

log = logging.getLogger("objq.broker")

GATHER_SHARE: Final = 0.05
"""Of the time of a write: how long to wait for the followers of requests just answered."""

GATHER_MOST_S: Final = 0.05
CLAIM_WAIT_SHARE: Final = 4
"""A claim waits at most one part in this many of the heartbeat timeout (S2)."""

FULL_SHARE: Final = 0.9
"""After the store refused a document as too large, pushes wait until it is this much smaller."""

MIN_RETRY_AFTER_S: Final = 0.1


class Leader:
    """One leadership. `document` is the one confirmed by the take-over, led by `broker_id`.

    `wait_s`: the heartbeat timeout of the leader before, where that was larger (S5).
    """

    def __init__(
        self,
        committer: Committer,
        document: Document,
        clock: Clock,
        ids: Ids,
        *,
        wait_s: float,
    ) -> None:
        assert document.broker is not None
        settings = document.settings
        self.broker_id = document.broker.id
        self.epoch = document.epoch
        self.ended = False
        self.timeout_s = settings.heartbeat_timeout_s
        self.ttl_s = settings.broker_ttl_s
        self.pause_limit_s = min(self.timeout_s / 4, self.ttl_s / 2)
        self._committer = committer
        self._clock = clock
        self._ids = ids
        self._wake = asyncio.Event()
        self._inbox = Inbox(self._wake.set)
        self._waiters = Waiters()
        self._leases = Leases(self.timeout_s)
        now = clock.monotonic()
        self._leases.keep(document.claims, now)
        self._leases.restart(now, wait_s)
        self._group = Group(
            self.broker_id, self.epoch, clock, ids.token, self._leases, self._waiters
        )
        self._batch: Batch | None = None
        self._reads: list[tuple[ops.Op, asyncio.Future[ops.Answer]]] = []
        self._read_every_s = self._jittered_read()
        self._beats_checked = now
        self._serve_after = float("-inf")
        self._draining = False
        self._answered = 0
        self._answered_at = now
        self._too_large_bytes: int | None = None
        self._last_bytes = 0
        committer.on_confirmed = self._confirmed
        committer.on_adopt = self._adopted

    # --- requests ----------------------------------------------------------------------------------

    def submit(self, op: ops.Request) -> asyncio.Future[ops.Answer]:
        """Return a future of the answer, or of an ObjqError. Cancel it when nobody waits any more."""
        future: asyncio.Future[ops.Answer] = asyncio.get_running_loop().create_future()
        self._hear(op)
        refusal = self.refusal()
        if refusal is not None:
            refuse(future, refusal)
        elif isinstance(op, (ops.Get, ops.Stats, ops.Heartbeat)):
            self._read(op, future)
        elif isinstance(op, ops.Hello):
            refuse(future, Invalid("hello is answered by the socket, once"))
        else:
            self._admit(op, future)
        return future

    def refusal(self) -> ObjqError | None:
        """Return why nothing can be answered now, or None (S2, S14)."""
        if self.ended:
            return NotBroker("this broker does not lead any more")
        if self._committer.trouble is not None:
            return Unavailable(self._committer.trouble)
        confirmed_at = self._committer.confirmed_at
        if confirmed_at < self._serve_after:
            return Unavailable("this broker was paused and has to read the document first")
        if self._clock.monotonic() - confirmed_at > self.timeout_s / 2:
            return Unavailable("this broker cannot reach the store")
        return None

    def check(self) -> None:
        """Answer what waits if nothing can be answered now; to be called every now and then."""
        refusal = self.refusal()
        if refusal is None:
            return
        batch = self._batch.everyone() if self._batch else []
        for entry in [*self._inbox.entries(), *batch]:
            entry.refuse(refusal)
        self._waiters.refuse_all(refusal)
        self._refuse_reads(refusal)

    def pause(self, now: float) -> None:
        """Note that this process was paused until `now`: serve nobody before a fresh read (S4, S5)."""
        self._serve_after = now
        self._leases.restart(now)
        self.check()
        self._wake.set()

    def drain(self) -> None:
        """Take no new work; `run` returns when what is here is committed and answered."""
        self._draining = True
        self._waiters.send_home()
        self._wake.set()

    def end(self, error: ObjqError | None = None) -> None:
        """Answer everything that waits with Unknown (or `error`), and all that comes with NotBroker."""
        self.ended = True
        batch = self._batch.everyone() if self._batch else []
        for entry in [*self._inbox.take(), *batch, *self._waiters.entries()]:
            entry.refuse(error or _unknown(entry.op))
        self._refuse_reads(error or Unknown("the broker ceased to lead"))

    def _admit(self, op: ops.Change, future: asyncio.Future[ops.Answer]) -> None:
        if self._draining and not isinstance(op, OUTCOMES):
            refuse(future, NotBroker("this broker is stopping"))
            return
        if isinstance(op, ops.Push) and self._is_full():
            refuse(future, QueueFull("the store takes no larger document", retry_after_s=5.0))
            return
        retry_after_s = max(MIN_RETRY_AFTER_S, 2 * self._committer.pace.write_s)
        try:
            entry = self._inbox.admit(op, future, len(self._waiters), retry_after_s)
        except ObjqError as error:
            refuse(future, error)
            return
        if isinstance(op, ops.TakeClaim) and op.wait > 0:
            wait_s = min(op.wait, self.timeout_s / CLAIM_WAIT_SHARE)
            entry.deadline = asyncio.get_running_loop().time() + wait_s

    def _hear(self, op: ops.Request) -> None:
        now = self._clock.monotonic()
        document = self._committer.document
        started = set(op.started) if isinstance(op, ops.Heartbeat) else ()
        for token in tokens_of(op):
            if token in self._leases or (document is not None and token in document.claims):
                self._leases.hear(token, now)
                self._group.heard.add(token)
                if token in started:
                    self._group.started.add(token)

    # --- reads and heartbeats ----------------------------------------------------------------------

    def _read(self, op: ops.Op, future: asyncio.Future[ops.Answer]) -> None:
        document = self._committer.document
        if isinstance(op, ops.Heartbeat) and document is not None:
            beaten = _beaten(document, op)
            if self._committer.settled or not (beaten.lost or beaten.cancel):
                future.set_result(beaten)
                return
        self._reads.append((op, future))
        self._answer_reads()

    def _answer_reads(self) -> None:
        document = self._committer.settled
        if document is None or self.ended:
            return
        reads, self._reads = self._reads, []
        for op, future in reads:
            if not future.done():
                future.set_result(self._look_up(document, op))

    def _look_up(self, document: Document, op: ops.Op) -> ops.Answer:
        if isinstance(op, ops.Get):
            return ops.Jobs(jobs=document.views(op.ids))
        if isinstance(op, ops.Heartbeat):
            return _beaten(document, op)
        now = self._clock.monotonic()
        return document.statistics(lambda token: self._leases.heard_ago_s(token, now))

    def _refuse_reads(self, error: ObjqError) -> None:
        reads, self._reads = self._reads, []
        for _, future in reads:
            refuse(future, error)

    # --- the loop ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve until drained. Raises Deposed, and Closed when the committer is closed."""
        while not (self._draining and not self._inbox):
            await self._wait()
            await self._gather()
            if self._look_due_in(self._clock.monotonic()) <= 0:
                await self._committer.refresh()
                self._read_every_s = self._jittered_read()
            await self._commit(Batch(self._inbox.take()))
            self._answer_reads()
        self._waiters.send_home()

    async def _wait(self) -> None:
        if not self._inbox:
            self._wake.clear()
            delay_s = self._next_event_in(self._clock.monotonic())
            if delay_s > 0 and not self._draining:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), delay_s)
        self._wake.clear()

    def _next_event_in(self, now: float) -> float:
        delays = [self._look_due_in(now), self.ttl_s]
        if (silence := self._leases.next_silence()) is not None:
            delays.append(silence - now)
        if self._group.heard:
            delays.append(self._beats_checked + self.timeout_s / 16 - now)
        document = self._committer.document
        if self._waiters and document and (due := document.next_due()) is not None:
            delays.append((due - self._clock.wall_ms()) / 1000)
        return max(0.0, min(delays))

    def _look_due_in(self, now: float) -> float:
        if self._committer.confirmed_at < self._serve_after:
            return 0.0
        return self._committer.confirmed_at + self._read_every_s - now

    def _jittered_read(self) -> float:
        return self._ids.jitter(min(self.ttl_s / 4, self.timeout_s / 8))

    async def _gather(self) -> None:
        """Wait a moment for the followers of requests that were just answered; never for one."""
        window_s = min(GATHER_MOST_S, self._committer.pace.write_s * GATHER_SHARE)
        left_s = self._answered_at + window_s - self._clock.monotonic()
        if self._answered > 1:
            await self._inbox.gather(self._answered, left_s)
        self._answered = 0
        if self._inbox:
            await self._committer.reader.sleep(self._committer.pace.delay(self._clock.monotonic()))

    async def _commit(self, batch: Batch) -> None:
        self._batch = batch
        self._beats_checked = self._clock.monotonic()
        while True:
            try:
                document = await self._committer.transact(lambda document: self._run(batch, document))
            except Poisoned as poisoned:
                for entry in poisoned.entries:
                    self._waiters.discard(entry)
                    entry.refuse(_unknown(entry.op))
                    with contextlib.suppress(ValueError):
                        batch.entries.remove(entry)
            except TooLarge as error:
                await self._too_large(batch, error)
            else:
                break
        self._last_bytes = self._committer.last_bytes
        self._group.committed(batch)
        self._batch = None
        self._answer(batch, document)

    def _run(self, batch: Batch, document: Document) -> bool:
        may_expire = self._committer.confirmed_at >= self._serve_after
        return self._group.run(
            batch, document, may_expire=may_expire, longest_s=self.pause_limit_s + self.ttl_s
        )

    def _answer(self, batch: Batch, document: Document) -> None:
        now = self._clock.monotonic()
        for index, entry in enumerate(batch.everyone()):
            outcome = entry.outcome
            if isinstance(outcome, ObjqError):
                entry.refuse(outcome)
            elif outcome is not None:
                if isinstance(outcome, ops.Granted):
                    for grant in outcome.jobs:
                        self._leases.hear(grant.token, now)
                if entry.changed:
                    position = (document.epoch, document.seq, index)
                    outcome = msgspec.structs.replace(outcome, position=position)
                entry.answer(outcome)
                self._answered += 1
        self._answered_at = now

    async def _too_large(self, batch: Batch, error: TooLarge) -> None:
        log.error("%s", error, extra={"event": "document_too_large"})
        self._too_large_bytes = self._last_bytes
        if batch.lighten(error):
            return
        for entry in batch.entries:
            entry.refuse(Unavailable(f"the store takes no document of this size: {error}"))
        batch.entries = []
        await self._committer.reader.sleep(self._committer.pace.fail(error))

    def _is_full(self) -> bool:
        limit = self._too_large_bytes
        return limit is not None and self._last_bytes > limit * FULL_SHARE

    # --- what the committer tells ------------------------------------------------------------------

    def _confirmed(self, before: float, now: float) -> None:
        # After an outage, too, silence proves nothing: nobody's heartbeat could be answered (S5).
        if now - before > self.timeout_s / 2 or before < self._serve_after <= now:
            self._leases.restart(self._clock.monotonic())

    def _adopted(self, document: Document) -> None:
        self._leases.keep(document.claims, self._clock.monotonic())
        if document.broker is None or document.broker.id != self.broker_id:
            self.ended = True  # from this moment on; `run` raises Deposed in a moment


def _beaten(document: Document, op: ops.Heartbeat) -> ops.Beaten:
    named = dict.fromkeys((*op.tokens, *op.started))
    return ops.Beaten(
        lost=tuple(token for token in named if token not in document.claims),
        cancel=tuple(
            token
            for token in named
            if (job := document.claims.get(token)) is not None and job.cancel_requested
        ),
    )


def _unknown(op: ops.Op) -> Unknown:
    return Unknown(
        "the broker could not find out whether this was applied; repeat it with the same ids",
        ids=request_ids(op),
    )


__all__ = ["Entry", "Leader"]
