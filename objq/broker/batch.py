"""What one commit of the leader does to the document, in this order:

1. is this broker still the recorded leader? If not, nothing more is ever done under its id (S4)
2. time passes: scheduled jobs become due
3. the requests, in order of arrival; one that fails unexpectedly is taken out and fails alone
4. claims expire whose holders are silent *now*: what was heard meanwhile, and outcomes reported in
   this very batch, win over expiry (S5, S6)
5. waiting claims are served, so that a push is granted in the commit that makes it durable
6. if there is a commit, heartbeats heard since the last one are written down, and records that
   are kept no longer go

Where the store refuses the size of that, `Batch.lighten` leaves out what makes it larger, from the
last of these to the first, until what makes room gets through (S13).

The same batch may run several times, on another version each time (after a conflict). Every run
starts from what was there before the first: outcomes are set anew, and waiting claims are restored.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from objq.broker.answering import Poisoned, refused_again
from objq.broker.inbox import Entry, begun_of
from objq.broker.leases import Leases
from objq.broker.room import Load
from objq.broker.waiters import Waiters
from objq.clock import Clock
from objq.core import ops
from objq.core.claiming import beat, beats_behind
from objq.core.document import Document
from objq.core.ending import Expired, expire
from objq.core.rules import apply, tick, tidy
from objq.errors import ObjqError, Unavailable

logger = logging.getLogger("objq.broker")

NOTHING_GRANTED: Final = "The document is too large for the store to take another claim."


class Deposed(Exception):
    """The document names another leader: this broker's id must never commit again (S4)."""


