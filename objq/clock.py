"""Time comes in from outside: everything that waits or measures takes a `Clock`."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def wall_ms(self) -> int:
        """Milliseconds since the epoch, UTC; may step. For the file and for `run_after` only."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back, with the time of a suspend counted. For every timeout."""
        ...


class SystemClock:
    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    # CLOCK_BOOTTIME goes on while the machine sleeps; CLOCK_MONOTONIC on Linux does not.
    if hasattr(time, "CLOCK_BOOTTIME"):

        def monotonic(self) -> float:
            return time.clock_gettime(time.CLOCK_BOOTTIME)

    else:

        def monotonic(self) -> float:
            return time.monotonic()


SYSTEM_CLOCK = SystemClock()
