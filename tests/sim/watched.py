"""The checker's part for those who watch: what they were told is what the version log says (S11).

A watcher keeps what a snapshot says and changes it as each delta says. After every event that must
be what the version in the log with the same number says: the counts of every queue, and of the jobs
that deltas have told of whatever they were told of since the snapshot. Two things are told before
they are written down, since they need no commit: that a scheduled job is due, and that a job that
was granted has begun.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from objq.client.watching import Disconnected, Event
from objq.core import ops
from tests.sim.versions import File, Walk

if TYPE_CHECKING:
    from tests.sim.world import World

MOST_TOLD = 100
"""Running jobs of a snapshot, and changed ones of a delta."""

LATE_S = 4.0
"""How far behind the last version a watcher may be when nothing is written any more."""


class Watcher:
    """What one session knows, from what it was told."""

    def __init__(self, name: str, walk: Walk) -> None:
        self.problems: list[str] = []
        self.version: tuple[int, int] = (-1, -1)
        """(epoch, seq)."""
        self.is_lost = True
        self._name = name
        self._walk = walk
        self._document = ""
        self._files: list[File] = []
        self._queues: dict[str, ops.QueueStats] = {}
        self._jobs: dict[str, ops.JobSummary | None] = {}

    def take(self, at: float, event: Event) -> None:
        if isinstance(event, Disconnected):
            if self.is_lost and self._document:
                self.say(at, "was told twice that nothing is known")
            self.is_lost = True
            return
        version = event.epoch, event.seq
        if version < self.version:
            self.say(at, f"S11: {version} after {self.version}")
        if isinstance(event, ops.Statistics):
            self._begin(at, event)
        else:
            self._follow(at, event)
        self.version, self.is_lost = version, False
        self._compare(at)

    def say(self, at: float, text: str) -> None:
        self.problems.append(f"watch: {self._name} at {at:.2f}: {text}")

    def _begin(self, at: float, snapshot: ops.Statistics) -> None:
        self._document = snapshot.document
        self._queues, self._jobs = dict(snapshot.queues), {}
        self._files = self._at(snapshot.epoch, snapshot.seq)
        running = {run.id for run in snapshot.running}
        if not any(_is_part(running, _of_state(f, "running")) for f in self._files):
            self.say(at, f"the running jobs at {snapshot.seq} are others than {sorted(running)}")

    def _follow(self, at: float, delta: ops.Delta) -> None:
        if self.is_lost:
            self.say(at, "a delta that follows no snapshot")
        if delta.after > self.version[1] or delta.epoch != self.version[0]:
            self.say(at, f"a gap: {self.version}, and then a delta after {delta.after}")
        before, self._files = self._files, self._at(delta.epoch, delta.seq)
        self._queues.update(delta.queues)
        told = {job.id: job for job in delta.jobs}
        self._jobs |= told | dict.fromkeys(delta.removed)
        if len(before) == len(self._files) == 1 and not delta.left_out:
            untold = _changed(before[0], self._files[0]) - told.keys() - set(delta.removed)
            if untold:
                self.say(at, f"nothing was said of {sorted(untold)} at {delta.seq}")
        elif delta.left_out:
            self._jobs.clear()

    def _at(self, epoch: int, seq: int) -> list[File]:
        return self._walk.files.get((self._document, epoch, seq), [])

    def _compare(self, at: float) -> None:
        if not self._files:
            self.say(at, f"S2: told of {self.version}, which is in no version")
        elif not any(self._is_as_in(file, at) for file in self._files):
            self.say(at, f"what is known at {self.version} is not what stands there")

    def _is_as_in(self, file: File, at: float) -> bool:
        leaders = [p for p in self._walk.world.processes if p.name.startswith("broker")]
        wall_ms = max(leader.clock.highest_wall_ms(at) for leader in leaders)
        views = _views(file)
        due = {v.id for v in views.values() if _is_due(v, wall_ms)}
        there = _queues(file, views)
        for name in there.keys() | self._queues.keys():
            stands = there.get(name, ops.QueueStats())
            told = self._queues.get(name, ops.QueueStats())
            early = told.ready - stands.ready
            if not 0 <= early <= len(due):
                return False
            stands = msgspec.structs.replace(
                stands,
                ready=told.ready,
                scheduled=stands.scheduled - early,
                oldest_ready_at=None,
            )
            if stands != msgspec.structs.replace(
                told, oldest_ready_at=None, totals=_counted(told.totals)
            ):
                return False
        return self._jobs_are_as_in(views, due)

    def _jobs_are_as_in(self, found: dict[str, ops.JobView], due: set[str]) -> bool:
        for job_id, told in self._jobs.items():
            view = found.get(job_id)
            if (told is None) != (view is None):
                return False
            if told is None or view is None:
                continue
            worker = view.claim.worker if view.claim is not None else None
            state = "scheduled" if told.state == "ready" and job_id in due else told.state
            are = state, told.worker, told.queue, told.cancel_requested
            if are != (view.state, worker, view.queue, view.cancel_requested):
                return False
            may_begin = view.claim is not None and view.claim.started_at is None
            if told.attempts not in (view.attempts, view.attempts + may_begin):
                return False
        return True


def check_watchers(world: World, walk: Walk) -> list[str]:
    problems = []
    for name, told in world.history.watched.items():
        watcher = Watcher(name, walk)
        for at, event in told:
            watcher.take(at, event)
        problems.extend(watcher.problems[:3])
        problems.extend(_check_end(world, name, watcher))
    return problems


def _check_end(world: World, name: str, watcher: Watcher) -> list[str]:
    """Check that who still watches has arrived at what stands there in the end."""
    actor = next(w for w in world.watchers if name.startswith(f"{w.name}."))
    last = world.store.log[-1] if world.store.log else None
    # Nobody tells of what is written without a broker, nor by whom only a broken one can be heard.
    if actor.process.name != name or actor.broken or last is None or last.mark is None:
        return []
    document = world.document()
    leaders = [b for b in world.brokers if b.is_up and not b.broken]
    urls = [b.url for b in leaders]
    if document is None or document.broker is None or document.broker.url not in urls:
        return []
    at_end = (last.mark.epoch, last.mark.seq)
    if world.timeline.now - last.at < LATE_S or (watcher.version == at_end and not watcher.is_lost):
        return []
    state = "lost" if watcher.is_lost else "connected"
    return [f"liveness: {name} is {state} at {watcher.version} when all ends with {at_end}"]


# --- what stands in a version ---------------------------------------------------------------------


def _views(file: File) -> dict[str, ops.JobView]:
    raws = (*file.jobs, *file.dead, *file.finished)
    views = (msgspec.json.decode(bytes(raw), type=ops.JobView) for raw in raws)
    return {view.id: view for view in views}


def _is_due(view: ops.JobView, wall_ms: int) -> bool:
    return view.state == "scheduled" and (view.run_after or 0) <= wall_ms


def _queues(file: File, views: dict[str, ops.JobView]) -> dict[str, ops.QueueStats]:
    counts: dict[str, dict[str, Any]] = {name: {} for name in (*file.totals, *file.queues)}
    places = {"succeeded": "finished", "cancelled": "finished"}
    for view in views.values():
        queue = counts.setdefault(view.queue, {})
        place = places.get(view.state, view.state)
        queue[place] = queue.get(place, 0) + 1
    return {
        name: ops.QueueStats(
            **counted,
            paused=bool(file.queues.get(name, {}).get("paused")),
            totals=_counted(file.totals.get(name, {})),
        )
        for name, counted in counts.items()
    }


def _counted(totals: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in totals.items() if count}


def _of_state(file: File, state: str) -> set[str]:
    return {view.id for view in _views(file).values() if view.state == state}


def _is_part(told: set[str], there: set[str]) -> bool:
    return told <= there and len(told) == min(MOST_TOLD, len(there))


def _changed(before: File, after: File) -> set[str]:
    """Return the jobs of which more has changed than what rides on commits.

    A heartbeat is never told of. That a job is due or has begun may be known to the broker before a
    watch begins, and be written down after.
    """
    old, new = _views(before), _views(after)
    return {
        job_id
        for job_id in old.keys() | new.keys()
        if _told_of(old.get(job_id)) != _told_of(new.get(job_id))
    }


def _told_of(view: ops.JobView | None) -> ops.JobView | None:
    if view is not None and view.state in ("scheduled", "ready"):
        return msgspec.structs.replace(view, state="ready", run_after=None)
    if view is None or view.claim is None:
        return view
    claim = msgspec.structs.replace(view.claim, heartbeat_at=0, heartbeat_seq=0, started_at=None)
    return msgspec.structs.replace(view, claim=claim, attempts=0)
