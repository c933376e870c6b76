"""What a broker counts and times of its own work: plain numbers, cheap enough for every commit.

`objq.server.metrics` shows them to Prometheus, `objq.broker.history` takes what came since its last
look.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from typing import Final

TIME_BUCKETS_S: Final = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 3600.0),
)
SIZE_BUCKETS_BYTES: Final = tuple(1024.0 * 4**power for power in range(9))  # 1 KiB to 64 MiB
COUNT_BUCKETS: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 5000.0)

MAX_SAMPLES: Final = 1_024


class Histogram:
    """Counts per bucket; `counts` has one more, for what is above the last bound."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


class Samples:
    """Some of the values since they were last taken: all, or every second, every fourth …"""

    __slots__ = ("_seen", "_step", "_values")

    def __init__(self) -> None:
        self._values: list[float] = []
        self._seen = 0
        self._step = 1

    def add(self, value: float) -> None:
        self._seen += 1
        if self._seen % self._step:
            return
        self._values.append(value)
        if len(self._values) >= MAX_SAMPLES:
            self._values = self._values[::2]
            self._step *= 2

    def take(self) -> tuple[float | None, float | None]:
        """Return median and 99th percentile, None if there was nothing, and begin anew."""
        values, self._values = sorted(self._values), []
        self._seen, self._step = 0, 1
        if not values:
            return None, None
        return values[len(values) // 2], values[len(values) * 99 // 100]


class Measures:
    """Counted since the process started, over all of its leaderships."""

    def __init__(self) -> None:
        self.commit_s = Histogram(TIME_BUCKETS_S)
        self.commit_bytes = Histogram(SIZE_BUCKETS_BYTES)
        self.batch_requests = Histogram(COUNT_BUCKETS)
        self.wait_s = Histogram(TIME_BUCKETS_S)
        self.run_s = Histogram(TIME_BUCKETS_S)
        self.recent_commit_s = Samples()
        self.recent_wait_s = Samples()
        self.expired = 0
        self.take_overs = 0
        self.batched = 0
        """Requests that commits were made for."""
        self.dropped: Counter[str] = Counter()
        """What retention and `MAX_QUEUES` have dropped, by the list that it stood in."""

    def committed(self, took_s: float, size_bytes: int) -> None:
        """Note a confirmed write."""
        self.commit_s.observe(took_s)
        self.commit_bytes.observe(size_bytes)
        self.recent_commit_s.add(took_s)

    def batch(self, requests: int) -> None:
        """Note how many requests were answered by one commit."""
        self.batch_requests.observe(requests)
        self.batched += requests

    def waited(self, wait_s: float) -> None:
        """Note a job that was granted for the first time, so long after it became ready."""
        self.wait_s.observe(wait_s)
        self.recent_wait_s.add(wait_s)

    def ran(self, times_s: Iterable[float]) -> None:
        for time_s in times_s:
            self.run_s.observe(time_s)
