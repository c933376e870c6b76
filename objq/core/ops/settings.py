"""What everybody who writes the document keeps to (design §5, §8)."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

OPEN_AT_LEAST_S: Final = 1.0
OPEN_AT_MOST_S: Final = 5.0


class DocumentSettings(Struct, frozen=True, kw_only=True):
    """What everybody who writes the document keeps to (design §5, §8); the leader's.

    The properties are the parts of the heartbeat timeout T, and of `BROKER_TTL`, that the promises
    are made of; seconds.
    """

    heartbeat_timeout_s: float = 30.0
    broker_ttl_s: float = 10.0
    dedupe_window_s: float = 120.0
    result_ttl_s: float = 86_400.0
    max_finished: int = 10_000
    dead_ttl_s: float = 2_592_000.0
    max_dead: int = 10_000
    max_jobs: int = 1_000_000
    max_bytes: int = 67_108_864
    max_job_bytes: int = 262_144
    max_result_bytes: int = 65_536
    max_error_bytes: int = 16_384
    max_queues: int = 100
    max_clients: int = 10_000
    compress_above: int = 262_144

    @property
    def trust_s(self) -> float:
        """T/2. So long after it was *asked*, what was confirmed still holds: a broker's lead after
        the last access to the store, a worker's claim after the last claim or heartbeat (S2)."""
        return self.heartbeat_timeout_s / 2

    @property
    def claim_wait_s(self) -> float:
        """T/4. The longest that a claim waits, so that its grant can still be started (S2)."""
        return self.heartbeat_timeout_s / 4

    @property
    def beat_every_s(self) -> float:
        """T/6. Workers beat so often (S2), so that two may be lost within `trust_s`."""
        return self.heartbeat_timeout_s / 6

    @property
    def open_s(self) -> float:
        """As long as between two beats, within bounds. A client waits so long for a broker to
        answer at first: the holder of a claim has T to get from a dead leader's address, which may
        not even refuse, to the successor's (S5)."""
        return min(max(self.beat_every_s, OPEN_AT_LEAST_S), OPEN_AT_MOST_S)

    @property
    def beat_behind_s(self) -> float:
        """T/4. A claim's `heartbeat_at` in the document is never further behind (design §5)."""
        return self.heartbeat_timeout_s / 4

    @property
    def reads_apart_s(self) -> float:
        """T/4. Without a broker silence counts only over reads so near together (design §1)."""
        return self.heartbeat_timeout_s / 4

    @property
    def write_apart_s(self) -> float:
        """T/12, at most BROKER_TTL/4. Writes are never further apart because a store throttled: a
        leader answers a challenge in time, and a holder that writes directly may lose many races
        within T and still win one (S5)."""
        return min(self.heartbeat_timeout_s / 12, self.notice_s)

    @property
    def notice_s(self) -> float:
        """BROKER_TTL/4. A broker looks so often, and so notices a direct push or a challenge."""
        return self.broker_ttl_s / 4

    @property
    def pause_s(self) -> float:
        """A longer gap in a broker's clock means that its process was paused (S4): well before
        `trust_s` is over, and before a standby that waits for BROKER_TTL takes over."""
        return min(self.heartbeat_timeout_s / 4, self.broker_ttl_s / 2)
