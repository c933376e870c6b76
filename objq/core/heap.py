"""A heap of jobs, of which any may leave at any time."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from objq.core.job import Job

SLACK: Final = 16
"""Entries of jobs that have left stay until they are more than the others and this."""

Entry = TypeVar("Entry", bound=tuple[Any, ...])


class Heap(Generic[Entry]):
    """Entries end with their job, and the least is the head.

    A job that leaves from elsewhere than the head leaves its entry behind. So there are never more
    such entries than half and `SLACK`: beyond, all are dropped at once, which costs no more than
    their coming did.
    """

    def __init__(self, is_current: Callable[[Entry], bool]) -> None:
        """Make an empty one. `is_current` tells an entry from those that were left behind."""
        self.entries: list[Entry] = []
        self._is_current = is_current
        self._jobs = 0

    def add(self, entry: Entry) -> None:
        heapq.heappush(self.entries, entry)
        self._jobs += 1

    def head(self) -> Entry | None:
        """Return the least entry; those that were left behind are dropped when they get there."""
        entries, is_current = self.entries, self._is_current
        while entries and not is_current(entries[0]):
            heapq.heappop(entries)
        return entries[0] if entries else None

    def leave(self, job: Job) -> None:
        """Take out a job that is in it."""
        self._jobs -= 1
        if self.entries[0][-1] is job:
            heapq.heappop(self.entries)
        elif len(self.entries) > 2 * self._jobs + SLACK:
            current = {
                entry[-1].order: entry
                for entry in self.entries
                if entry[-1] is not job and self._is_current(entry)
            }
            self.entries = list(current.values())
            heapq.heapify(self.entries)
