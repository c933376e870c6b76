"""The checker's part for what becomes of a job from one version to the next (S6, S8, S10, S15).

A job changes its state, and its attempts, for a reason: a claim that ended, one that was granted or
begun, the time that has come, or an operator. Jobs that wait keep their order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from objq.core.ops import Attempt, JobView
from tests.sim.store import Version

if TYPE_CHECKING:
    from tests.sim.versions import File, Walk

Asked = dict[str, dict[str, int]]
"""How often each operation was asked for each job."""

REASONS = {"succeeded": ("succeeded",), "dead": ("failed", "expired"), "scheduled": ("failed",)}
"""By state: how a claim ended that made it so."""

LEAST_HISTORY = 2
"""What of a job's claims that ended is kept at least, however full the document is (S13)."""


class Lives:
    def __init__(self, walk: Walk, asked: Asked, view: Callable[[bytes], JobView]) -> None:
        self._world = walk.world
        self._say = walk.say
        self._asked = asked
        self._view = view
        self._first_run: dict[str, float] = {}
        for run in walk.world.history.runs:
            self._first_run.setdefault(run.token, run.began)

    def check_new(self, version: Version, new: JobView) -> None:
        """Check a job that stands there for the first time."""
        pushed = self._world.jobs.get(new.id)
        if pushed is None:
            return
        if new.run_after not in (None, pushed.run_after) or (
            new.state == "scheduled" and new.run_after is None
        ):
            self._say("S9", version, f"{new.id} was pushed for another time")
        if new.state != "scheduled" and self._is_early(version, new, pushed.run_after):
            self._say("S15", version, f"{new.id} is {new.state} before its time")
        if new.state in ("succeeded", "dead") or self._is_cancelled_unasked(new):
            self._say("S6", version, f"{new.id} came as {new.state}")
        started = new.claim is not None and new.claim.started_at is not None
        if new.attempts != started:
            self._say("S10", version, f"{new.id} came with {new.attempts} attempts")

    def check_change(self, version: Version, old: JobView, new: JobView) -> None:
        known = {attempt.token for attempt in old.history}
        ended = [attempt for attempt in new.history if attempt.token not in known]
        kept = tuple(attempt for attempt in new.history if attempt.token in known)
        is_shortened = len(new.history) >= LEAST_HISTORY
        if kept != old.history and not (is_shortened and old.history[-len(kept) :] == kept):
            self._say("S6", version, f"{new.id}: what its claims came to is another")
        if new.state != old.state:
            self._check_reason(version, old, new, ended)
        if new.state != "succeeded" and any(end.outcome == "succeeded" for end in ended):
            self._say("S6", version, f"{new.id} was completed and is {new.state}")
        if new.claim is not None and any(end.token == new.claim.token for end in new.history):
            self._say("S5", version, f"{new.id}: the claim that it has came to an end")
        self._check_start(version, old, new)
        is_granted = new.claim is not None and (
            old.claim is None or old.claim.token != new.claim.token
        )
        if is_granted and _is_suspect(old, ended) and not _is_alone(new):
            self._say("S10", version, f"{new.id} was lost unstarted and is not granted as started")
        was_over = old.state in ("dead", "cancelled")
        is_retried = was_over and new.state not in ("dead", "cancelled")
        expected = (0 if is_retried else old.attempts) + _counted(old, new, ended)
        burnt = any(end.outcome == "failed" or _is_lost_started(end) for end in ended)
        spent = expected - (is_granted and _is_alone(new))
        if burnt and spent >= new.max_attempts and new.state not in ("dead", "cancelled"):
            self._say("S10", version, f"{new.id} is {new.state} after its last attempt")
        # One whose cancellation was asked for keeps what was counted so far.
        if new.state != "cancelled" and new.attempts != expected:
            self._say("S10", version, f"{new.id} has {new.attempts} attempts, not {expected}")

    def _check_start(self, version: Version, old: JobView, new: JobView) -> None:
        """Check that what stands there as begun has begun, or was granted as such (S10)."""
        claim, before = new.claim, old.claim
        if claim is None or claim.started_at is None or claim.alone:
            return
        if before is not None and before.token == claim.token and before.started_at is not None:
            return
        if self._first_run.get(claim.token, float("inf")) > version.sent_at:
            self._say("S10", version, f"{new.id} has begun, and did not run yet")

    def _check_reason(
        self, version: Version, old: JobView, new: JobView, ended: list[Attempt]
    ) -> None:
        reasons = REASONS.get(new.state)
        if reasons is not None and all(attempt.outcome not in reasons for attempt in ended):
            self._say("S6", version, f"{new.id} was {old.state} and is {new.state} for no reason")
        if self._is_cancelled_unasked(new):
            self._say("S6", version, f"{new.id} was cancelled by nobody")
        is_waited_out = old.state == "scheduled" and new.state in ("ready", "running")
        if is_waited_out and self._is_early(version, new, old.run_after):
            self._say("S15", version, f"{new.id} is {new.state} before its time")

    def _is_early(self, version: Version, view: JobView, due: int | None) -> bool:
        assert version.by is not None
        is_asked = any(view.id in self._asked.get(name, {}) for name in ("run_now", "cancel"))
        by_then = version.by.clock.highest_wall_ms(version.sent_at)
        return due is not None and due > by_then and not is_asked

    def _is_cancelled_unasked(self, view: JobView) -> bool:
        return view.state == "cancelled" and view.id not in self._asked.get("cancel", {})

    def check_order(
        self, version: Version, before: File, file: File, granted: list[JobView]
    ) -> None:
        """Check that waiting jobs keep their order, and that none passed one of more priority."""
        old = [self._view(bytes(raw)) for raw in before.jobs]
        new = [self._view(bytes(raw)) for raw in file.jobs]
        moved = self._asked.get("retry", {}).keys()
        stayed = {view.id for view in old} & {view.id for view in new}
        expected = [view.id for view in old if view.id in stayed - moved]
        if expected != [view.id for view in new if view.id not in moved][: len(expected)]:
            self._say("S8", version, "jobs have changed places")
        if not granted:
            return
        was = {view.id: view.state for view in old}
        place = {view.id: number for number, view in enumerate(new)}
        for view in new:
            paused = any(f.queues.get(view.queue, {}).get("paused") for f in (before, file))
            if view.state != "ready" or paused or was.get(view.id, "ready") != "ready":
                continue
            for one in granted:
                # Of two that are new, the one that stands first was there first.
                waited = view.id in was or (one.id not in was and place[view.id] < place[one.id])
                if waited and one.queue == view.queue and one.priority < view.priority:
                    self._say("S8", version, f"{one.id} was granted before {view.id}")


def _is_suspect(old: JobView, ended: list[Attempt]) -> bool:
    """Tell whether the job may be what killed its last worker before it began."""
    suspect = old.alone or (old.claim is not None and old.claim.alone)
    for attempt in ended:
        if attempt.outcome == "expired" and attempt.started_at is None:
            suspect = True
        elif attempt.outcome == "failed":
            suspect = False
    return suspect


def _is_lost_started(end: Attempt) -> bool:
    return end.outcome == "expired" and end.started_at is not None


def _is_alone(view: JobView) -> bool:
    claim = view.claim
    return claim is not None and claim.alone and claim.started_at is not None


def _counted(old: JobView, new: JobView, ended: list[Attempt]) -> int:
    """Return how many attempts more there have to be: starts count, unless they are handed back."""
    token = old.claim.token if old.claim is not None else None
    had_started = old.claim is not None and old.claim.started_at is not None
    count = 0
    for attempt in ended:
        before = had_started and attempt.token == token
        if attempt.outcome == "released":
            count -= before
        elif attempt.outcome == "expired":
            count += attempt.started_at is not None and not before
        else:
            count += not before
    if new.claim is not None and new.claim.started_at is not None:
        count += not (had_started and new.claim.token == token)
    return count
