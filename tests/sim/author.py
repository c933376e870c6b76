"""Writes small histories that keep all promises, one event after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from tests.sim.small import ENDED, Call, End, Entry, Heard, Job, Made, Read, Run, Small

SILENCE_S: Final = 8.0
"""How long a dead holder is silent before its claim ends: more than the timeout."""


class NotNow(Exception):
    """The event cannot happen where the author is."""


@dataclass
class Author:
    """Writes a history that keeps all promises. Each event is a method without arguments."""

    now: float = 0.0
    jobs: list[Job] = field(default_factory=list)
    versions: list[Made] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    heard: list[Heard] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    died: dict[str, float] = field(default_factory=dict)
    draining: list[str] = field(default_factory=list)
    entries: dict[str, Entry] = field(default_factory=dict)
    broker: str = "broker-1"
    epoch: int = 1
    tokens: int = 0
    _changed: bool = False

    def __post_init__(self) -> None:
        self._commit(self.broker)

    def small(self) -> Small:
        return Small(
            jobs=tuple(self.jobs),
            versions=tuple(self.versions),
            calls=tuple(self.calls),
            runs=tuple(self.runs),
            heard=tuple(self.heard),
            reads=tuple(self.reads),
            died=tuple(self.died.items()),
            draining=tuple(self.draining),
        )

    def write(self, batches: Iterable[Iterable[str]]) -> Small:
        """Let these events happen; those of one batch are in one commit. Raises NotNow."""
        for batch in map(tuple, batches):
            if len(batch) > 1 and not ALONE.isdisjoint(batch):
                raise NotNow
            self.now += 1.0
            self._changed = False
            told: list[Callable[[], None]] = []
            for name in batch:
                answer = getattr(self, name)()
                if answer is not None:
                    told.append(answer)
            if self._changed:
                self._commit(self.broker)
            for answer in told:
                answer()
        return self.small()

    def _commit(self, by: str) -> None:
        order = tuple(entry for entry in self.entries.values() if entry.state not in ENDED)
        ended = tuple(entry for entry in self.entries.values() if entry.state in ENDED)
        seq = len(self.versions) + 1
        self.versions.append(
            Made(
                at=self.now + 0.5,
                sent=self.now + 0.4,
                by=by,
                seq=seq,
                epoch=self.epoch,
                broker=self.broker,
                commit=f"commit-{seq}",
                jobs=order + ended,
            )
        )

    def _change(self, entry: Entry, **changes: Any) -> None:
        self.entries[entry.id] = entry._replace(**changes)
        self._changed = True

    def _answer(self, call: Call, told: str, *, position: bool = True) -> Callable[[], None]:
        def answer() -> None:
            version = self.versions[-1] if position and told == "ok" else None
            seq = None if version is None else version.seq
            self.calls.append(call._replace(ended=self.now + 0.7, told=told, seq=seq))

        return answer

    def _next_job(self, due: float | None = None) -> Job:
        number = len(self.jobs) + 1
        if number > 3:
            raise NotNow
        job = Job(f"job-{number}", priority=5 if number == 3 else 0, due=due)
        self.jobs.append(job)
        return job

    def _call(self, kind: str, what: str, by: str) -> Call:
        return Call(kind, what, by, self.now + 0.1, None, "open")

    # --- pushes -----------------------------------------------------------------------------------

    def _push(self, job: Job, by: str = "client-1") -> Call:
        state = "ready" if job.due is None else "scheduled"
        self.entries[job.id] = Entry(job.id, state)
        self._changed = True
        return self._call("push", job.id, by)

    def push(self) -> Callable[[], None]:
        return self._answer(self._push(self._next_job()), "ok")

    def push_later(self) -> Callable[[], None]:
        return self._answer(self._push(self._next_job(due=self.now + 1.6)), "ok")

    def push_without_answer(self) -> Callable[[], None]:
        return self._answer(self._push(self._next_job()), "unknown")

    def push_that_is_refused(self) -> Callable[[], None]:
        return self._answer(self._call("push", self._next_job().id, "client-1"), "rejected")

    def push_that_is_lost(self) -> Callable[[], None]:
        return self._answer(self._call("push", self._next_job().id, "client-1"), "unknown")

    def push_directly(self) -> None:
        call = self._push(self._next_job(), "client-9")
        self._commit("client-9")
        self._changed = False
        self._answer(call, "ok")()

    # --- claims -----------------------------------------------------------------------------------

    def claim(self) -> None:
        self._claim("worker-1")

    def claim_elsewhere(self) -> None:
        self._claim("worker-2")

    def _claim(self, worker: str) -> None:
        priorities = {job.id: job.priority for job in self.jobs}
        due = {job.id: job.due or 0.0 for job in self.jobs}
        ready = [
            entry
            for entry in self.entries.values()
            if entry.state in ("ready", "scheduled") and due[entry.id] <= self.now
        ]
        ready.sort(key=lambda entry: -priorities[entry.id])
        if not ready or worker in self.died:
            raise NotNow
        self.tokens += 1
        token = f"token-{self.tokens}"
        entry = ready[0]
        alone = is_suspect(entry)
        attempts = entry.attempts + alone
        changes = {"token": token, "worker": worker, "started": alone, "attempts": attempts}
        self._change(entry, state="running", **changes)

    def _held(self, *, started: bool | None = None) -> Entry:
        known = {entry.token for entry in self.versions[-1].jobs}
        for entry in self.entries.values():
            is_held = entry.token is not None and entry.token in known
            is_wanted = started is None or entry.started == started
            if is_held and is_wanted and entry.worker not in self.died:
                return entry
        raise NotNow

    def start(self) -> None:
        entry = self._held(started=False)
        self._run(entry)
        self._change(entry, started=True, attempts=entry.attempts + 1)

    def _run(self, entry: Entry) -> None:
        assert entry.token is not None
        if all(run.token != entry.token for run in self.runs):
            self.runs.append(Run(entry.id, entry.token, entry.worker, self.now + 0.05, None))
        self.heard.append(Heard(self.broker, entry.token, self.now + 0.2))

    def _report(self, kind: str) -> tuple[Entry, Call]:
        entry = self._held()
        assert entry.token is not None
        self._run(entry)
        self._stop(entry.token, self.now + 0.08)
        call = self._call(kind, entry.token, entry.worker)
        return entry, call

    def _stop(self, token: str, at: float) -> None:
        self.runs = [
            run._replace(ended=at) if run.token == token and run.ended is None else run
            for run in self.runs
        ]

    def _end(self, entry: Entry, outcome: str, state: str, attempts: int, started: bool) -> None:
        assert entry.token is not None
        end = End(entry.token, entry.worker, outcome, started)
        self._change(
            entry,
            state=state,
            attempts=attempts,
            token=None,
            worker="",
            started=False,
            history=(*entry.history, end),
        )

    def complete(self) -> Callable[[], None]:
        entry, call = self._report("complete")
        self._end(entry, "succeeded", "succeeded", entry.attempts + (not entry.started), True)
        return self._answer(call, "ok")

    def complete_without_answer(self) -> Callable[[], None]:
        entry, call = self._report("complete")
        self._end(entry, "succeeded", "succeeded", entry.attempts + (not entry.started), True)
        return lambda: self.calls.append(call)

    def fail(self) -> Callable[[], None]:
        entry, call = self._report("fail")
        attempts = entry.attempts + (not entry.started)
        dead = attempts >= next(job.max_attempts for job in self.jobs if job.id == entry.id)
        self._end(entry, "failed", "dead" if dead else "ready", attempts, True)
        return self._answer(call, "ok")

    def release(self) -> Callable[[], None]:
        entry = self._held()
        assert entry.token is not None
        self.heard.append(Heard(self.broker, entry.token, self.now + 0.2))
        self._stop(entry.token, self.now + 0.08)
        self.draining.append(entry.worker)
        call = self._call("release", entry.token, entry.worker)
        self._end(entry, "released", "ready", entry.attempts - entry.started, entry.started)
        return self._answer(call, "ok")

    def repeat(self) -> Callable[[], None]:
        """Repeat the last report: it gets the same answer, from what is there."""
        reports = [call for call in self.calls if call.kind != "push" and call.told != "rejected"]
        if not reports or reports[-1].by in self.died:
            raise NotNow
        last = reports[-1]
        self.heard.append(Heard(self.broker, last.what, self.now + 0.2))
        return self._answer(self._call(last.kind, last.what, last.by), "ok", position=False)

    def report_too_late(self) -> Callable[[], None]:
        """Report on a claim that has ended otherwise: refused."""
        ends = [end for made in self.versions[-1].jobs for end in made.history]
        late = [end for end in ends if end.outcome != "succeeded"]
        if not late or late[-1].worker in self.died:
            raise NotNow
        call = self._call("complete", late[-1].token, late[-1].worker)
        self.heard.append(Heard(self.broker, late[-1].token, self.now + 0.2))
        return self._answer(call, "rejected")

    # --- trouble ----------------------------------------------------------------------------------

    def crash(self) -> None:
        """Let a worker die, and its claims end in silence."""
        entry = self._held()
        self.died[entry.worker] = self.now + 0.3
        self.now += SILENCE_S
        for one in list(self.entries.values()):
            if one.token is not None and one.worker == entry.worker:
                limit = next(job.max_attempts for job in self.jobs if job.id == one.id)
                dead = one.started and one.attempts >= limit
                self._end(one, "expired", "dead" if dead else "ready", one.attempts, one.started)

    def take_over(self) -> None:
        if self.broker != "broker-1":
            raise NotNow
        self.died[self.broker] = self.now + 0.1
        self.broker, self.epoch = "broker-2", self.epoch + 1
        self._commit(self.broker)

    def look(self) -> None:
        newest = self.versions[-1]
        self.reads.append(Read("client-1", self.now + 0.3, (newest.epoch, newest.seq)))


EVENTS: Final = (
    *("push", "push_later", "push_without_answer", "push_that_is_refused", "push_that_is_lost"),
    *("push_directly", "claim", "claim_elsewhere", "start", "complete", "complete_without_answer"),
    *("fail", "release", "repeat", "report_too_late", "crash", "take_over", "look"),
)
ALONE: Final = frozenset({"push_directly", "crash", "take_over"})
"""Those that write a version of their own, or take their time."""


def is_suspect(entry: Entry) -> bool:
    """Tell whether the job may have killed its worker before it had begun, and not run since."""
    for end in reversed(entry.history):
        if end.outcome == "failed":
            return False
        if end.outcome == "expired" and not end.started:
            return True
    return False
