"""The ready jobs of one queue, in the order in which they are granted (S8)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from objq.core.heap import Heap
from objq.core.job import Job

Entry = tuple[int, Job]


class Ready:
    """A heap by push order for each priority. `present`: the jobs of the document by id."""

    def __init__(self, present: Mapping[str, Job]) -> None:
        self._heaps: dict[int, Heap[Entry]] = {}
        self._present = present

    def add(self, job: Job) -> None:
        heap = self._heaps.get(job.priority)
        if heap is None:
            present = self._present
            heap = self._heaps[job.priority] = Heap(lambda entry: _is_current(entry, present))
        heap.add((job.order, job))

    def first(self) -> Job | None:
        """Return the job that is granted next."""
        while self._heaps:
            job = self._head(max(self._heaps))
            if job is not None:
                return job
        return None

    def leave(self, job: Job) -> None:
        """Take out a job that is ready no longer."""
        self._heaps[job.priority].leave(job)

    def oldest_since(self) -> int | None:
        """Return since when the jobs that are next have been ready, the longest (ms).

        One of each priority is next.
        """
        heads = [self._head(priority) for priority in list(self._heaps)]
        return min((job.ready_since for job in heads if job is not None), default=None)

    def count(self) -> int:
        """Return how many `entries` there are."""
        return sum(len(heap.entries) for heap in self._heaps.values())

    def entries(self) -> Iterator[Job]:
        """Yield the jobs in no order, with some that have left, and some twice."""
        for heap in self._heaps.values():
            for _, job in heap.entries:
                yield job

    def _head(self, priority: int) -> Job | None:
        head = self._heaps[priority].head()
        if head is not None:
            return head[1]
        del self._heaps[priority]
        return None


def _is_current(entry: Entry, present: Mapping[str, Job]) -> bool:
    job = entry[1]
    return job.state == "ready" and present.get(job.id) is job
