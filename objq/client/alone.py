"""What one commit without a broker does to the document, in this order:

1. is a broker recorded? Then nothing is done but to push: the rest is its business (design §1)
2. time passes: scheduled jobs become due, old request ids go
3. the requests, in order of arrival; heartbeats and tokens reported in this very turn are heard
4. claims end whose holders this process has itself seen silent (`objq.core.silence`)
5. claims are served, so that a push is granted in the commit that makes it durable
6. heartbeats that would fall behind are written down, and all others too if there is a commit;
   the start of an attempt at once, since nobody else would remember it if this process died

Nothing to do means no write: an empty claim, a look-up or an early heartbeat costs a read. The same
turn may run several times, on another version each time; every run sets all outcomes anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from objq.broker import answering
from objq.broker.timing import log_expired
from objq.client.lookups import FROM_DOCUMENT, LookUps
from objq.clock import Clock
from objq.core import ops
from objq.core.claiming import beat
from objq.core.document import Document
from objq.core.ending import Expired, expire
from objq.core.rules import apply, forget, tick
from objq.core.silence import SilenceWatch
from objq.errors import NotBroker, ObjqError, Rejected, Unknown

logger = logging.getLogger("objq.client")

AT_ANY_TIME: Final = (ops.Push, *FROM_DOCUMENT)
"""What a direct process does also while a broker is recorded."""


@dataclass(slots=True, eq=False)
class Entry:
    """One request and who waits for its answer. Times are monotonic seconds.

    `wait_until`: when a claim stops waiting for a job. `outcome` is what the last run made of it;
    None: it is answered from the confirmed document.
    """

    op: ops.Op
    mark_sent: Callable[[], None]
    asked_at: float
    wait_until: float
    future: asyncio.Future[ops.Answer] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    creates: bool = False
    """The document is created for it where there is none."""
    outcome: ops.Answer | ObjqError | None = None
    changed: bool = False
    written: bool = False
    """A version that holds it was made, and may be in the store."""

    def answer(self, answer: ops.Answer) -> None:
        answering.answer(self.future, answer)

    def refuse(self, error: Exception) -> None:
        answering.refuse(self.future, error)


class Alone:
    """Runs the turns of one process.

    `only_pushes`: this process has a broker and pushes around it; time and claims are not its own.
    """

    def __init__(self, clock: Clock, mint: Callable[[], str], *, only_pushes: bool) -> None:
        self._clock = clock
        self._mint = mint
        self._only_pushes = only_pushes
        self._watch = SilenceWatch()
        self.look_ups = LookUps(clock, self._watch)
        self._heard: set[str] = set()
        self._started: set[str] = set()
        self._written_at: dict[str, float] = {}
        """When the write began that last moved the claim of a token (monotonic seconds)."""
        self._carries_beats = False
        self._expired: list[Expired] = []
        self._ran_on = 0

    def run(self, entries: Iterable[Entry], document: Document) -> bool:
        """Apply the requests; return whether that needs a commit. Raises Poisoned."""
        self._ran_on = document.seq
        self._carries_beats = False
        self._expired = []
        now = self._clock.wall_ms()
        if self._only_pushes or document.broker is not None:
            forget(document, now)
            self._heard, self._started = set(), set()  # who led meanwhile has heard more
            for entry in entries:
                self._apply_beside_broker(entry, document, now)
            return document.dirty
        tick(document, now, 0)  # retention ages only while a broker leads (S15)
        waiting = [entry for entry in entries if not entry.future.done()]
        self._hear(waiting, document)
        silent = self._silent(document)
        if silent or any(isinstance(entry.op, ops.REPORTS) for entry in waiting):
            beat(document, (), self._started, now)  # whether an attempt had started matters to both
        for entry in waiting:
            if not isinstance(entry.op, ops.TakeClaim):
                self._apply(entry, document, now)
        self._expired = expire(document, silent, now)
        for entry in waiting:
            if isinstance(entry.op, ops.TakeClaim):
                self._apply(entry, document, now)
        return self._beat(document, now)

    def looked(self, document: Document, began: float, ended: float) -> None:
        """Take note of a version that was confirmed by a store access between these moments."""
        if self._only_pushes or document.broker is not None:
            self._watch.restart()
            return
        claims = (job.claim for job in document.claims.values() if job.claim is not None)
        apart_s = document.settings.reads_apart_s
        self._watch.look(claims, apart_s=apart_s, began=began, ended=ended)

    def confirmed(self, entries: Iterable[Entry], document: Document, began: float) -> None:
        """Note that the last run is durable, by a store access that began at `began`."""
        if document.seq == self._ran_on:
            return
        log_expired(logger, self._expired)
        if self._carries_beats:
            self._written_at.update(dict.fromkeys(self._heard, began))
            self._heard, self._started = set(), set()
        for entry in entries:
            if isinstance(entry.outcome, ops.Granted):
                self._written_at.update((grant.token, began) for grant in entry.outcome.jobs)
        live = document.claims
        self._written_at = {t: at for t, at in self._written_at.items() if t in live}

    # --- one request -----------------------------------------------------------------------------

    def _apply_beside_broker(self, entry: Entry, document: Document, now: int) -> None:
        broker = document.broker
        if isinstance(entry.op, AT_ANY_TIME) or broker is None:
            self._apply(entry, document, now)
            return
        entry.changed = False
        if entry.written:  # that version may lie beneath this one (S12)
            message = "Whether this was applied is not known: a broker has taken over meanwhile."
            entry.outcome = Unknown(message, ids=ops.ids_of(entry.op))
            return
        entry.outcome = NotBroker(f"queue.json names the broker at {broker.url}.", url=broker.url)

    def _apply(self, entry: Entry, document: Document, now: int) -> None:
        entry.outcome, entry.changed = None, False
        if entry.future.done() or isinstance(entry.op, ops.UNCOMMITTED):
            return
        op: ops.Change = entry.op  # type: ignore[assignment]  # `apply` refuses what is none
        try:
            applied = apply(document, op, now, mint=self._mint, epoch=None)
        except Rejected as refusal:
            written = entry.written
            entry.outcome = answering.refused_again(refusal, op) if written else refusal
        except Exception as bug:
            raise answering.Poisoned([entry]) from bug
        else:
            entry.outcome, entry.changed = applied
            if entry.changed:
                entry.written = True
                entry.mark_sent()

    # --- claims that live, and that do not -------------------------------------------------------

    def _hear(self, entries: Iterable[Entry], document: Document) -> None:
        for entry in entries:
            if isinstance(entry.op, ops.Heartbeat):
                self._heard.update(entry.op.tokens, entry.op.started)
                self._started.update(entry.op.started)
        self._heard.intersection_update(document.claims)
        self._started.intersection_update(document.claims)

    def _silent(self, document: Document) -> list[str]:
        # Of those that this process has heard itself, the word has only not been written yet.
        silent = self._watch.silent(document.settings.heartbeat_timeout_s)
        return [t for t in silent if t in document.claims and t not in self._heard]

    def _beat(self, document: Document, now: int) -> bool:
        # What is heard half a beat after the last that was written is written: by the next beat the
        # document would be further behind than `beat_behind_s`.
        due_s = document.settings.beat_every_s / 2
        written_before = self._clock.monotonic() - due_s
        # By this process's own clock: the times in the file are of many machines, and with one of
        # them fast, a claim would look fresh here and not move for those who watch it.
        behind = any(
            self._written_at.get(token, float("-inf")) <= written_before
            for token in self._heard
            if token in document.claims
        )
        if not (document.dirty or behind or self._has_news(document)):
            return False
        beat(document, self._heard, self._started, now)
        self._carries_beats = True
        return True

    def _has_news(self, document: Document) -> bool:
        """Tell whether an attempt has started that the document takes for unstarted (S10)."""
        claims = (job.claim for t in self._started if (job := document.claims.get(t)) is not None)
        return any(claim is not None and claim.started_at is None for claim in claims)
