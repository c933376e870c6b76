"""A second judge of histories, for small ones: it tries whatever could have happened.

    requests that were made, in any order ─┐
    claims, starts, expiries, due times    ├─→ a queue by the book ─→ the versions that are there?
    which request is in which version     ─┘

`allows` is True if some course of a queue that keeps S1, S2, S5 to S8, S10, S12 and S15 gives this
very history. The queue is written from the promises, in a page, and shares no code with the checker
nor with objq's core. It cannot say what is wrong, and takes time exponential in the length: it is
there to test the checker, which is linear and says what is wrong (`tests.sim.crosscheck`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from tests.sim.small import T_S, Call, End, Entry, Job, Made, Small

Queue = tuple[Entry, ...]
"""All jobs; those that wait or run are in push order."""

OUTCOME: Final = {"complete": "succeeded", "fail": "failed", "release": "released"}
ENDED: Final = ("succeeded", "dead", "cancelled")


def allows(small: Small) -> bool:
    """Tell whether the history can be one of a queue that keeps its promises."""
    return (
        _chain_holds(small)
        and all(_report_holds(small, call) for call in small.calls if call.kind != "push")
        and _runs_hold(small)
        and _reads_hold(small)
        and _Search(small).from_version(0, (), frozenset())
    )


# --- versions in a row ---------------------------------------------------------------------------


def _chain_holds(small: Small) -> bool:
    died = dict(small.died)
    owners: dict[str, str] = {}
    before: Made | None = None
    if len({made.commit for made in small.versions}) < len(small.versions):
        return False
    for made in small.versions:
        is_broker = made.by.startswith("broker")
        took_over = before is None or before.broker != made.broker
        if before is not None:
            if made.seq != before.seq + 1 or made.epoch != before.epoch + took_over:
                return False
            owner = owners[before.broker]
            if took_over and owner != made.by and died.get(owner, float("inf")) > made.sent:
                return False
        elif made.seq != 1:
            return False
        if took_over and (not is_broker or made.broker in owners):
            return False
        if owners.setdefault(made.broker, made.by) != made.by and is_broker:
            return False
        before = made
    return True


# --- answers -------------------------------------------------------------------------------------


def _report_holds(small: Small, call: Call) -> bool:
    """Tell whether the answer to a report was true at some time while it was asked."""
    if call.told not in ("ok", "rejected") or call.ended is None:
        return True
    for index, made in enumerate(small.versions):
        later = small.versions[index + 1].at if index + 1 < len(small.versions) else float("inf")
        if made.at > call.ended or later <= call.began:
            continue
        token_is_live = any(entry.token == call.what for entry in made.jobs)
        outcomes = [
            end.outcome for entry in made.jobs for end in entry.history if end.token == call.what
        ]
        is_applied = outcomes == [OUTCOME[call.kind]]
        if call.told == "ok" and is_applied:
            return True
        if call.told == "rejected" and not token_is_live and not is_applied:
            return True
    return False


def _reads_hold(small: Small) -> bool:
    there = {(made.epoch, made.seq): made.at for made in small.versions}
    newest: dict[str, tuple[int, int]] = {}
    for by, at, version in small.reads:
        if version < newest.get(by, (0, 0)) or there.get(version, float("inf")) > at:
            return False
        newest[by] = version
    return True


# --- runs ----------------------------------------------------------------------------------------


class _Life(NamedTuple):
    """When a token was live, by the versions, and how that ended."""

    since: float
    until: float
    outcome: str


def _life_of(small: Small, token: str) -> _Life | None:
    since, until, outcome = None, float("inf"), "live"
    for made in small.versions:
        if any(entry.token == token for entry in made.jobs):
            since = made.at if since is None else since
            continue
        if since is not None:
            ends = [end for entry in made.jobs for end in entry.history if end.token == token]
            return _Life(since, made.at, ends[0].outcome if ends else "gone")
    return None if since is None else _Life(since, until, outcome)


def _runs_hold(small: Small) -> bool:
    died = dict(small.died)
    args = {entry.id: entry.args for made in small.versions for entry in made.jobs}
    lives = {}
    for run in small.runs:
        life = _life_of(small, run.token)
        if run.token in lives or life is None or run.args != args.get(run.job):
            return False
        if not life.since <= run.began <= life.until:
            return False
        lives[run.token] = life
    for index, run in enumerate(small.runs):
        later = [other for other in small.runs[index + 1 :] if other.job == run.job]
        if not later:
            continue
        outcome = lives[run.token].outcome
        if outcome in ("live", "succeeded", "gone"):
            return False
        ended = run.ended if run.ended is not None else died.get(run.by)
        if (ended is None or ended > later[0].began) and outcome not in ("expired", "released"):
            return False
        if outcome == "released" and run.by not in small.draining:
            return False
    return True


# --- the search ----------------------------------------------------------------------------------


class _Search:
    def __init__(self, small: Small) -> None:
        self._small = small
        self._jobs = {job.id: job for job in small.jobs}
        self._pushes = [call for call in small.calls if call.kind == "push"]
        self._died = dict(small.died)

    def from_version(self, index: int, queue: Queue, applied: frozenset[Call]) -> bool:
        """Tell whether what follows can be explained; `queue`: as the version before left it."""
        if index == len(self._small.versions):
            return all(call in applied or call.told != "ok" for call in self._pushes)
        made = self._small.versions[index]
        for call in self._pushes:  # an ok that came before its effect was durable (S2)
            if call.told == "ok" and call not in applied and (call.ended or 0.0) < made.at:
                return False
        seen = {(queue, applied)}
        waiting = list(seen)
        while waiting:
            now, done = waiting.pop()
            if _is_same(now, made.jobs) and self.from_version(index + 1, made.jobs, done):
                return True
            for step in self._steps(now, done, made):
                if step not in seen and _leads_to(step[0], made.jobs):
                    seen.add(step)
                    waiting.append(step)
        return False

    def _steps(
        self, queue: Queue, applied: frozenset[Call], made: Made
    ) -> Iterator[tuple[Queue, frozenset[Call]]]:
        for call in self._pushes:
            if call not in applied and self._may_push(call, made):
                due = self._jobs[call.what].due
                if due is None or due <= made.sent:
                    yield _pushed(queue, call.what, "ready"), applied | {call}
                if due is not None:
                    yield _pushed(queue, call.what, "scheduled"), applied | {call}
        if not made.by.startswith("broker"):
            return  # while a broker leads, others only push
        for entry in queue:
            for after in self._changes(entry, queue, made):
                if after != entry:
                    yield tuple(after if one is entry else one for one in queue), applied

    def _may_push(self, call: Call, made: Made) -> bool:
        if call.told in ("rejected", "unsent") or call.began > made.sent:
            return False
        return call.seq is None or call.seq == made.seq

    def _changes(self, entry: Entry, queue: Queue, made: Made) -> Iterator[Entry]:
        """Yield what may become of a job."""
        job = self._jobs[entry.id]
        if entry.state == "scheduled" and (job.due or 0.0) <= made.sent:
            yield entry._replace(state="ready")
        if entry.state == "ready" and self._is_next(entry, queue):
            yield from self._grants(entry, made)
        if entry.token is None:
            return
        if not entry.started and self._has_begun(entry.token, made):
            yield entry._replace(started=True, attempts=entry.attempts + 1)
        for call in self._small.calls:
            if call.what == entry.token and call.began <= made.sent and call.told != "rejected":
                yield _reported(entry, call.kind, job)
        if self._may_expire(entry.token, entry.worker, made):
            dead = entry.started and entry.attempts >= job.max_attempts
            yield _over(entry, "expired", "dead" if dead else "ready", entry.attempts)

    def _is_next(self, entry: Entry, queue: Queue) -> bool:
        """Tell whether no ready job goes before it: by priority, then in push order (S8)."""
        priority = self._jobs[entry.id].priority
        for other in queue:
            if other.state != "ready":
                continue
            if self._jobs[other.id].priority > priority:
                return False
        first = next(
            one for one in queue if one.state == "ready" and self._jobs[one.id].priority == priority
        )
        return first is entry

    def _grants(self, entry: Entry, made: Made) -> Iterator[Entry]:
        """Yield it granted under the token that it has there, if nobody had that before (S5)."""
        there = next((one for one in made.jobs if one.id == entry.id), entry)
        before = self._small.versions[: self._small.versions.index(made)]
        used = {one.token for past in before for one in past.jobs}
        used |= {end.token for past in before for one in past.jobs for end in one.history}
        used |= {one.token for one in made.jobs if one.id != entry.id}
        if there.token is not None and there.token not in used:
            alone = _was_lost_unstarted(entry)  # it counts as started at once (S10)
            yield entry._replace(
                state="running",
                token=there.token,
                worker=there.worker,
                started=alone,
                attempts=entry.attempts + alone,
            )

    def _has_begun(self, token: str, made: Made) -> bool:
        return any(run.token == token and run.began <= made.sent for run in self._small.runs)

    def _may_expire(self, token: str, worker: str, made: Made) -> bool:
        """Tell whether its holder is gone, and was not heard of for T by a leader of T (S5)."""
        small = self._small
        since = next(one.at for one in small.versions if one.broker == made.broker)
        heard = [one.at for one in small.heard if one.token == token and one.by == made.by]
        is_gone = self._died.get(worker, float("inf")) <= made.sent or worker in small.draining
        is_known = any(run.token == token for run in small.runs)
        return (
            made.sent >= since + T_S
            and not any(made.sent - T_S < at <= made.sent for at in heard)
            and (not is_known or is_gone)
        )


def _pushed(queue: Queue, job_id: str, state: str) -> Queue:
    """Append a job, unless it is there: a push has one effect (S7)."""
    if any(entry.id == job_id for entry in queue):
        return queue
    return (*queue, Entry(job_id, state))


def _reported(entry: Entry, kind: str, job: Job) -> Entry:
    """Return what a holder's report makes of its job; it is the first word of its start, or not."""
    attempts = entry.attempts + (not entry.started)
    if kind == "complete":
        return _over(entry, "succeeded", "succeeded", attempts, started=True)
    if kind == "release":
        return _over(entry, "released", "ready", entry.attempts - entry.started)
    dead = attempts >= job.max_attempts
    return _over(entry, "failed", "dead" if dead else "ready", attempts, started=True)


def _over(entry: Entry, outcome: str, state: str, attempts: int, started: bool = False) -> Entry:
    assert entry.token is not None
    end = End(entry.token, entry.worker, outcome, entry.started or started)
    history = (*entry.history, end)
    return Entry(entry.id, state, attempts, None, "", False, history, entry.args)


def _was_lost_unstarted(entry: Entry) -> bool:
    for end in reversed(entry.history):
        if end.outcome in ("failed", "expired") and (end.outcome == "failed" or not end.started):
            return end.outcome == "expired"
    return False


def _is_same(queue: Queue, other: Queue) -> bool:
    """Tell whether they are the same; of what has ended there is no order."""
    if sorted(queue) != sorted(other) if len(queue) == len(other) else True:
        return False
    return [e for e in queue if e.state not in ENDED] == [e for e in other if e.state not in ENDED]


def _leads_to(queue: Queue, goal: Queue) -> bool:
    """Tell whether one can become the other: jobs stay, and so does what has become of a claim."""
    there = {entry.id: entry for entry in goal}
    for entry in queue:
        end = there.get(entry.id)
        if end is None or end.history[: len(entry.history)] != entry.history:
            return False
    return True
