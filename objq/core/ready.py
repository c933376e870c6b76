"""The ready jobs of one queue, in the order in which they are granted (S8)."""

from __future__ import annotations

import heapq
from collections.abc import Mapping

from objq.core.job import Job


class Ready:
    """A heap by push order for each priority."""

    def __init__(self) -> None:
        self.heaps: dict[int, list[tuple[int, Job]]] = {}

    def add(self, job: Job) -> None:
        heapq.heappush(self.heaps.setdefault(job.priority, []), (job.order, job))

    def first(self, present: Mapping[str, Job]) -> Job | None:
        """Return the job that is granted next. Entries of jobs that left are dropped here."""
        while self.heaps:
            job = self._head(max(self.heaps), present)
            if job is not None:
                return job
        return None

    def leave(self, job: Job) -> None:
        """Take the job out if it is at the head; other entries are dropped when they get there."""
        heap = self.heaps.get(job.priority)
        if heap and heap[0][1] is job:
            heapq.heappop(heap)

    def oldest_since(self, present: Mapping[str, Job]) -> int | None:
        """Return since when the jobs that are next have been ready, the longest (ms).

        One of each priority is next. Entries of jobs that left are dropped here.
        """
        heads = [self._head(priority, present) for priority in list(self.heaps)]
        return min((job.ready_since for job in heads if job is not None), default=None)

    def _head(self, priority: int, present: Mapping[str, Job]) -> Job | None:
        heap = self.heaps[priority]
        while heap:
            job = heap[0][1]
            if job.state == "ready" and present.get(job.id) is job:
                return job
            heapq.heappop(heap)
        del self.heaps[priority]
        return None
