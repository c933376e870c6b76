"""Waiting a moment for those who were just answered and ask again at once (design §9).

A client that pushes again as soon as it is answered just misses the write that begins with its
answer, and is served by every other write: C clients get C / 2 L pushes a second. If the loop waits
until they are all here, each write serves them all. It waits only while that pays: requests come in
a burst, much faster than they came while the write was in flight. Requests that come at random
times keep their rate, so nobody waits for them; nor does anybody for a lone client.

Measured with 1,000 clients at L = 200 ms on two cores: a fixed wait of 5 % of L had 59 % of them in
each write and acked 1,830 pushes a second; this one acks 2,800.
"""

from __future__ import annotations

from typing import Final

from objq.broker.inbox import Inbox
from objq.clock import Clock

SLICE_SHARE: Final = 0.05
"""Of the time of a write: how long one look at the arrivals takes."""

SHORTEST_SLICE_S: Final = 0.001
LONGEST_SLICE_S: Final = 0.05
BURST: Final = 2.0
"""So many times the rate of the time before is a burst."""


class Gathering:
    """`inbox` is where requests arrive. Times are monotonic seconds."""

    def __init__(self, inbox: Inbox, clock: Clock) -> None:
        self._inbox = inbox
        self._clock = clock
        self._began_at = self._ended_at = clock.monotonic()
        self._answered = 0
        self._rate = 0.0

    def commit_began(self) -> None:
        self._began_at = self._clock.monotonic()

    def commit_ended(self, answered: int) -> None:
        """Note how many requests were answered, and how fast others came meanwhile."""
        self._answered = answered
        self._ended_at = self._clock.monotonic()
        took_s = max(self._ended_at - self._began_at, SHORTEST_SLICE_S)
        self._rate = len(self._inbox) / took_s

    async def wait(self, write_s: float) -> None:
        """Wait for the followers of the last commit, at most about as long as a write takes."""
        answered, self._answered = self._answered, 0
        if answered < 2:
            return
        slice_s = min(max(write_s * SLICE_SHARE, SHORTEST_SLICE_S), LONGEST_SLICE_S)
        now = self._clock.monotonic()
        while len(self._inbox) < answered and now - self._ended_at < write_s:
            since, before = now, len(self._inbox)
            await self._inbox.wait_for(answered, slice_s)
            now = self._clock.monotonic()
            # A slice may take longer than asked for: sending answers keeps the loop busy.
            if len(self._inbox) - before <= BURST * self._rate * (now - since):
                return
