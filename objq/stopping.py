"""How a process is asked to end: by a signal, to end well, and by one more, to end at once."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Final, NoReturn

from objq.clock import Clock

ONE_REQUEST_S: Final = 0.5
"""Signals so soon after the first are the same request: a Ctrl-C comes from the terminal as SIGINT,
and from a process manager that passes it on as SIGTERM."""


class StopRequests:
    """The signals that ask a process to end."""

    def __init__(self, clock: Clock) -> None:
        self.first_at: float | None = None
        """When the first came (monotonic seconds)."""
        self._clock = clock

    def heard(self) -> bool:
        """Note a signal; return whether it asks once more."""
        now = self._clock.monotonic()
        if self.first_at is None:
            self.first_at = now
        return now - self.first_at >= ONE_REQUEST_S


def exit_at_once(code: int) -> NoReturn:
    """End the process whatever its threads do."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # nobody may read it, or a job has put junk there
            stream.flush()
    os._exit(code)
