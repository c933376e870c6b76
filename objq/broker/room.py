"""How large a document the store takes, as far as its refusals tell (S13).

`MAX_BYTES` should keep the document below what the store, or a proxy before it, takes in one write.
Where it does not, writes are refused for their size, and nobody tells which size would do, or that
a limit was raised. So what a version holds is cut down step by step until the store takes it, and
what was left out is tried again as soon as the document is smaller, and after `FORGET_AFTER_S`.
"""

from __future__ import annotations

import logging
from enum import IntEnum
from typing import Final

from objq.broker.commit import Committer
from objq.clock import Clock
from objq.core import ops
from objq.core.document import CLAIM_RESERVE_BYTES, Document
from objq.errors import QueueFull
from objq.store.base import TooLarge

logger = logging.getLogger("objq.broker")

FULL_SHARE: Final = 0.9
"""After the store refused a document as too large, pushes wait until it is this much smaller."""

FORGET_AFTER_S: Final = 60.0
"""A refusal that is older says nothing: the limit may have been raised."""

RETRY_AFTER_S: Final = 5.0
"""When to try again what made the document too large; it drains at the workers' pace."""


class Load(IntEnum):
    """What a version may hold, each less than the one before."""

    ALL = 0
    NO_GRANTS = 1
    REQUESTS = 2
    """Only what somebody asked for: no claim expires and no heartbeat is written down."""


class Room:
    """Remembers what the store refused. The sizes are those of `committer`."""

    def __init__(self, committer: Committer, clock: Clock) -> None:
        self._committer = committer
        self._clock = clock
        self._load = Load.ALL
        self._refused_at = float("-inf")
        self._said_at = float("-inf")
        self._full_bytes = 0
        self._problem = ""

    @property
    def problem(self) -> str | None:
        """Why not everything is taken now and what to do about it, for people."""
        return self._problem if self._known_bytes() is not None else None

    def refused(self, error: TooLarge, load: Load) -> None:
        """Note that the store refused a version with this load."""
        now = self._clock.monotonic()
        self._load = load
        self._refused_at = now
        self._full_bytes = self._committer.size_bytes
        self._problem = (
            f"The store takes no document of {self._committer.refused_bytes:,} bytes ({error}): "
            "pushes are refused and claims may wait. Lower MAX_BYTES on the brokers, raise the "
            "limit of the store or of a proxy before it, or delete jobs."
        )
        if now - self._said_at > FORGET_AFTER_S:
            self._said_at = now
            logger.error("%s", self._problem, extra={"event": "document_too_large"})

    def is_full(self) -> bool:
        """Tell whether a push would surely be refused."""
        known = self._known_bytes()
        return known is not None and self._committer.size_bytes > known * FULL_SHARE

    def load(self, document: Document | None) -> Load:
        """Return what the next version may hold. `document`: the one in memory, if any."""
        known = self._known_bytes()
        if known is None:
            return Load.ALL
        if self._committer.size_bytes < self._full_bytes:
            self._load = Load.ALL  # something has made room
        claims = len(document.claims) if document is not None else 0
        # With one more claim, the outcomes of all of them still have to fit.
        reserved_bytes = (claims + 1) * CLAIM_RESERVE_BYTES
        if self._committer.size_bytes + reserved_bytes > known:
            return max(self._load, Load.NO_GRANTS)
        return self._load

    def _known_bytes(self) -> int | None:
        """Return the size that the store refused last, if that still says something."""
        if self._clock.monotonic() - self._refused_at > FORGET_AFTER_S:
            self._committer.refused_bytes = None
        if self._committer.refused_bytes is None:
            self._load = Load.ALL
        return self._committer.refused_bytes


def too_large(op: ops.Op) -> QueueFull:
    """Return the refusal of what would make the document larger for good."""
    return QueueFull(
        f"The store takes no larger document, so no {ops.op_name(op)} either; the broker's log "
        "says what to do.",
        retry_after_s=RETRY_AFTER_S,
    )
