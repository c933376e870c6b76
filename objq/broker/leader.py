"""The leader's service: takes requests, commits them in groups, answers what is durable.

A request that changes something waits in the inbox for the next commit; everything that arrives
while one write is in flight goes into the next (group commit). `objq.broker.batch` says what a
commit does, `objq.broker.lookups` how requests that change nothing are answered.

`run` is the only task. It sleeps until there is something to do: requests, a claim that may have
fallen silent, heartbeats to write down, a scheduled job that somebody waits for, or the time to
look at the store, which an idle leader does `BROKER_TTL`/4 apart to notice direct pushes and
challenges and to confirm that it still leads (S2). Nothing to do means no write."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final

from objq.broker.answering import Poisoned, placed, refuse
from objq.broker.batch import NOTHING_GRANTED, Batch, Group
from objq.broker.commit import Committer, PerhapsApplied
from objq.broker.company import Company
from objq.broker.confidence import Confidence
from objq.broker.gathering import Gathering
from objq.broker.gauges import Gauges
from objq.broker.history import History
from objq.broker.inbox import Entry, Inbox, unknown
from objq.broker.leases import Leases
from objq.broker.lookups import Lookups
from objq.broker.reading import SHORTEST_WAIT_S
from objq.broker.rhythm import Rhythm
from objq.broker.room import Load, Room, too_large
from objq.broker.roster import Roster
from objq.broker.timing import note_commit
from objq.broker.waiters import Waiters
from objq.broker.watchers import Watcher, Watchers
from objq.clock import Clock
from objq.core import ops
from objq.core.document import Document
from objq.core.leading import settle
from objq.errors import NotBroker, ObjqError, Unavailable, Unknown
from objq.ids import Ids
from objq.store.base import TooLarge

logger = logging.getLogger("objq.broker")

MIN_RETRY_AFTER_S: Final = 0.1


class Leader:
    """One leadership, of the broker and epoch that `document`, the take-over's commit, names.

    `settings`: this leader's own, which `document` holds but for a lower heartbeat timeout; that is
    written once the one before has been led, since until then somebody may keep to it (S5).
    `wait_s`: the heartbeat timeout that held before the take-over, where that was larger (S5).
    `notice_pause` calls `pause` if this process was paused.
    """

    def __init__(
        self,
        committer: Committer,
        document: Document,
        settings: ops.DocumentSettings,
        clock: Clock,
        ids: Ids,
        *,
        wait_s: float,
        notice_pause: Callable[[], object],
        roster: Roster,
        company: Company,
    ) -> None:
        assert document.broker is not None
        self._settings = settings
        broker_id = document.broker.id
        self._committer = committer
        self._clock = clock
        self._notice_pause = notice_pause
        self._wake = asyncio.Event()
        self._inbox = Inbox(self._wake.set)
        self._gathering = Gathering(self._inbox, clock)
        self._waiters = Waiters(self._place)
        self._leases = Leases(document.settings.heartbeat_timeout_s)
        self._history = History(committer, committer.measures, clock, company)
        self._watchers = Watchers(committer, clock)
        self._lookups = Lookups(
            committer,
            self._leases,
            clock,
            roster=roster,
            history=self._history,
            watchers=self._watchers,
        )
        self._room = Room(committer, clock)
        self._confidence = Confidence(broker_id, settings.trust_s, committer, self._leases, clock)
        self._rhythm = Rhythm(settings, committer, self._confidence, self._leases, clock, ids)
        self._group = Group(
            broker_id, document.epoch, clock, ids.token, self._leases, self._waiters
        )
        now = clock.monotonic()
        self._leases.keep(document.claims, now)
        self._leases.restart(now, wait_s)
        self._batch: Batch | None = None
        self._draining = False

    # --- requests --------------------------------------------------------------------------------

    def submit(self, op: ops.Asked) -> asyncio.Future[ops.Answer]:
        """Return a future of the answer, or of an ObjqError; cancel it when nobody waits."""
        future: asyncio.Future[ops.Answer] = asyncio.get_running_loop().create_future()
        self._hear(op)
        refusal = self.refusal()
        if refusal is not None:
            refuse(future, refusal)
        elif isinstance(op, ops.UNCOMMITTED):
            self._lookups.ask(op, future)
        else:
            try:
                self._admit(op, future)
            except ObjqError as error:
                refuse(future, error)
        return future

    def watch(self, watcher: Watcher) -> asyncio.Future[ops.Answer]:
        """Return a future of a snapshot; from that version on, `watcher` is told of deltas."""
        future: asyncio.Future[ops.Answer] = asyncio.get_running_loop().create_future()
        refusal = self.refusal()
        if refusal is not None:
            refuse(future, refusal)
        else:
            self._lookups.ask(ops.Watch(), future, watcher)
        return future

    def unwatch(self, watcher: Watcher) -> None:
        self._watchers.discard(watcher)

    def gauges(self) -> Gauges:
        return Gauges(
            document=self._committer.document,
            waiting_claims=len(self._waiters),
            waiting_requests=len(self._inbox),
            watchers=len(self._watchers),
            size_bytes=self._committer.size_bytes,
            wall_ms=self._clock.wall_ms(),
        )

    def refusal(self) -> ObjqError | None:
        """Return why nothing can be answered now, or None."""
        return self._confidence.refusal()

    @property
    def ended(self) -> bool:
        return self._confidence.ended

    @property
    def problem(self) -> str | None:
        """Why not everything is taken although the store is reached, for people."""
        return self._room.problem

    def check(self) -> None:
        """Answer what waits if nothing can be answered now; to be called every now and then."""
        refusal = self.refusal()
        if refusal is not None:
            # What is being written may be in the version that another has built upon (S4).
            self._refuse_all(None if self.ended else refusal)
            self._watchers.refuse(refusal)
        self._history.tick()
        self._lookups.tidy()

    def pause(self, now: float) -> None:
        """Note a pause until `now`: nobody is served before a fresh read (S4, S5)."""
        self._confidence.pause(now)
        self.check()
        self._wake.set()

    def drain(self) -> None:
        """Take no new work; `run` returns when what is here is committed and answered."""
        self._draining = True
        self._waiters.send_home()
        self._wake.set()

    def end(self, error: ObjqError | None = None) -> None:
        """Answer what waits with Unknown (or `error`), and whatever comes with NotBroker."""
        self._confidence.end()
        self._watchers.end()
        self._refuse_all(error)

    def _refuse_all(self, error: ObjqError | None) -> None:
        batch = self._batch.everyone() if self._batch else []
        for entry in [*self._inbox.entries(), *batch, *self._waiters.entries()]:
            entry.refuse(error or unknown(entry.op))
        self._lookups.refuse(error or Unknown("The broker ceased to lead."))

    def _admit(self, op: ops.Change, future: asyncio.Future[ops.Answer]) -> None:
        if self._draining and not isinstance(op, ops.REPORTS):
            raise NotBroker("This broker is stopping.")
        if isinstance(op, ops.Push) and self._room.is_full():
            raise too_large(op)
        retry_after_s = max(MIN_RETRY_AFTER_S, 2 * self._committer.pace.write_s)
        deadline = None
        if isinstance(op, ops.TakeClaim) and op.wait > 0:
            wait_s = min(op.wait, self._settings.claim_wait_s)
            deadline = asyncio.get_running_loop().time() + wait_s
        self._inbox.admit(op, future, len(self._waiters), retry_after_s, deadline)

    def _hear(self, op: ops.Asked) -> None:
        now = self._clock.monotonic()
        document = self._committer.document
        started = set(op.started) if isinstance(op, ops.Heartbeat) else ()
        for token in ops.tokens_of(op):
            if token in self._leases or (document is not None and token in document.claims):
                self._leases.hear(token, now)
                self._group.heard.add(token)
                if token in started:
                    self._group.started.add(token)

    def _place(self) -> ops.Position | None:
        seen = self._committer.seen
        return (seen.epoch, seen.seq, 0) if seen is not None else None

    # --- the loop --------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve until drained. Raises Deposed, and Closed when the committer is closed."""
        while not (self._draining and not self._inbox):
            await self._wait()
            await self._gather()
            if self._rhythm.look_due_in_s() <= 0:
                await self._look()
            await self._commit(Batch(self._inbox.take(), self._load()))
            self._tell()
        self._waiters.send_home()

    async def _wait(self) -> None:
        self._wake.clear()
        beats = self._load() < Load.REQUESTS
        delay_s = self._rhythm.next_event_in_s(
            heard=beats and bool(self._group.heard),
            may_expire=beats,
            somebody_waits=len(self._waiters) > 0,
        )
        if self._inbox or self._draining or delay_s <= 0:
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), max(delay_s, SHORTEST_WAIT_S))

    async def _gather(self) -> None:
        """Wait for the store's pace, and for the followers of several requests just answered."""
        if self._inbox:
            await self._gathering.wait(self._committer.pace.write_s)
        while self._inbox and (pace_s := self._committer.pace.delay(self._clock.monotonic())) > 0:
            look_s = self._rhythm.look_due_in_s()
            if look_s > 0:
                await self._committer.reader.sleep(min(pace_s, look_s))
            else:
                await self._look()

    async def _look(self) -> None:
        """Read the document: who leads, what was pushed directly, and is the store there?"""
        await self._committer.refresh()
        self._rhythm.looked()

    def _tell(self) -> None:
        """Tell what is confirmed now to those who only look."""
        self._watchers.look()
        self._lookups.answer()

    def _load(self) -> Load:
        return self._room.load(self._committer.document)

    async def _commit(self, batch: Batch) -> None:
        self._batch = batch
        self._rhythm.commit_began()
        self._gathering.commit_began()
        while (document := await self._try(batch)) is None:
            pass
        self._batch = None
        self._inbox.put_back(batch.deferred)
        self._leases.timeout_s = document.settings.heartbeat_timeout_s
        self._group.committed(batch)
        note_commit(self._committer.measures, batch, document)
        self._answer(batch, document)

    async def _try(self, batch: Batch) -> Document | None:
        """Commit the batch; return None if there has to be another try."""
        try:
            return await self._committer.transact(lambda document: self._run(batch, document))
        except Poisoned as poisoned:
            self._take_out(batch, poisoned.entries)
        except TooLarge as error:
            refusal = unknown if isinstance(error, PerhapsApplied) else too_large
            lighter = batch.lighten(refusal)
            self._room.refused(error, batch.load)
            if not lighter:
                return await self._wait_for_room(batch, error)
        return None

    async def _wait_for_room(self, batch: Batch, error: TooLarge) -> Document | None:
        """Let a batch wait of which nothing fits, with what comes meanwhile: it may make room.

        Whoever only looks, or beats, is answered. A leader that stops waits no longer: it returns
        the confirmed document, as after a commit of nothing.
        """
        waiting = batch.everyone()
        batch.entries, batch.deferred = [], []
        if self._draining:
            self._take_out(batch, waiting)
            return await self._committer.refresh()
        for entry in waiting:
            if isinstance(entry.op, ops.TakeClaim):
                entry.refuse(Unavailable(NOTHING_GRANTED))
        self._inbox.put_back(e for e in waiting if not isinstance(e.op, ops.TakeClaim))
        await self._look()
        self._tell()
        await self._committer.reader.sleep(self._committer.pace.fail(error))
        batch.entries = self._inbox.take()
        return None

    def _run(self, batch: Batch, document: Document) -> bool:
        # A gap longer than this between two runs is a pause or an outage, not time that was led.
        longest_s = self._settings.broker_ttl_s + self._settings.heartbeat_timeout_s
        # A reply of the store may be the first thing that is met after a pause. So it is looked for
        # here too, by a later look at the clock than the one by which silence is judged.
        now = self._clock.monotonic()
        self._notice_pause()
        silent_at = None if self._confidence.must_read else now
        if silent_at is not None and self._leases.settled(silent_at):
            settle(document, self._settings)
        return self._group.run(batch, document, silent_at=silent_at, longest_s=longest_s)

    def _take_out(self, batch: Batch, entries: list[Entry]) -> None:
        for entry in entries:
            self._waiters.discard(entry)
            entry.refuse(unknown(entry.op))
        batch.take_out(entries)

    def _answer(self, batch: Batch, document: Document) -> None:
        now, answered = self._clock.monotonic(), 0
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
            entry.answer(placed(outcome, document, index, changed=entry.changed))
            answered += 1
        self._gathering.commit_ended(answered)
