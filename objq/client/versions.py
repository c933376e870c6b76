"""The versions of the document that this process reads and writes by itself.

A committer, and around it what a process without a broker needs: it is made anew after a stop,
building upon nothing older (S14); the document is created where there is none; and a write is
preceded by a conditional read unless it follows at once on one that nobody interfered with, since a
conflict costs more than a read that brings nothing.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import Final

from objq.broker.commit import Change, Committer, Superseded
from objq.client.known import Known
from objq.clock import Clock
from objq.core import ops
from objq.core.document import Document, Header
from objq.errors import NoDocument, Vanished
from objq.ids import Ids
from objq.store.base import AsyncStore

logger = logging.getLogger("objq.client")

FOLLOWS_S: Final = 0.05
"""Requests that follow so soon on a write are written upon it, without a read before."""

SEEN: Final[set[str]] = set()
"""Stores whose document this process has seen: it never creates one there again (S14)."""

TURN: Final = 2
"""Writes' times that a turn takes: of a read, and of a write."""

MOST_OTHERS: Final = 8
"""Versions of others between two of one's own: whoever finds more takes nobody's turn."""

BUSY: Final = 4
"""Writes' times from one version to the next, at most, where several processes are busy."""


class Versions:
    """`creates`: the settings of a document that is created where there is none, or None.
    `may_create`: whether anybody waits just now who is worth one.

    `on_confirmed(document, began)` is told of every version that a store access, begun then
    (monotonic seconds), found to be the newest. Nothing older than what is `known` is built upon.
    """

    def __init__(
        self,
        store: AsyncStore,
        clock: Clock,
        ids: Ids,
        *,
        creates: ops.DocumentSettings | None,
        may_create: Callable[[], bool] = lambda: True,
        on_confirmed: Callable[[Document, float], None],
        seen: set[str] | None,
        known: Known | None = None,
    ) -> None:
        self._known = known if known is not None else Known()
        self._store = store
        self._clock = clock
        self._ids = ids
        self._creates = creates
        self._may_create = may_create
        self._on_confirmed = on_confirmed
        self._seen = SEEN if seen is None else seen
        self._committer = self._new_committer(None)
        self._in_step = False
        """Nobody has interfered, so the next write may be tried without a read before."""
        self._ended_at = float("-inf")
        self._own: tuple[int, float] | None = None
        """The seq of the newest version that was written here, and when that was known."""
        self._others_until = float("-inf")
        """Until when others are taken to write as well."""
        self._turn_at = float("-inf")
        """When it is this process's turn to write again."""

    @property
    def trouble(self) -> str | None:
        """Return why the document must not be written (S14), if that is so."""
        return self._committer.trouble

    @property
    def failure(self) -> str | None:
        """Return what the store said last, if it has failed since it last answered."""
        failure = self._committer.reader.failure
        return None if failure is None else f"{self._store.name} does not answer ({failure})."

    @property
    def seen(self) -> Header | None:
        """Return the header of the newest version that was confirmed."""
        return self._committer.seen

    @property
    def document(self) -> Document | None:
        """Return the document in memory, if it is there."""
        return self._committer.document

    @property
    def confirmed_at(self) -> float:
        """Return when the last store access that succeeded began (monotonic seconds)."""
        return self._committer.confirmed_at

    async def transact(self, change: Change, *, may_write: bool = True) -> Document:
        """Run `change` and commit what it did, as `Committer.transact` does and raises.

        What may write waits for this process's turn, where several are busy.
        """
        if self._committer.reader.closed:
            self._committer = self._new_committer(self._committer.seen)
        if may_write:
            await self._await_turn()
        follows = self._clock.monotonic() - self._ended_at <= FOLLOWS_S
        if not (follows and self._in_step and self._committer.document is not None):
            await self._refresh()
        commits, conflicts = self._committer.stats.commits, self._committer.stats.conflicts
        document = await self._committer.transact(change, leading=False)
        self._in_step = self._committer.stats.conflicts == conflicts
        self._ended_at = self._clock.monotonic()
        if self._committer.stats.commits > commits:
            self._leave_room(document)
        return document

    def read_first(self) -> None:
        """Let the next transaction begin with a read."""
        self._in_step = False

    def drop(self) -> None:
        """Forget the document in memory."""
        self._committer.drop()

    def stop(self) -> None:
        """End a transaction under way with Closed. A write under way is waited for."""
        self._committer.close()

    async def _await_turn(self) -> None:
        """Wait, and look meanwhile often enough to see silent holders by (design §1)."""
        while (wait_s := self._turn_at - self._clock.monotonic()) > 0:
            document = self._committer.document
            most_s = wait_s if document is None else document.settings.reads_apart_s / 2
            await self._committer.reader.sleep(min(wait_s, most_s))
            if wait_s > most_s:
                await self._committer.refresh()

    def _leave_room(self, document: Document) -> None:
        """Let others have their turn before the next write, if there are any.

        Whoever writes again at once wins every race against those who have to read first: they
        would lose what they hold, however long they try (S5). At 0.15 s a write six busy processes
        kept each other waiting for up to 11.9 s without it, and for 5.5 s with it.
        """
        now, settings, write_s = self._ended_at, document.settings, self._committer.pace.write_s
        before, self._own = self._own, (document.seq, now)
        if before is None:
            return
        seq, at = before
        others = document.seq - seq - 1
        if others > MOST_OTHERS or now - at > (others + 1) * BUSY * write_s:
            others = 0
        if others:
            self._others_until = now + settings.trust_s
        if now < self._others_until:
            turns_s = self._ids.jitter((others + 1) * TURN * write_s)
            self._turn_at = now + min(turns_s, settings.beat_every_s)

    async def _refresh(self) -> None:
        """Have the newest version in memory; create it where there is none, and may be."""
        while True:
            try:
                await self._committer.refresh()
            except NoDocument:
                if self._creates is None or not self._may_create():
                    raise
                await self._create(self._creates)
            else:
                return

    async def _create(self, settings: ops.DocumentSettings) -> None:
        if self._store.name in self._seen:
            raise Vanished.at(self._store.name)
        with contextlib.suppress(Superseded):
            await self._committer.create(
                lambda: Document.new(self._ids.token(), settings, self._clock.wall_ms())
            )
            logger.info("Created %s.", self._store.name, extra={"event": "document_created"})

    def _new_committer(self, seen: Header | None) -> Committer:
        committer = Committer(self._store, self._clock, self._ids)
        committer.reader.seen = seen
        committer.reader.also_seen = lambda: self._known.header
        committer.on_confirmed = self._confirmed
        return committer

    def _confirmed(self, before: float, began: float) -> None:
        document = self._committer.document
        assert document is not None
        self._seen.add(self._store.name)
        self._known.saw(document.header())
        self._on_confirmed(document, began)
