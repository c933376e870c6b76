"""Claims of this process that found nothing and wait for a job, looking again now and then.

Without a broker nobody tells that another process has pushed, so the document is looked at:
`POLL_FIRST_S` after there was work, and less and less often up to `POLL_LONGEST_S`, jittered. Each
look is one conditional read, which brings nothing and writes nothing when nothing has changed. What
this very process writes, and scheduled jobs that come due, are met without a poll.
"""

from __future__ import annotations

from typing import Final

from objq.broker.reading import SHORTEST_WAIT_S
from objq.client.alone import Entry
from objq.clock import Clock
from objq.core import ops
from objq.core.document import Document
from objq.ids import Ids

POLL_FIRST_S: Final = 0.25
POLL_LONGEST_S: Final = 2.0


class Patience:
    """The claims that wait, by their ids."""

    def __init__(self, clock: Clock, ids: Ids) -> None:
        self._clock = clock
        self._ids = ids
        self._claims: dict[str, Entry] = {}
        self._poll_s = POLL_FIRST_S

    def __bool__(self) -> bool:
        return bool(self._claims)

    def entries(self) -> list[Entry]:
        return list(self._claims.values())

    def take(self) -> list[Entry]:
        """Return all claims that wait, and be empty."""
        entries, self._claims = self.entries(), {}
        return entries

    def let_wait(self, entry: Entry, claim: ops.ClaimId, document: Document) -> bool:
        """Let a claim that found nothing wait; return False if it is to be answered now."""
        if entry.outcome != ops.Granted():
            self._poll_s = POLL_FIRST_S  # there may be more
            return False
        earlier = self._claims.pop(claim, None)
        if earlier is not None:
            earlier.answer(ops.Granted())  # the same claim, sent again in its place
        most_s = document.settings.claim_wait_s
        entry.wait_until = min(entry.wait_until, entry.asked_at + most_s)
        if entry.wait_until <= self._clock.monotonic():
            return False
        self._claims[claim] = entry
        return True

    def pause_s(self, document: Document | None) -> float | None:
        """Return how long to wait before the next look; None if no claim waits."""
        self._claims = {key: e for key, e in self._claims.items() if not e.future.done()}
        if not self._claims:
            return None
        now = self._clock.monotonic()
        delays_s = [entry.wait_until - now for entry in self._claims.values()]
        longest_s = POLL_LONGEST_S
        if document is not None:
            # A watch over silent claims needs reads near together; half leaves time for the read.
            longest_s = min(longest_s, document.settings.reads_apart_s / 2)
            if (due := document.next_due()) is not None:
                delays_s.append((due - self._clock.wall_ms()) / 1000)
        delays_s.append(self._ids.jitter(min(self._poll_s, longest_s)))
        self._poll_s = min(self._poll_s * 2, longest_s)
        return max(SHORTEST_WAIT_S, min(delays_s))
