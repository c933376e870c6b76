"""Noticing that this process was paused: stopped by a signal, swapped out, suspended with its
machine.

The clock counts such time and the process does not see it, so a gap between two looks at the clock
is a pause. It is looked for before every request, since the first thing that a process meets when
it goes on may be a frame that waited in its socket all the while.

Not every gap is a pause. A change to a million jobs keeps a process busy for seconds; taking that
for a pause would close the sockets and read the document, and so bring the same work about again.
What is so long that the lead or a claim may have been lost meanwhile shows in the age of the last
access to the store (`objq.broker.confidence`), whatever the time was spent on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from objq.clock import Clock

TICKS_PER_LIMIT: Final = 4


class PauseWatch:
    """`limit_s`: a longer gap is a pause. `tick_s`: how often to look at least."""

    def __init__(self, clock: Clock, limit_s: float) -> None:
        self.tick_s = limit_s / TICKS_PER_LIMIT
        self._limit_s = limit_s
        self._clock = clock
        self._ran_at: float | None = None

    def paused_s(self) -> float:
        """Return how long the process was paused since the last look (seconds); 0 if it was not."""
        now = self._clock.monotonic()
        before, self._ran_at = self._ran_at, now
        gap_s = 0.0 if before is None else now - before
        return gap_s if gap_s > self._limit_s else 0.0

    @contextmanager
    def working(self) -> Iterator[None]:
        """Take the time of what is done inside for work."""
        began = self._clock.monotonic()
        try:
            yield
        finally:
            now = self._clock.monotonic()
            if self._ran_at is not None:
                self._ran_at = min(now, self._ran_at + now - began)
