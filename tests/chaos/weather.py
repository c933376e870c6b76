"""What becomes of the store's requests on their way through the proxy."""

from __future__ import annotations

import random
from collections import Counter

from tests.http1 import Message
from tests.proxy import Action, CutReply, Drop, Forward, s3_error

LATE_S = 1.5
"""The delay of a write that its sender is likely to have given up on, or to be impatient about."""

SLOW_S = 0.4


class Weather:
    """A rule of `tests.proxy`, from a seed; `rough` may change at any time. Counts what it did."""

    def __init__(self, seed: int) -> None:
        self.rough = False
        self.writes = 0
        self.done: Counter[str] = Counter()
        self._random = random.Random(seed)

    def __call__(self, request: Message) -> Action | None:
        self.writes += request.is_write
        if not self.rough:
            return None
        name, action = self._write() if request.is_write else self._read()
        if action is not None:
            self.done[name] += 1
        return action

    def _write(self) -> tuple[str, Action | None]:
        drawn = self._random.random()
        if drawn < 0.08:
            return "reply cut", CutReply()
        if drawn < 0.09:
            return "late, reply cut", CutReply(delay_s=LATE_S)
        if drawn < 0.11:
            return "dropped", Drop()
        if drawn < 0.13:
            return "503", s3_error(503, "SlowDown")
        if drawn < 0.14:
            return "500", s3_error(500, "InternalError")
        if drawn < 0.15:
            return "409", s3_error(409, "ConditionalRequestConflict")
        if drawn < 0.20:
            return "slow", Forward(delay_s=self._random.random() * SLOW_S)
        return "", None

    def _read(self) -> tuple[str, Action | None]:
        drawn = self._random.random()
        if drawn < 0.02:
            return "read dropped", Drop()
        if drawn < 0.03:
            return "read 500", s3_error(500, "InternalError")
        if drawn < 0.06:
            return "read slow", Forward(delay_s=self._random.random() * SLOW_S)
        return "", None
