"""Requests served by this process itself, by compare-and-set (design §1, steps 1 and 2).

One write is in flight; whatever is asked meanwhile goes into the next: group commit for a busy
process, and a plain write per request for a script. `DirectLink.call` has the shape of `Link.call`,
so that a session treats both alike. Any number of processes may do this side by side, and beside a
broker: all write by compare-and-set, and a request that lands twice has one effect, by its request
id, claim id, token or job id (S7). `objq.client.alone` says what a commit does.

An answer rests on a store access that began after the request came: on the write that holds its
effect (S2), or on a read. So a worker that counts from the moment at which it asked counts from
before that access, as its start rule wants.

Claims that find nothing wait here and look at the document again, `POLL_FIRST_S` apart at first and
`POLL_LONGEST_S` after a while, by conditional reads that bring nothing when nothing has changed.
What this process itself writes is met at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final

from objq.broker.commit import Closed, Committer, Superseded
from objq.broker.reading import SHORTEST_WAIT_S
from objq.client.alone import OUTCOMES, Alone, Entry, Poisoned, with_position
from objq.client.link import LinkLost
from objq.clock import Clock
from objq.core import ops
from objq.core.document import Document, Header
from objq.errors import (
    ForeignDocument,
    Invalid,
    NoDocument,
    ObjqError,
    Overloaded,
    QueueFull,
    Rejected,
    Unavailable,
)
from objq.ids import Ids
from objq.store.base import AsyncStore, TooLarge

logger = logging.getLogger("objq.client")

MAX_WAITING: Final = 10_000
"""Requests that wait to be written; beyond, new ones get `overloaded`, except about held claims."""

RETRY_AFTER_S: Final = 1.0

SPREAD_S: Final = 0.1
"""Processes that lost the same broker do not all write in the same instant."""

POLL_FIRST_S: Final = 0.25
POLL_LONGEST_S: Final = 2.0
POLLS_PER_TIMEOUT: Final = 8
"""Polls are at least so frequent, since a watch over silent claims needs reads near together."""

CLAIM_WAIT_SHARE: Final = 4
"""A claim waits at most one part in this many of the heartbeat timeout (S2)."""

FOLLOWS_S: Final = 0.05
"""Requests that follow so soon on a write are written upon it, without a read before."""

KEPT_S: Final = 10.0
"""The document stays in memory for so long after a request, so that the next one reads less."""

GROWING: Final = (ops.Push, ops.Retry)
NEVER_SHED: Final = (ops.Heartbeat, *OUTCOMES)

SEEN: Final[set[str]] = set()
"""Stores whose document this process has seen: it never creates one there again (S14)."""


class DirectLink:
    """`creates`: the settings of a document that is created where there is none; without them this
    only pushes, around a broker that does not answer. `on_seen(document, began)` is told of every
    version that a store access, begun then (monotonic seconds), found to be the newest.
    """

    def __init__(
        self,
        store: AsyncStore,
        clock: Clock,
        ids: Ids,
        *,
        creates: ops.DocumentSettings | None = None,
        on_seen: Callable[[Document, float], None] = lambda document, began: None,
        seen: set[str] | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._creates = creates
        self._on_seen = on_seen
        self._seen = SEEN if seen is None else seen
        self._alone = Alone(clock, ids.token, only_pushes=creates is None)
        self._committer = self._new_committer(None)
        self._new: list[Entry] = []
        self._batch: list[Entry] = []
        self._claims: dict[str, Entry] = {}
        """Claims that wait for a job, by their id."""
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._busy = False
        """A turn is under way."""
        self._in_step = False
        """Nobody has interfered, so the next write may be tried without a read before."""
        self._turned_at = float("-inf")
        self._poll_s = POLL_FIRST_S
        self._closed = False

    @property
    def trouble(self) -> str | None:
        """Return why the document must not be written (S14), if that is so."""
        return self._committer.trouble

    @property
    def failure(self) -> str | None:
        """Return what the store said last, if it has failed since it last answered."""
        failure = self._committer.reader.failure
        return None if failure is None else f"{self._store.name} does not answer: {failure}"

    @property
    def seen(self) -> Header | None:
        """Return the header of the newest version that was confirmed."""
        return self._committer.seen

    async def call(self, op: ops.Op, mark_sent: Callable[[], None]) -> ops.Answer:
        """Return the answer once the write that holds its effect is durable (S2).

        `mark_sent` is called when the request becomes part of a version to be written. Raises
        Rejected, NotBroker if a broker is recorded whose business this is, DocumentError, and
        LinkLost if this was closed meanwhile.
        """
        if self._closed:
            raise LinkLost("this client is closed")
        if len(self._new) + len(self._batch) >= MAX_WAITING and not isinstance(op, NEVER_SHED):
            raise Overloaded(
                f"{MAX_WAITING} requests of this process wait to be written.",
                retry_after_s=RETRY_AFTER_S,
            )
        now = self._clock.monotonic()
        wait_s = op.wait if isinstance(op, ops.TakeClaim) else 0.0
        entry = Entry(op, mark_sent, asked_at=now, wait_until=now + wait_s)
        self._new.append(entry)
        self._wake.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._serve(), name="objq direct")
        try:
            return await entry.future
        except asyncio.CancelledError:
            self._stop_if_unwanted()
            raise

    async def close(self) -> None:
        """Stop; what still waits gets LinkLost, since a write under way may yet be applied."""
        self._closed = True
        self._committer.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._fail(LinkLost("this client was closed"))

    # --- the loop --------------------------------------------------------------------------------

    async def _serve(self) -> None:
        try:
            while await self._wait():
                self._busy = True
                await self._turn()
                self._busy = False
        except BaseException as error:
            self._fail(LinkLost(f"direct writing has ended: {error!r}"))
            raise
        finally:
            self._busy = False
            # A process that rarely writes should not keep the queue in memory.
            self._committer.drop()
            self._alone.look_ups.forget()

    async def _wait(self) -> bool:
        """Return when a turn is due, or False if nothing was asked for a while."""
        if self._creates is None and self._new:
            await asyncio.sleep(SPREAD_S - self._ids.jitter(SPREAD_S))
        if not self._new:
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), self._pause_s())
            if self._clock.monotonic() - self._turned_at > FOLLOWS_S:
                self._in_step = False
        return bool(self._new or self._claims)

    def _pause_s(self) -> float:
        """Return how long to wait for a request before looking at the document for the claims."""
        self._claims = {key: e for key, e in self._claims.items() if not e.future.done()}
        if not self._claims:
            return KEPT_S
        now = self._clock.monotonic()
        delays_s = [entry.wait_until - now for entry in self._claims.values()]
        longest_s = POLL_LONGEST_S
        document = self._committer.document
        if document is not None:
            longest_s = min(longest_s, document.settings.heartbeat_timeout_s / POLLS_PER_TIMEOUT)
            if (due := document.next_due()) is not None:
                delays_s.append((due - self._clock.wall_ms()) / 1000)
        delays_s.append(self._ids.jitter(min(self._poll_s, longest_s)))
        self._poll_s = min(self._poll_s * 2, longest_s)
        return max(SHORTEST_WAIT_S, min(delays_s))

    async def _turn(self) -> None:
        if self._committer.reader.closed:
            # Nothing older than what was seen is ever built upon (S14).
            self._committer = self._new_committer(self._committer.seen)
        conflicts = self._committer.stats.conflicts
        self._batch, self._claims = list(self._claims.values()), {}
        try:
            if not self._in_step or self._committer.document is None:
                await self._refresh()
            document = await self._committer.transact(self._apply, leading=False)
        except Closed:
            # The callers had gone when it was stopped; whoever has come since goes again.
            self._again(self._batch)
        except Poisoned as poisoned:
            self._set_aside(poisoned)
        except TooLarge as error:
            self._lighten(error)
        except ObjqError as error:
            self._fail(error)
        else:
            self._deliver(document)
            self._in_step = self._in_step and self._committer.stats.conflicts == conflicts
            self._turned_at = self._clock.monotonic()

    async def _refresh(self) -> None:
        """Have the newest version in memory; create it where there is none, and may be."""
        while True:
            try:
                await self._committer.refresh()
            except NoDocument:
                if self._creates is None:
                    raise
                await self._create(self._creates)
            else:
                self._in_step = True
                return

    async def _create(self, settings: ops.DocumentSettings) -> None:
        if self._store.name in self._seen:
            raise ForeignDocument(
                f"{self._store.name} has vanished. It is not created anew, since that would lose "
                "jobs: put back its last version, and everything goes on by itself; or restart "
                "every process that uses it to begin with an empty queue"
            )
        with contextlib.suppress(Superseded):
            await self._committer.create(
                lambda: Document.new(self._ids.token(), settings, self._clock.wall_ms())
            )
            logger.info("created %s", self._store.name, extra={"event": "document_created"})

    def _apply(self, document: Document) -> bool:
        """Apply all that wait; runs again, with what has come since, on a version that won."""
        self._batch = [*self._batch, *self._new]
        self._new = []
        return self._alone.run(self._batch, document)

    # --- answers ---------------------------------------------------------------------------------

    def _deliver(self, document: Document) -> None:
        batch, self._batch = self._batch, []
        confirmed_at = self._committer.confirmed_at
        self._alone.confirmed(batch, document, confirmed_at)
        for index, entry in enumerate(batch):
            op = entry.op
            if isinstance(op, ops.TakeClaim) and self._lets_wait(entry, op.claim, document):
                continue
            if entry.asked_at > confirmed_at:
                self._again([entry])  # it came when the document was already being looked at
            elif isinstance(entry.outcome, Exception):
                entry.refuse(entry.outcome)
            elif entry.outcome is None:
                self._look_up(entry, document)
            else:
                entry.answer(with_position(entry, document, index))

    def _look_up(self, entry: Entry, document: Document) -> None:
        try:
            entry.answer(self._alone.look_ups.answer(document, entry.op))
        except Rejected as refusal:
            entry.refuse(refusal)

    def _lets_wait(self, entry: Entry, claim: ops.ClaimId, document: Document) -> bool:
        """Let a claim that found nothing wait; return False if it is to be answered now."""
        if entry.outcome != ops.Granted():
            self._poll_s = POLL_FIRST_S
            return False
        earlier = self._claims.pop(claim, None)
        if earlier is not None:
            earlier.answer(ops.Granted())  # sent again, in its place
        most_s = document.settings.heartbeat_timeout_s / CLAIM_WAIT_SHARE
        entry.wait_until = min(entry.wait_until, entry.asked_at + most_s)
        if entry.wait_until <= self._clock.monotonic():
            return False
        self._claims[claim] = entry
        return True

    def _again(self, entries: list[Entry]) -> None:
        """Let entries go into the next turn, after a read of the document."""
        self._new = [*self._new, *(entry for entry in entries if not entry.future.done())]
        self._in_step = False

    def _set_aside(self, poisoned: Poisoned) -> None:
        """Refuse the one request; the others go into the next write, on a document read anew."""
        logger.error("A request cannot be applied, which is a bug", exc_info=poisoned.__cause__)
        culprit = poisoned.entry
        self._again([entry for entry in self._batch if entry is not culprit])
        self._batch = []
        name = ops.op_name(culprit.op)
        culprit.refuse(Invalid(f"This {name} cannot be applied: {poisoned.__cause__!r}"))

    def _lighten(self, error: TooLarge) -> None:
        """Give up what makes the document larger, so that outcomes get through (S13)."""
        batch, self._batch = self._batch, []
        heavy = [entry for entry in batch if isinstance(entry.op, GROWING)]
        for entry in heavy:
            entry.refuse(QueueFull(f"The store takes no object of this size: {error}"))
        rest = [entry for entry in batch if entry not in heavy]
        if heavy:
            self._again(rest)
            return
        claims = [entry for entry in rest if isinstance(entry.op, ops.TakeClaim)]
        for entry in claims or rest:
            entry.refuse(Unavailable(f"the store takes no object of this size: {error}"))
        self._again(rest)

    def _fail(self, error: Exception) -> None:
        failed = [*self._batch, *self._new, *self._claims.values()]
        self._batch, self._new, self._claims = [], [], {}
        for entry in failed:
            entry.refuse(error)

    # --- the committer ---------------------------------------------------------------------------

    def _new_committer(self, seen: Header | None) -> Committer:
        committer = Committer(self._store, self._clock, self._ids)
        committer.reader.seen = seen
        committer.on_confirmed = self._confirmed
        return committer

    def _confirmed(self, before: float, began: float) -> None:
        document = self._committer.document
        assert document is not None
        self._seen.add(self._store.name)
        self._alone.looked(document, began, self._clock.monotonic())
        self._on_seen(document, began)

    def _stop_if_unwanted(self) -> None:
        """Stop trying once all callers have gone. A write under way is waited for."""
        self._new = [entry for entry in self._new if not entry.future.done()]
        waiting = [*self._new, *self._claims.values(), *self._batch]
        if self._busy and all(entry.future.done() for entry in waiting):
            self._committer.close()
