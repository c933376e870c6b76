"""Those who watch: deltas of what commits have changed, at nobody else's cost (`watch`).

While nobody watches, nothing is noted. While somebody does, the document notes the ids of changed
jobs (`touched`), and a delta is made of those when a commit is confirmed: one for everybody, at
most every `EVERY_S` seconds, so that a fast store does not make for thousands. Watching writes
nothing, and only confirmed versions are told.

A delta follows a version (`after`). Whoever has an older one missed something and asks for a
snapshot; that is all there is to recovery. So nothing is kept for a watcher that is slow: when it
reads again, the next delta tells it, or an empty one that follows what nobody has. And where the
document was replaced (a direct write, a conflict, an outage) a delta that follows what nobody
has yet says just that: also to those who have this very version, since what came due meanwhile was
not noted.

Hearing nothing means that nothing has changed. A broker that cannot know that, since it is cut from
the store and perhaps deposed, tells everybody so, and that ends the watch: who watches would else
wait for ever for a broker whose place another has taken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import islice
from typing import Final, Protocol

from objq.broker.commit import Committer
from objq.clock import Clock
from objq.core import ops
from objq.core.document import Document
from objq.core.statistics import queue_stats
from objq.core.summaries import brief, summary
from objq.errors import ObjqError, Overloaded

MAX_WATCHERS: Final = 100
MAX_JOBS: Final = 100
"""Changed jobs that one delta tells of; the others are counted."""

EVERY_S: Final = 0.5
RETRY_AFTER_S: Final = 5.0


class Watcher(Protocol):
    def tell(self, delta: ops.Delta) -> bool:
        """Take a delta; return False if it cannot: a later one will show that one is missing."""
        ...

    def refuse(self, error: ObjqError) -> bool:
        """Take the end of the watch; return False if its snapshot is still on the way."""
        ...


class Watchers:
    """Of one leadership."""

    def __init__(self, committer: Committer, clock: Clock) -> None:
        self._committer = committer
        self._clock = clock
        self._watchers: dict[Watcher, None] = {}
        self._document: Document | None = None
        self._after = 0
        self._queues: dict[str, ops.QueueStats] = {}
        self._unsure = 0
        """The newest version of a snapshot. What comes due needs no commit, so a delta may tell
        of it under the number of a version that somebody was given before: who has that version
        leaves the delta unread. Until one has led from a later version, each tells all queues."""
        self._told_at = float("-inf")
        self._missed: dict[Watcher, None] = {}
        """Who did not take the last delta."""
        self._gap: ops.Delta | None = None
        """What they are told when they can be, if nothing has changed since."""
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._watchers)

    def check_room(self) -> None:
        """Raise Overloaded if as many watch as may."""
        if len(self._watchers) >= MAX_WATCHERS:
            raise Overloaded(
                f"{MAX_WATCHERS} sockets watch this broker already.", retry_after_s=RETRY_AFTER_S
            )

    def add(self, watcher: Watcher, document: Document) -> None:
        """Tell a watcher from now on; it is given a snapshot of `document`, confirmed, just now."""
        if not self._watchers:
            self._begin(document)
        for name in queue_stats(document):
            self._queues.setdefault(name, ops.QueueStats())
        self._unsure = document.seq
        self._watchers[watcher] = None

    def discard(self, watcher: Watcher) -> None:
        if watcher in self._watchers:
            del self._watchers[watcher]
            self._missed.pop(watcher, None)
            if not self._watchers:
                self.end()

    def refuse(self, error: ObjqError) -> None:
        """End all watches, since nobody can be told anything now; those just begun, the next time.

        To be called again while that is so.
        """
        for watcher in list(self._watchers):
            if watcher.refuse(error):
                self.discard(watcher)

    def end(self) -> None:
        """Tell nobody any more."""
        self._watchers.clear()
        self._missed.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._document is not None:
            self._document.touched = None
            self._document = None

    def look(self) -> None:
        """Tell of what was confirmed since the last time; to be called after every store access."""
        document = self._committer.settled
        if not self._watchers or document is None:
            return
        if document is self._document and document.seq == self._after:
            return
        wait_s = self._told_at + EVERY_S - self._clock.monotonic()
        if wait_s <= 0:
            self._tell(document)
        else:
            self._look_in(wait_s)

    def _look_in(self, wait_s: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._look_again)

    def _look_again(self) -> None:
        self._timer = None
        self.look()
        if self._missed and self._gap is not None:
            self._offer(self._gap, self._missed)

    def _offer(self, delta: ops.Delta, watchers: Iterable[Watcher]) -> None:
        self._missed = {watcher: None for watcher in list(watchers) if not watcher.tell(delta)}
        if self._missed:
            self._look_in(EVERY_S)

    def _begin(self, document: Document) -> None:
        self._document, self._after = document, document.seq
        self._queues = queue_stats(document)
        document.touched = {}

    def _tell(self, document: Document) -> None:
        if document is not self._document:
            self._begin(document)  # what has changed is not known: everybody has missed something
            self._unsure = document.seq
            delta = self._delta(document, (), self._queues, after=document.seq + 1)
        else:
            touched = tuple(document.touched or ())
            document.touched = {}
            queues = queue_stats(document)
            known = self._queues
            is_sure = self._after > self._unsure
            changed = {
                name: each
                for name, each in queues.items()
                if not is_sure or each != known.get(name)
            }
            # A queue of which nothing is left to say (it was paused, and is no longer) is told of.
            changed |= dict.fromkeys(sorted(known.keys() - queues.keys()), ops.QueueStats())
            delta = self._delta(document, touched, changed, after=self._after)
            self._after, self._queues = document.seq, queues
        self._told_at = self._clock.monotonic()
        self._gap = self._delta(document, (), self._queues, after=document.seq + 1)
        self._offer(delta, self._watchers)

    def _delta(
        self,
        document: Document,
        touched: tuple[str, ...],
        queues: dict[str, ops.QueueStats],
        *,
        after: int,
    ) -> ops.Delta:
        jobs, removed = [], []
        for job_id in islice(touched, MAX_JOBS):
            job = document.find(job_id)
            if job is None:
                removed.append(job_id)
            else:
                jobs.append(summary(brief(job)))
        return ops.Delta(
            after=after,
            seq=document.seq,
            epoch=document.epoch,
            at=document.at,
            jobs=tuple(jobs),
            removed=tuple(removed),
            left_out=max(0, len(touched) - MAX_JOBS),
            queues=queues,
            broker=document.broker,
            size_bytes=sum(document.bytes.values()),
        )
