"""The checker's part for claims that end in silence: for long enough, and for a reason (S5).

A broker ends what it has not heard of for T; a direct worker ends what it has itself seen unmoved
for T, over reads at most T/4 apart (design §1).
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING

from objq.core import ops
from objq.core.ops import JobView
from tests.sim.process import Process
from tests.sim.store import Access, Version

if TYPE_CHECKING:
    from tests.sim.versions import Walk

SLACK = 1.02
"""Wall and monotonic clocks drift by less than this."""


class Expiries:
    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self._world = walk.world
        self._say = walk.say

    def check(self, version: Version, old: JobView | None, attempt: ops.Attempt) -> None:
        """Check the end of `attempt`, by the process that wrote this version; `old`: its job."""
        assert version.by is not None
        if is_broker(version.by):
            self._check_expiry_by_broker(version, attempt)
        else:
            self._check_expiry_directly(version, old, attempt)
        self._check_reason(version, attempt, version.sent_at)

    def _check_expiry_directly(
        self, version: Version, old: JobView | None, attempt: ops.Attempt
    ) -> None:
        """Check that the process has seen the claim unmoved for T, often enough (design §1)."""
        writer, sent = version.by, version.sent_at
        assert writer is not None
        claim = old.claim if old is not None else None
        if claim is not None and claim.epoch is not None:
            self._say("S5", version, f"expired {attempt.token}, which a broker had granted")
        timeout_s = self._world.options.heartbeat_timeout_s
        unmoved_s = sent - self._walk.tokens[attempt.token].moved_at
        if unmoved_s < timeout_s / SLACK:
            self._say("S5", version, f"expired {attempt.token}, which moved {unmoved_s:.2f} s ago")
        accesses = self._world.store.accesses.get(writer.name, [])
        began = sorted(access.began for access in accesses if access.ok and access.ended <= sent)
        since = sent - timeout_s / SLACK
        for read, following in pairwise([*began, sent]):
            if following > since and following - read > timeout_s / 4 * SLACK and following < sent:
                self._say(
                    "S5", version, f"expired {attempt.token}, not having looked at {read:.2f}"
                )
        if not began or began[0] > since:
            self._say("S5", version, f"expired {attempt.token}, not having looked for so long")

    def _check_expiry_by_broker(self, version: Version, attempt: ops.Attempt) -> None:
        """Check that silence was long enough when the leader decided to end the claim (S5).

        That was after the last answered access of its process before the bytes were sent (`after`),
        and no later than when they were (`sent`).
        """
        writer = version.by
        assert writer is not None
        leader = self._walk.leader
        timeout_s = self._world.options.heartbeat_timeout_s / SLACK
        sent = version.sent_at
        accesses = self._world.store.accesses.get(writer.name, [])
        last = bisect_right(accesses, sent, key=lambda access: access.ended)
        after = accesses[last - 1].ended if last else 0.0
        heard = self._world.history.heard.get((writer.name, attempt.token), [])
        if any(sent - timeout_s < at <= after for at in heard):
            self._say("S5", version, f"expired {attempt.token}, heard within the timeout")
        if leader is not None and leader.id in self._walk.led_since:
            since, wait_s = self._walk.led_since[leader.id]
            if sent < since + wait_s / SLACK:
                self._say(
                    "S5", version, f"expired a claim {sent - since:.2f} s after its take-over"
                )
        settings = self._world.options
        limit_s = min(settings.heartbeat_timeout_s / 4, settings.broker_ttl_s / 2) * 1.3
        for begin, end in writer.pauses:
            if end - begin > limit_s and sent - timeout_s < end <= after:
                self._say("S5", version, f"expired a claim {sent - end:.2f} s after its own pause")
        if self._was_cut(accesses[:last], sent - timeout_s):
            self._say("S5", version, "expired a claim too soon after it was cut from the store")

    def _was_cut(self, accesses: list[Access], since: float) -> bool:
        """Tell whether a gap of T/2 between accesses ended since then."""
        half_s = self._world.options.heartbeat_timeout_s / 2 * SLACK
        later: Access | None = None
        for access in reversed(accesses):
            if not access.ok:
                continue
            if later is not None and later.began - access.began > half_s:
                return True
            if access.ended <= since:
                return False
            later = access
        return False

    def _check_reason(self, version: Version, attempt: ops.Attempt, sent: float) -> None:
        """Check that the holder was dead, stopped, cut or ending: nothing else loses a claim."""
        world = self._world
        if attempt.token not in self._walk.ran:
            return  # nobody knew of this claim, so nothing of it runs twice
        holder = next((p for p in world.processes if p.name == attempt.worker), None)
        if holder is None or (holder.died_at is not None and holder.died_at <= sent):
            return
        since = sent - 2 * world.options.heartbeat_timeout_s
        assert version.by is not None
        places = (holder.place, version.by.place, "*")
        cuts = [cut for place in places for cut in world.history.cut.get(place, ())]
        if holder.was_paused(since, sent) or any(a < sent and b > since for a, b in cuts):
            return
        slow_s = world.options.heartbeat_timeout_s / 6
        for access in world.store.accesses.get(holder.name, ()):
            if access.ended > since and (not access.ok or access.ended - access.began > slow_s):
                return
        if holder.name in world.history.draining:
            return
        self._say("S5", version, f"{holder.name} lost the claim of {attempt.token} for no reason")


def is_broker(process: Process) -> bool:
    return process.name.startswith("broker")