@dataclass(slots=True)
class Batch:
    """The requests of one commit. `served`: claims that waited and were granted by the last run."""

    entries: list[Entry]
    load: Load = Load.ALL
    served: list[Entry] = field(default_factory=list)
    deferred: list[Entry] = field(default_factory=list)
    """Those that have to wait for the next commit, since they do not fit into this one."""

    ran: bool = False
    expired: list[Expired] = field(default_factory=list)
    beaten: tuple[set[str], set[str]] = field(default_factory=lambda: (set(), set()))

    def everyone(self) -> list[Entry]:
        return [*self.entries, *self.served, *self.deferred]

    def lighten(self, refusal: Callable[[ops.Op], ObjqError]) -> bool:
        """Give up what makes the document larger; return False if nothing such is left.

        The store refused a document of this size: what makes it larger for good is refused, with
        what `refusal` says; then grants wait, and what the leader would write of its own; then the
        heavier half of the requests, again and again, until the lightest is alone. A request that
        changed nothing weighs nothing, and may be the repeat of one that is in: it stays.
        """
        heavy = [entry for entry in self.entries if entry.changed and _grows(entry)]
        if heavy:
            self.take_out(heavy)
            for entry in heavy:
                entry.refuse(refusal(entry.op))
            return True
        if self.load < Load.NO_GRANTS and any(_is_granted(entry) for entry in self.everyone()):
            self.load = Load.NO_GRANTS
            return True
        if self.load < Load.REQUESTS:
            self.load = Load.REQUESTS
            return True
        return self._defer_half()

    def take_out(self, entries: Collection[Entry]) -> None:
        """Let some not be part of this commit."""
        gone = set(entries)
        self.entries = [entry for entry in self.entries if entry not in gone]

    def _defer_half(self) -> bool:
        if len(self.entries) < 2:
            return False
        by_weight = sorted(self.entries, key=_weight)
        heavier = by_weight[len(by_weight) // 2 :]
        self.take_out(heavier)
        for entry in heavier:
            entry.outcome, entry.changed = None, False
        self.deferred = sorted([*self.deferred, *heavier], key=lambda entry: entry.arrival)
        return True


def _grows(entry: Entry) -> bool:
    return isinstance(entry.op, ops.GROWING)


def _is_granted(entry: Entry) -> bool:
    return entry.changed and isinstance(entry.op, ops.TakeClaim)


def _weight(entry: Entry) -> tuple[bool, int]:
    """Return what sorts requests by how much larger they make the document: deletes come first."""
    return not isinstance(entry.op, ops.Delete), entry.size_bytes


class Group:
    """Runs batches for one leadership: broker `broker_id` in `epoch`."""

    def __init__(
        self,
        broker_id: str,
        epoch: int,
        clock: Clock,
        mint: Callable[[], str],
        leases: Leases,
        waiters: Waiters,
    ) -> None:
        self.broker_id = broker_id
        self.epoch = epoch
        self.heard: set[str] = set()
        """Live tokens heard since the last commit."""
        self.started: set[str] = set()
        """Those of them that said that they have begun."""
        self._clock = clock
        self._mint = mint
        self._leases = leases
        self._waiters = waiters
        self._led_until = clock.monotonic()

    def run(
        self, batch: Batch, document: Document, *, silent_at: float | None, longest_s: float
    ) -> bool:
        """Apply the batch; return whether it needs a commit.

        `silent_at`: the time at which silence is judged; None while it proves nothing. `longest_s`:
        time since the last run that counts as led at most, since a pause is not leading. Raises
        Deposed and Poisoned.
        """
        self.require_leadership(document)
        self._restore(batch, document)
        now = self._clock.wall_ms()
        tick(document, now, self._led_ms(longest_s))
        silent = self._silent(batch, document, silent_at)
        beats = batch.load < Load.REQUESTS
        if beats and (silent or any(isinstance(entry.op, ops.REPORTS) for entry in batch.entries)):
            beat(document, (), self.started, now)  # whether an attempt had started matters to both
        behind = beats and beats_behind(document, self.heard, now)
        for entry in batch.entries:
            self._apply(entry, batch, document, now)
        self._expire(batch, document, silent, now)
        if batch.load < Load.NO_GRANTS:
            self._serve(batch, document, now)
        wanted = document.dirty or behind or document.challenge is not None
        if wanted and beats:
            batch.beaten = (set(self.heard), set(self.started))
            beat(document, self.heard, self.started, now)
        if wanted:
            tidy(document)
        return wanted

    def require_leadership(self, document: Document) -> None:
        broker = document.broker
        if broker is None or broker.id != self.broker_id or document.epoch != self.epoch:
            raise Deposed(
                f"Epoch {document.epoch}: {broker.url if broker else 'nobody'} leads now."
            )

    def committed(self, batch: Batch) -> None:
        """Forget the heartbeats that the commit of this batch has written down."""
        heard, started = batch.beaten
        self.heard -= heard
        self.started -= started

    def _restore(self, batch: Batch, document: Document) -> None:
        if batch.ran:
            for entry in batch.entries:
                entry.outcome, entry.changed = None, False
                self._waiters.discard(entry)
            # If the version that was written lies beneath this one, the claims that it served hold
            # their jobs: they have to ask, since waiting claims are woken only by jobs to spare.
            holding = {e: None for e in batch.served if e.claim_id in document.claims_by_id}
            self._waiters.take_back(entry for entry in batch.served if entry not in holding)
            batch.entries = [*holding, *batch.entries]
            batch.served = []
        batch.ran = True
        batch.beaten = (set(), set())

    def _led_ms(self, longest_s: float) -> int:
        now = self._clock.monotonic()
        self._led_until = max(self._led_until, now - longest_s)
        led_ms = int((now - self._led_until) * 1000)
        self._led_until += led_ms / 1000
        return led_ms

    def _silent(self, batch: Batch, document: Document, at: float | None) -> list[str]:
        if at is None or batch.load >= Load.REQUESTS:
            return []
        # Whoever repeats a claim in this batch lives, and is about to be told its tokens.
        asking = {entry.claim_id for entry in batch.entries if not entry.future.done()}
        silent = []
        for token in self._leases.silent(at):
            job = document.claims.get(token)
            if job is None or job.claim is None:
                self._leases.forget(token)
            elif job.claim.id not in asking:
                silent.append(token)
        return silent

    def _expire(self, batch: Batch, document: Document, silent: list[str], now: int) -> None:
        batch.expired = expire(document, silent, now)

    def _apply(self, entry: Entry, batch: Batch, document: Document, now: int) -> None:
        if entry.future.done() and not isinstance(entry.op, ops.REPORTS):
            return  # nobody waits for it any more, and nobody was told that it is in
        again, entry.tried = entry.tried, True
        try:
            if isinstance(entry.op, ops.TakeClaim):
                self._make_way(entry, batch, document, now)
            entry.begun = begun_of(document, entry.op)
            entry.outcome, entry.changed = apply(
                document, entry.op, now, mint=self._mint, epoch=self.epoch
            )
        except ObjqError as error:
            entry.outcome = refused_again(error, entry.op) if again else error
        except Exception as error:
            logger.exception(
                "Request %s failed.", ops.op_name(entry.op), extra={"event": "request_failed"}
            )
            raise Poisoned([entry]) from error
        if isinstance(entry.outcome, ops.Granted) and not entry.outcome.jobs:
            self._let_wait(entry)

    def _make_way(self, claim: Entry, batch: Batch, document: Document, now: int) -> None:
        """Serve those who waited before this claim. Raises Unavailable where nothing is granted."""
        if batch.load < Load.NO_GRANTS:
            self._serve(batch, document, now)
        elif claim.claim_id not in document.claims_by_id:  # what it holds, it is told
            raise Unavailable(NOTHING_GRANTED)

    def _let_wait(self, entry: Entry) -> None:
        assert isinstance(entry.op, ops.TakeClaim)
        if entry.deadline is not None:
            entry.outcome = None
            self._waiters.add(entry)

    def _serve(self, batch: Batch, document: Document, now: int) -> None:
        try:
            served = self._waiters.serve(document, now, self._mint, self.epoch)
        except Exception as error:
            logger.exception("Waiting claims failed.", extra={"event": "request_failed"})
            raise Poisoned(self._waiters.entries()) from error
        own = set(batch.entries)
        batch.served.extend(entry for entry in served if entry not in own)
