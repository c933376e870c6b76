"""Requests served by this process itself, by compare-and-set (design §1, steps 1 and 2).

One write is in flight; whatever is asked meanwhile goes into the next: group commit for a busy
process, and a plain write per request for a script. `DirectLink.call` has the shape of `Link.call`,
so that a session treats both alike. Any number of processes may do this side by side, and beside a
broker: all write by compare-and-set, and a request that lands twice has one effect, by its request
id, claim id, token or job id (S7). `objq.client.alone` says what a commit does, `patience` how
claims wait, and `versions` how the document is read and written.

An answer rests on a store access that began after the request came: on the write that holds its
effect (S2), or on a read. So a worker that counts from the moment at which it asked counts from
before that access, as its start rule wants.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final

from objq import wire
from objq.broker.answering import Poisoned, placed
from objq.broker.commit import Closed, PerhapsApplied
from objq.client.alone import Alone, Entry
from objq.client.known import Known
from objq.client.link import CLOSED, LinkLost
from objq.client.lookups import FROM_DOCUMENT
from objq.client.patience import Patience
from objq.client.versions import Versions
from objq.clock import Clock
from objq.core import ops
from objq.core.document import Document
from objq.errors import (
    Invalid,
    ObjqError,
    Overloaded,
    QueueFull,
    Rejected,
    Unavailable,
    Unknown,
)
from objq.ids import Ids
from objq.store.base import AsyncStore, TooLarge

logger = logging.getLogger("objq.client")

MAX_WAITING: Final = 10_000
"""Requests that wait to be written; beyond, new ones get `overloaded`, except about held claims."""

RETRY_AFTER_S: Final = 1.0

SPREAD_S: Final = 0.1
"""Processes that lost the same broker do not all write in the same instant."""

_LOOK: Final = ops.Get(ids=())

KEPT_S: Final = 10.0
"""The document stays in memory for so long after a request, so that the next one reads less."""


class DirectLink:
    """`creates`: the settings of a document that is created, where there is none, by the first
    request that is more than a look; without them this only pushes, around a broker that does not
    answer. `on_seen(document, began)` is told of every version that a store access, begun then
    (monotonic seconds), found to be the newest. `seen`: the stores whose document this process has
    seen, by default one set for all. `known`: the version that this process knows of already,
    however it came to know it.
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
        known: Known | None = None,
    ) -> None:
        self._clock = clock
        self._ids = ids
        self._works = creates is not None
        self._on_seen = on_seen
        self._alone = Alone(clock, ids.token, only_pushes=not self._works)
        self.versions = Versions(
            store,
            clock,
            ids,
            creates=creates,
            may_create=self._may_create,
            on_confirmed=self._confirmed,
            seen=seen,
            known=known,
        )
        self._patience = Patience(clock, ids)
        self._new: list[Entry] = []
        self._batch: list[Entry] = []
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._busy = False
        """A turn is under way."""
        self._closed = False

    async def call(self, op: ops.Op, mark_sent: Callable[[], None]) -> ops.Answer:
        """Return the answer once the write that holds its effect is durable (S2).

        `mark_sent` is called when the request becomes part of a version to be written. Raises
        Rejected, also for what a broker would not take for a request, NotBroker if a broker is
        recorded whose business this is, DocumentError, and LinkLost if this was closed meanwhile.
        """
        received = wire.as_received(op)
        if isinstance(received.op, Rejected):
            raise received.op
        creates = not isinstance(op, ops.UNCOMMITTED)
        answer = await self._ask(received.op, mark_sent, creates=creates)
        return wire.merge(answer, received.refused)

    async def look(self) -> None:
        """Let `on_seen` be told of the document as it is now; create it where there is none.

        Raises as `call`.
        """
        await self._ask(_LOOK, lambda: None, creates=True)

    async def _ask(self, op: ops.Op, mark_sent: Callable[[], None], *, creates: bool) -> ops.Answer:
        if self._closed:
            raise LinkLost(CLOSED)
        if len(self._new) + len(self._batch) >= MAX_WAITING and not isinstance(op, ops.NEVER_SHED):
            raise Overloaded(
                f"{MAX_WAITING} requests of this process wait to be written.",
                retry_after_s=RETRY_AFTER_S,
            )
        now = self._clock.monotonic()
        wait_s = op.wait if isinstance(op, ops.TakeClaim) else 0.0
        entry = Entry(op, mark_sent, asked_at=now, wait_until=now + wait_s, creates=creates)
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
        self.versions.stop()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._fail(LinkLost(CLOSED))

    # --- the loop --------------------------------------------------------------------------------

    async def _serve(self) -> None:
        try:
            while await self._wait():
                self._busy = True
                await self._turn()
                self._busy = False
        except BaseException as error:
            self._fail(LinkLost(f"Direct writing has ended ({error!r})."))
            raise
        finally:
            self._busy = False
            # A process that rarely writes should not keep the queue in memory.
            self.versions.drop()
            self._alone.look_ups.forget()

    async def _wait(self) -> bool:
        """Return when a turn is due, or False if nothing was asked for a while."""
        if self._new and not self._works:
            await asyncio.sleep(SPREAD_S - self._ids.jitter(SPREAD_S))
        if not self._new:
            self._wake.clear()
            pause_s = self._patience.pause_s(self.versions.document)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), KEPT_S if pause_s is None else pause_s)
        return bool(self._new or self._patience)

    async def _turn(self) -> None:
        self._batch = self._patience.take()
        try:
            waiting = (*self._batch, *self._new)
            may_write = any(not isinstance(entry.op, FROM_DOCUMENT) for entry in waiting)
            document = await self.versions.transact(self._apply, may_write=may_write)
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

    def _apply(self, document: Document) -> bool:
        """Apply all that wait; runs again, with what has come since, on a version that won."""
        self._batch = [*self._batch, *self._new]
        self._new = []
        return self._alone.run(self._batch, document)

    def _may_create(self) -> bool:
        return any(entry.creates for entry in (*self._batch, *self._new))

    def _confirmed(self, document: Document, began: float) -> None:
        self._alone.looked(document, began, self._clock.monotonic())
        self._on_seen(document, began)

    # --- answers ---------------------------------------------------------------------------------

    def _deliver(self, document: Document) -> None:
        batch, self._batch = self._batch, []
        confirmed_at = self.versions.confirmed_at
        self._alone.confirmed(batch, document, confirmed_at)
        early: list[Entry] = []
        for index, entry in enumerate(batch):
            op = entry.op
            if isinstance(op, ops.TakeClaim) and self._patience.let_wait(entry, op.claim, document):
                continue
            if entry.asked_at > confirmed_at:
                early.append(entry)  # it came when the document was already being looked at
            elif isinstance(entry.outcome, Exception):
                entry.refuse(entry.outcome)
            elif entry.outcome is None:
                self._look_up(entry, document)
            else:
                entry.answer(placed(entry.outcome, document, index, changed=entry.changed))
        if early:
            self._again(early)

    def _look_up(self, entry: Entry, document: Document) -> None:
        try:
            entry.answer(self._alone.look_ups.answer(document, entry.op))
        except Rejected as refusal:
            entry.refuse(refusal)

    def _again(self, entries: list[Entry]) -> None:
        """Let entries go into the next turn, after a read of the document."""
        self._new = [*(entry for entry in entries if not entry.future.done()), *self._new]
        self._batch = []
        self.versions.read_first()

    def _set_aside(self, poisoned: Poisoned[Entry]) -> None:
        """Refuse what is to blame; the others go into the next write, on a document read anew."""
        bug = poisoned.__cause__
        logger.error("A request cannot be applied, which is a bug.", exc_info=bug)
        self._again([entry for entry in self._batch if entry not in poisoned.entries])
        for culprit in poisoned.entries:
            message = f"This {ops.op_name(culprit.op)} cannot be applied: {bug!r}."
            culprit.refuse(_unknown(culprit) if culprit.written else Invalid(message))

    def _lighten(self, error: TooLarge) -> None:
        """Give up what makes the document larger, so that outcomes get through (S13).

        What changed nothing weighs nothing, and may be the repeat of what is in: it stays.
        """
        changed = [entry for entry in self._batch if entry.changed]
        heavy = [entry for entry in changed if isinstance(entry.op, ops.GROWING)]
        claims = [entry for entry in changed if isinstance(entry.op, ops.TakeClaim)]
        message = f"The store takes no object of this size ({error})."
        refusal: ObjqError = QueueFull(message) if heavy else Unavailable(message)
        for entry in heavy or claims or self._batch:
            entry.refuse(_unknown(entry) if isinstance(error, PerhapsApplied) else refusal)
        self._again(self._batch)

    def _fail(self, error: Exception) -> None:
        failed = [*self._batch, *self._new, *self._patience.take()]
        self._batch, self._new = [], []
        for entry in failed:
            entry.refuse(error)

    def _stop_if_unwanted(self) -> None:
        """Stop trying once all callers have gone. A write under way is waited for."""
        self._new = [entry for entry in self._new if not entry.future.done()]
        waiting = [*self._new, *self._batch, *self._patience.entries()]
        if self._busy and all(entry.future.done() for entry in waiting):
            self.versions.stop()


def _unknown(entry: Entry) -> Unknown:
    return Unknown(
        "Whether this was applied is not known: an earlier version may hold it.",
        ids=ops.ids_of(entry.op),
    )
