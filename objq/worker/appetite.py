"""How many jobs a worker asks for, and whether its claim waits.

A job that is held and cannot start is kept from a worker that could start it. So only a free slot
waits for a job; jobs beyond the free slots are asked for without waiting, which brings only what
nobody else waits for, and only while jobs are so short that these will start soon. Otherwise a slot
that gets free would stand idle for the commits that a claim takes.

======================  =====================  ====================================================
slots                   last claim             next claim
======================  =====================  ====================================================
some are free           brought all it asked   free slots + prefetch, without waiting
some are free           brought less           free slots, waiting
all are busy            brought all it asked   prefetch, without waiting
all are busy            brought less           none until a job has ended
======================  =====================  ====================================================
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

SHORT_JOB_S: Final = 1.0
"""Nothing is prefetched while jobs take longer than this on average."""

WEIGHT_OF_LAST: Final = 0.2

STUCK_AFTER_S: Final = 5.0
"""A job that has waited so long for a slot is handed back, for others to run."""


class Ask(NamedTuple):
    max_jobs: int
    wait_s: float


class Appetite:
    def __init__(self, prefetch: int) -> None:
        self._prefetch = prefetch
        self._mean_s = math.inf
        """Of the jobs that ended lately; not known at first."""
        self._emptied = False
        """Whether the last claim brought less than it asked for."""

    def next(self, *, free: int, busy: int, waiting: int, wait_s: float) -> Ask | None:
        """Return what to ask for, or None: nothing, until something changes.

        `free` and `busy` are slots (without those that a timed-out job keeps), `waiting` the jobs
        that are held and have not started.
        """
        spare = free - waiting
        if spare > 0 and self._emptied:
            return Ask(spare, wait_s)
        prefetch = self._prefetch if free + busy and self._mean_s < SHORT_JOB_S else 0
        if self._emptied or spare + prefetch <= 0:
            return None
        return Ask(spare + prefetch, 0.0)

    def answered(self, ask: Ask, jobs: int) -> None:
        self._emptied = jobs < ask.max_jobs

    def ended(self, duration_s: float) -> None:
        """A job has ended: the queue may have more, and how long it took is a lesson."""
        self._emptied = False
        if math.isinf(self._mean_s):
            self._mean_s = duration_s
        else:
            self._mean_s += (duration_s - self._mean_s) * WEIGHT_OF_LAST

    def stuck(self) -> None:
        """Prefetched jobs did not get to start: prefetch nothing before that is learned anew."""
        self._mean_s = math.inf
