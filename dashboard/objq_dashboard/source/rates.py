"""Jobs per second of each queue, from what its totals were a few seconds ago.

A broker's history tells of all queues together. These are known while somebody looks on.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from objq.core.ops import QueueStats, Statistics

OVER_S: Final = 10.0
"""Seconds that a rate is over, if somebody has looked at such distances."""

LEAST_S: Final = 2.0
"""A rate over less than this would be noise."""


class _Sample(NamedTuple):
    at: float
    document: str
    totals: dict[str, dict[str, int]]


class Seen(NamedTuple):
    """Jobs per second that were pushed, finished and failed, over the last `over_s` seconds."""

    over_s: float
    per_second: dict[str, float]


class Rates:
    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._samples: deque[_Sample] = deque()

    def add(self, stats: Statistics) -> None:
        totals = {name: counted(queue) for name, queue in stats.queues.items()}
        now = self._now()
        with self._lock:
            samples = self._samples
            if samples and samples[-1].document != stats.document:
                samples.clear()
            # What is older than the time that is looked at, but for one to differ from.
            while len(samples) > 1 and samples[1].at <= now - OVER_S:
                samples.popleft()
            if samples and samples[0].at < now - 3 * OVER_S:  # nobody has looked for a while
                samples.clear()
            samples.append(_Sample(now, stats.document, totals))

    def of(self, queue: str) -> Seen | None:
        """Return the rates of a queue; None if they are not known yet."""
        with self._lock:
            if not self._samples:
                return None
            first, last = self._samples[0], self._samples[-1]
        seconds = last.at - first.at
        if seconds < LEAST_S:
            return None
        before, after = first.totals.get(queue, {}), last.totals.get(queue)
        if after is None:
            return None
        rates = {
            name: max(0, count - before.get(name, 0)) / seconds for name, count in after.items()
        }
        return Seen(seconds, rates)


def counted(queue: QueueStats) -> dict[str, int]:
    """Return how many jobs of a queue were pushed, finished and failed since it was made."""
    totals = queue.totals
    return {
        "pushed": totals.get("pushed", 0),
        "finished": totals.get("succeeded", 0) + totals.get("cancelled", 0),
        "failed": totals.get("failed", 0),
    }
