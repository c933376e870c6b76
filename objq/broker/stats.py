"""Counters of the commit loop, for metrics and tests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class CommitStats:
    """Counters since the process started. `lost_commits` above 0 means a store without real CAS."""

    commits: int = 0
    attempts: int = 0
    conflicts: int = 0
    ambiguous: int = 0
    throttled: int = 0
    failures: int = 0
    reads: int = 0
    bytes_written: int = 0
    max_in_flight: int = 0
    lost_commits: int = 0
