"""Request ids (promise S7): `"<seq>-<random>:<number>"`, from a `seq` seen a short while ago.

The document forgets a prefix that was not used for `DEDUPE_WINDOW`, and refuses an absent one whose
seq is at most what it has forgotten. So a prefix is drawn from a seq seen at most half the window
before, and used no longer than that; a request with an older one could only be refused.
"""

from __future__ import annotations

from objq.clock import Clock
from objq.errors import Unavailable
from objq.ids import Ids


class RequestIds:
    """Draws request ids of one process. Times are monotonic seconds."""

    def __init__(self, clock: Clock, ids: Ids, window_s: float) -> None:
        self._clock = clock
        self._ids = ids
        self.window_s = window_s
        self._seq = -1
        self._seen_at = float("-inf")
        self._prefix: str | None = None
        self._prefix_seen_at = float("-inf")
        self._number = 0

    def saw(self, seq: int, at: float) -> None:
        """Take note of a `seq`, current at `at`: when what told it was asked for, not answered."""
        if at > self._seen_at:
            self._seen_at = at
            self._seq = max(self._seq, seq)

    def is_fresh(self) -> bool:
        """Return whether an id can be drawn without asking for a newer seq first."""
        return self._is_recent(self._prefix_seen_at) or self._is_recent(self._seen_at)

    def draw(self) -> str:
        """Return a new request id. Raises Unavailable if no seq was seen recently enough."""
        if self._prefix is None or not self._is_recent(self._prefix_seen_at):
            if not self._is_recent(self._seen_at):
                raise Unavailable("No recent seq of the document is known.")
            self._prefix = self._ids.prefix(self._seq)
            self._prefix_seen_at = self._seen_at
            self._number = 0
        self._number += 1
        return f"{self._prefix}:{self._number}"

    def abandon(self, request: str) -> None:
        """Use neither the prefix of this id any more nor its seq: the document forgot both."""
        if self._prefix is None or not request.startswith(f"{self._prefix}:"):
            return  # a newer one is in use already
        if self._seen_at <= self._prefix_seen_at:
            self._seen_at, self._seq = float("-inf"), -1  # an older version may have been put back
        self._prefix, self._prefix_seen_at = None, float("-inf")

    def _is_recent(self, seen_at: float) -> bool:
        return self._clock.monotonic() - seen_at <= self.window_s / 2
