"""When the leader has something to do: the next moment to wake and to look at the store.

An idle leader looks at the store `BROKER_TTL`/4 apart, or more often where the heartbeat timeout is
short, since half of that without a confirmed access silences it (S2). Heartbeats are checked often
enough that none in the file falls more than a quarter of the timeout behind (design §5).
"""

from __future__ import annotations

from typing import Final

from objq.broker.commit import Committer
from objq.broker.confidence import Confidence
from objq.broker.leases import Leases
from objq.clock import Clock
from objq.core.ops import DocumentSettings
from objq.ids import Ids

LOOKS_PER_TRUST: Final = 4
"""At least: one that fails still leaves time for others before this broker falls silent."""

BEAT_LOOKS: Final = 4
"""While a heartbeat falls behind as far as it may; `beats_behind` asks for a write halfway."""


class Rhythm:
    """Times are monotonic seconds."""

    def __init__(
        self,
        settings: DocumentSettings,
        committer: Committer,
        confidence: Confidence,
        leases: Leases,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._beat_every_s = settings.beat_behind_s / BEAT_LOOKS
        self._look_at_most_s = min(settings.notice_s, settings.trust_s / LOOKS_PER_TRUST)
        self._committer = committer
        self._confidence = confidence
        self._leases = leases
        self._clock = clock
        self._ids = ids
        self._committed_at = clock.monotonic()
        self._look_every_s = 0.0
        self.looked()

    def looked(self) -> None:
        """Note that the store was looked at; draw anew when to look again."""
        self._look_every_s = self._ids.jitter(self._look_at_most_s)

    def commit_began(self) -> None:
        self._committed_at = self._clock.monotonic()

    def look_due_in_s(self) -> float:
        if self._confidence.must_read:
            return 0.0
        return self._committer.confirmed_at + self._look_every_s - self._clock.monotonic()

    def next_event_in_s(self, *, heard: bool, may_expire: bool, somebody_waits: bool) -> float:
        """Return when there is something to do if no request comes.

        `heard`: there are heartbeats to write down. `may_expire`: claims may end by silence.
        `somebody_waits`: a scheduled job is of use.
        """
        now = self._clock.monotonic()
        delays_s = [self.look_due_in_s()]
        if may_expire and (silence := self._leases.next_silence()) is not None:
            delays_s.append(silence - now)
        if heard:
            delays_s.append(self._committed_at + self._beat_every_s - now)
        document = self._committer.document
        if somebody_waits and document and (due := document.next_due()) is not None:
            delays_s.append((due - self._clock.wall_ms()) / 1000)
        return min(delays_s)
