"""When a claim that was granted directly may be ended, without a broker that hears its holder.

Without a broker a holder shows that it lives by commits that move its claim's `heartbeat_seq`.
Every direct worker watches that for itself, and ends a claim only when it has *itself* seen the
value unchanged for a full heartbeat timeout, over successful reads at most a quarter of it apart
(design §1). Where a read is missing, the store may have been out of reach for the holder as well,
or this process was paused: all that was seen counts for nothing and the watch begins anew.

Not watched are claims of a broker (they carry its epoch), whose holders beat over the wire only;
while a broker is recorded nothing is watched at all, since ending claims is its business.

Times are seconds of the watching process's own monotonic clock, and are passed in. A value that a
read brought may have changed after the read began and before it ended; so the first sighting counts
from the end of its read, and the last one to the beginning of its read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from objq.core.ops import Claim

NEVER: Final = float("-inf")


class _Sighting(NamedTuple):
    heartbeat_seq: int
    first_seen: float


class SilenceWatch:
    """What one process has seen of the direct claims of one document."""

    def __init__(self) -> None:
        self._sightings: dict[str, _Sighting] = {}
        self._last_read = NEVER

    def look(self, claims: Iterable[Claim], *, apart_s: float, began: float, ended: float) -> None:
        """Take note of the live claims in a version that a store access found to be the newest.

        `began`, `ended`: when that access did. `apart_s`: the document's `reads_apart_s`.
        """
        if ended - self._last_read > apart_s:
            self._sightings = {}
        known, self._sightings = self._sightings, {}
        for claim in claims:
            if claim.epoch is not None:
                continue
            before = known.get(claim.token)
            if before is None or before.heartbeat_seq != claim.heartbeat_seq:
                before = _Sighting(claim.heartbeat_seq, ended)
            self._sightings[claim.token] = before
        self._last_read = began

    def restart(self) -> None:
        """Forget everything: claims are somebody else's business now."""
        self._sightings = {}
        self._last_read = NEVER

    def silent(self, timeout_s: float) -> list[str]:
        """Return the tokens whose holders were silent for the timeout, as of the last read."""
        return [
            token
            for token, sighting in self._sightings.items()
            if self._last_read - sighting.first_seen >= timeout_s
        ]

    def unmoved_s(self, token: str) -> float | None:
        """Return for how long a claim was seen unchanged (seconds); None if it is not watched."""
        sighting = self._sightings.get(token)
        return None if sighting is None else max(0.0, self._last_read - sighting.first_seen)
