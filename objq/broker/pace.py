"""How fast the document may be written, and how long to wait after a failure.

A store states its pace: the least time between two writes of one object that it sustains. The
interval kept here starts at that pace, doubles whenever the store throttles, and creeps back with
every write that it does not, whether it was applied or somebody else's came first. Failures in a
row are followed by growing, jittered waits with a limit, so that a store that comes back is found
within seconds. Nothing here does I/O or reads a clock.
"""

from __future__ import annotations

from typing import Final

from objq.ids import Ids
from objq.store.base import Throttled

FIRST_BACKOFF_S: Final = 0.05
MAX_BACKOFF_S: Final = 5.0
MAX_RETRY_AFTER_S: Final = 60.0
"""A store that asks for more than this is asked again all the same."""

MIN_THROTTLED_INTERVAL_S: Final = 0.1
MAX_INTERVAL_S: Final = 2.5
"""Until it is known how far apart the document's settings let writes be (`write_apart_s`)."""

RECOVERY: Final = 0.9
"""The share of a stretched interval that is left after a write that was not throttled."""

SMOOTHING: Final = 0.2


class Pace:
    """The interval between writes, the waits after failures, and how long a write takes."""

    def __init__(self, least_s: float, ids: Ids) -> None:
        self.least_s = least_s
        self.most_s = MAX_INTERVAL_S
        self.interval_s = least_s
        self.write_s = 0.0
        """The time a write takes, smoothed (seconds); 0 before the first."""
        self._ids = ids
        self._failures = 0
        self._last_start: float | None = None

    def delay(self, now: float) -> float:
        """Return how long to wait before the next write may start (seconds)."""
        if self._last_start is None:
            return 0.0
        return max(0.0, self._last_start + self.interval_s - now)

    def start(self, now: float) -> None:
        self._last_start = now

    def succeed(self, took_s: float) -> None:
        """Note a write that was applied and took so many seconds."""
        self._failures = 0
        self._recover()
        share = SMOOTHING if self.write_s else 1.0
        self.write_s += share * (took_s - self.write_s)

    def conflicted(self) -> None:
        """Note a write that somebody else's came before: the store refused it, but not its pace."""
        self._recover()

    def _recover(self) -> None:
        self.interval_s = max(self.least_s, self.interval_s * RECOVERY)
        if self.interval_s < MIN_THROTTLED_INTERVAL_S / 2:
            self.interval_s = self.least_s

    def limit(self, most_s: float) -> None:
        """Set how far apart writes may be at most, unless the store itself states a slower pace."""
        self.most_s = most_s
        self.interval_s = max(self.least_s, min(self.interval_s, most_s))

    def reached(self) -> None:
        """Note that an earlier attempt proved to have been applied."""
        self._failures = 0

    def fail(self, error: Exception) -> float:
        """Note a failure and return how long to wait before the next attempt (seconds)."""
        wait_s = self._ids.jitter(
            min(MAX_BACKOFF_S, FIRST_BACKOFF_S * 2 ** min(self._failures, 16))
        )
        self._failures += 1
        if not isinstance(error, Throttled):
            return wait_s
        stretched = max(MIN_THROTTLED_INTERVAL_S, self.interval_s * 2)
        self.interval_s = max(self.least_s, min(self.most_s, stretched))
        asked_s = min(MAX_RETRY_AFTER_S, error.retry_after_s or 0.0)
        return max(wait_s, asked_s)
