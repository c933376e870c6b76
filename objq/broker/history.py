"""The last hour in points: what `history` answers (design §7). In the leader's memory only.

A point costs a few microseconds every ten seconds, and requests cost nothing: rates are differences
of the document's totals, and the rest is counted per commit anyway.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from objq.broker.commit import Committer
from objq.broker.company import Company
from objq.broker.measures import Measures
from objq.clock import Clock
from objq.core import ops
from objq.core.document import Document

EVERY_S: Final = 10.0
POINTS: Final = 360


class History:
    """`tick` is to be called more often than every `EVERY_S` seconds."""

    def __init__(
        self, committer: Committer, measures: Measures, clock: Clock, company: Company
    ) -> None:
        self._company = company
        self._committer = committer
        self._measures = measures
        self._clock = clock
        self._points: deque[ops.HistoryPoint] = deque(maxlen=POINTS)
        self._began_at = clock.monotonic()
        self._next_at = self._began_at + EVERY_S
        self._before: dict[str, int] | None = None

    def answer(self) -> ops.RecentHistory:
        document = self._committer.document
        leader = document.broker.id if document is not None and document.broker else ""
        return ops.RecentHistory(
            every_s=EVERY_S,
            points=tuple(self._points),
            process=self._company.process,
            standbys=self._company.standbys(leader),
            leaderships=self._company.leaderships(),
        )

    def tick(self) -> bool:
        """Add a point if it is time to; return whether it was."""
        now = self._clock.monotonic()
        document = self._committer.document
        if document is None or (now < self._next_at and self._before is not None):
            return False
        sums = self._sums(document)
        before, self._before = self._before, sums
        began_at, self._began_at = self._began_at, now
        self._next_at = now + EVERY_S
        if before is None:  # from here on there is something to differ from
            return False
        self._points.append(self._point(document, now - began_at, before, sums))
        return True

    def _sums(self, document: Document) -> dict[str, int]:
        totals, stats = document.totals.values(), self._committer.stats
        return {
            "pushed": sum(each.pushed for each in totals),
            "finished": sum(each.succeeded + each.cancelled for each in totals),
            "failed": sum(each.failed for each in totals),
            "commits": stats.commits,
            "conflicts": stats.conflicts,
            "throttled": stats.throttled,
            "batched": self._measures.batched,
        }

    def _point(
        self, document: Document, seconds: float, before: dict[str, int], sums: dict[str, int]
    ) -> ops.HistoryPoint:
        # A version that somebody restored may have lower totals than the one before.
        gone = {name: max(0, sums[name] - before[name]) for name in sums}
        batched = gone.pop("batched")
        commit, wait = self._measures.recent_commit_s.take(), self._measures.recent_wait_s.take()
        return ops.HistoryPoint(
            at=self._clock.wall_ms(),
            seconds=round(seconds, 3),
            ready=_count(document, "ready"),
            scheduled=_count(document, "scheduled"),
            running=_count(document, "running"),
            dead=_count(document, "dead"),
            batch=batched / gone["commits"] if gone["commits"] else 0.0,
            size_bytes=self._committer.size_bytes,
            commit_p50_s=commit[0],
            commit_p99_s=commit[1],
            wait_p50_s=wait[0],
            wait_p99_s=wait[1],
            **gone,
        )


def _count(document: Document, state: str) -> int:
    return sum(counts.get(state, 0) for counts in document.counts.values())
