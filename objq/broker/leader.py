"""The leader's service: takes requests, commits them in groups, answers what is durable.

A request that changes something waits in the inbox for the next commit; everything that arrives
while one write is in flight goes into the next (group commit). `objq.broker.batch` says what a commit
does, `objq.broker.lookups` how requests that change nothing are answered.

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
from objq.broker.inbox import OUTCOMES, Entry, Inbox, refuse, tokens_of, unknown
from objq.broker.leases import Leases
from objq.broker.lookups import Lookups
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
    """One leadership, of the broker and epoch that `document`, the take-over's commit, names.

    `wait_s`: the heartbeat timeout that held before the take-over, where that was larger (S5).
    """

    def __init__(
        self, committer: Committer, document: Document, clock: Clock, ids: Ids, *, wait_s: float
    ) -> None:
        assert document.broker is not None
        self.ended = False
        self.timeout_s = document.settings.heartbeat_timeout_s
        self.ttl_s = document.settings.broker_ttl_s
        self._broker_id = document.broker.id
        self._committer = committer
        self._clock = clock
        self._ids = ids
        self._wake = asyncio.Event()
        self._inbox = Inbox(self._wake.set)
        self._waiters = Waiters()
        self._leases = Leases(self.timeout_s)
        self._lookups = Lookups(committer, self._leases, clock)
        self._group = Group(
            self._broker_id, document.epoch, clock, ids.token, self._leases, self._waiters
        )
        now = clock.monotonic()
        self._leases.keep(document.claims, now)
        self._leases.restart(now, wait_s)
        self._batch: Batch | None = None
        self._draining = False
        self._serve_after = float("-inf")
        self._look_every_s = self._draw_look_every_s()
        self._beats_checked = now
        self._answered = 0
        self._answered_at = now
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
            self._lookups.ask(op, future)
        elif isinstance(op, ops.Hello):
            refuse(future, Invalid("hello is the first request on a socket and comes once"))
        else:
            try:
                self._admit(op, future)
            except ObjqError as error:
                refuse(future, error)
        return future

    def refusal(self) -> ObjqError | None:
        """Return why nothing can be answered now, or None (S2, S4, S14)."""
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
        if refusal is not None:
            self._refuse_all(refusal)

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
        """Answer what waits with Unknown (or `error`), and whatever comes with NotBroker."""
        self.ended = True
        self._committer.unhook()
        self._refuse_all(error)

    def _refuse_all(self, error: ObjqError | None) -> None:
        batch = self._batch.everyone() if self._batch else []
        for entry in [*self._inbox.entries(), *batch, *self._waiters.entries()]:
            entry.refuse(error or unknown(entry.op))
        self._lookups.refuse(error or Unknown("the broker ceased to lead"))

    def _admit(self, op: ops.Change, future: asyncio.Future[ops.Answer]) -> None:
        if self._draining and not isinstance(op, OUTCOMES):
            raise NotBroker("this broker is stopping")
        if isinstance(op, ops.Push) and self._is_full():
            raise QueueFull("the store takes no larger document", retry_after_s=5.0)
        retry_after_s = max(MIN_RETRY_AFTER_S, 2 * self._committer.pace.write_s)
        deadline = None
        if isinstance(op, ops.TakeClaim) and op.wait > 0:
            wait_s = min(op.wait, self.timeout_s / CLAIM_WAIT_SHARE)
            deadline = asyncio.get_running_loop().time() + wait_s
        self._inbox.admit(op, future, len(self._waiters), retry_after_s, deadline)

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

    def _is_full(self) -> bool:
        refused = self._committer.refused_bytes
        return refused is not None and self._committer.size_bytes > refused * FULL_SHARE

    # --- the loop ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve until drained. Raises Deposed, and Closed when the committer is closed."""
        while not (self._draining and not self._inbox):
            await self._wait()
            await self._gather()
            if self._look_due_in_s(self._clock.monotonic()) <= 0:
                await self._look()
            await self._commit(Batch(self._inbox.take()))
            self._lookups.answer()

    async def _wait(self) -> None:
        self._wake.clear()
        delay_s = self._next_event_in_s(self._clock.monotonic())
        if self._inbox or self._draining or delay_s <= 0:
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), delay_s)

    def _next_event_in_s(self, now: float) -> float:
        delays_s = [self._look_due_in_s(now)]
        if (silence := self._leases.next_silence()) is not None:
            delays_s.append(silence - now)
        if self._group.heard:
            delays_s.append(self._beats_checked + self.timeout_s / 16 - now)
        document = self._committer.document
        if self._waiters and document and (due := document.next_due()) is not None:
            delays_s.append((due - self._clock.wall_ms()) / 1000)
        return min(delays_s)

    def _look_due_in_s(self, now: float) -> float:
        confirmed_at = self._committer.confirmed_at
        return 0.0 if confirmed_at < self._serve_after else confirmed_at + self._look_every_s - now

    def _draw_look_every_s(self) -> float:
        return self._ids.jitter(min(self.ttl_s / 4, self.timeout_s / 8))

    async def _gather(self) -> None:
        """Wait for the store's pace, and for the followers of several requests just answered."""
        window_s = min(GATHER_MOST_S, self._committer.pace.write_s * GATHER_SHARE)
        left_s = self._answered_at + window_s - self._clock.monotonic()
        if self._answered > 1 and self._inbox:
            await self._inbox.gather(self._answered, left_s)
        self._answered = 0
        while self._inbox and (pace_s := self._committer.pace.delay(self._clock.monotonic())) > 0:
            look_s = self._look_due_in_s(self._clock.monotonic())
            if look_s > 0:
                await self._committer.reader.sleep(min(pace_s, look_s))
            else:
                await self._look()

    async def _look(self) -> None:
        """Read the document: who leads, what was pushed directly, and is the store there?"""
        await self._committer.refresh()
        self._look_every_s = self._draw_look_every_s()

    async def _commit(self, batch: Batch) -> None:
        self._batch = batch
        self._beats_checked = self._clock.monotonic()
        while (document := await self._try(batch)) is None:
            pass
        self._batch = None
        self._group.committed(batch)
        self._answer(batch, document)

    async def _try(self, batch: Batch) -> Document | None:
        """Commit the batch; return None if some of it had to be taken out, for another try."""
        try:
            return await self._committer.transact(lambda document: self._run(batch, document))
        except Poisoned as poisoned:
            self._take_out(batch, poisoned.entries)
        except TooLarge as error:
            log.error("%s", error, extra={"event": "document_too_large"})
            if not batch.lighten(error):
                self._take_out(batch, batch.entries)
                await self._committer.reader.sleep(self._committer.pace.fail(error))
        return None

    def _run(self, batch: Batch, document: Document) -> bool:
        # A gap longer than this between two runs is a pause or an outage, not time that was led.
        longest_s = self.ttl_s + self.timeout_s
        may_expire = self._committer.confirmed_at >= self._serve_after
        return self._group.run(batch, document, may_expire=may_expire, longest_s=longest_s)

    def _take_out(self, batch: Batch, entries: list[Entry]) -> None:
        for entry in entries:
            self._waiters.discard(entry)
            entry.refuse(unknown(entry.op))
        batch.entries = [entry for entry in batch.entries if entry not in entries]

    def _answer(self, batch: Batch, document: Document) -> None:
        self._answered_at = now = self._clock.monotonic()
        for index, entry in enumerate(batch.everyone()):
            outcome = entry.outcome
            if isinstance(outcome, ObjqError):
                entry.refuse(outcome)
                continue
            if outcome is None:
                continue  # a claim that waits, or that nobody waits for
            if isinstance(outcome, ops.Granted):
                for grant in outcome.jobs:
                    self._leases.hear(grant.token, now)
            if entry.changed:
                position = (document.epoch, document.seq, index)
                outcome = msgspec.structs.replace(outcome, position=position)
            entry.answer(outcome)
            self._answered += 1

    # --- what the committer tells ------------------------------------------------------------------

    def _confirmed(self, before: float, now: float) -> None:
        # After an outage, too, silence proves nothing: nobody's heartbeat was answered (S5).
        if now - before > self.timeout_s / 2 or before < self._serve_after <= now:
            self._leases.restart(self._clock.monotonic())

    def _adopted(self, document: Document) -> None:
        self._leases.keep(document.claims, self._clock.monotonic())
        if document.broker is None or document.broker.id != self._broker_id:
            self.ended = True  # nobody is served from here on; `run` raises Deposed in a moment
