"""A world from a seed: first everything goes wrong, then a healthy core has to finish all work.

    0 ─ brokers, clients and workers start ─ faults ─ heal ─ all acked jobs finish ─ idle ─ end

After the heal some brokers, workers and clients stay broken for good, at least one of each is well,
and so are the store and the network between those. What is then not done within the limits is a
violation, and so is a write to the store while there is nothing to do.
"""

from __future__ import annotations

import gc
import hashlib
import random
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Raw

from objq.core import ops
from objq.core.codec import decode
from objq.core.document import Document
from objq.core.job import Job
from objq.errors import Corrupt
from objq.options import Options
from objq.store.base import Tag
from tests.sim import faults
from tests.sim.actors import (
    QUEUES,
    Actor,
    BrokerActor,
    ClientActor,
    DirectWorkerActor,
    WatcherActor,
    WorkerActor,
)
from tests.sim.company import Company
from tests.sim.history import History
from tests.sim.loop import Endless, Timeline
from tests.sim.network import Network
from tests.sim.operator import Operator
from tests.sim.process import Process
from tests.sim.store import SimStore, Weather

END_STATES: Final = frozenset({"succeeded", "dead", "cancelled"})


class World:
    """Make it from a seed, `run` it, and give it to the checker."""

    def __init__(
        self,
        seed: int,
        kinds: Sequence[faults.Fault] | None = None,
        company: Company | None = None,
    ) -> None:
        """`kinds`: what befalls it, and `company`: who is there, instead of the seed's choice."""
        self.seed = seed
        self.company = company if company is not None else Company.drawn(seed)
        self.rng = random.Random(f"{seed}/world")
        self.timeline = Timeline()
        self.history = History()
        self.processes: list[Process] = []
        self.known: list[str] = []
        """Ids of the jobs that somebody began to push."""
        self.jobs: dict[str, ops.NewJob] = {}
        self.is_healing = False
        self.has_pushed = False
        """A push has worked after the heal."""
        self.is_over = False
        self._document: tuple[Tag, Document] | None = None
        self.healed_at = 0.0
        self._draw_options()
        timeout_s = self.options.heartbeat_timeout_s
        self.store = SimStore(
            random.Random(f"{seed}/store"), lambda: self.timeline.now, min(10.0, timeout_s / 3)
        )
        self.store.has_content_tags = self.company.content_tags
        # A pace of a second goes with timeouts of many.
        self.store.pace_s = self.rng.choice((0.0, 0.0, timeout_s / 30))
        self.network = Network(
            self.timeline, random.Random(f"{seed}/network"), min(5.0, timeout_s / 6)
        )
        self._populate()
        count = self.rng.randint(0, 5)
        drawn = self.rng.sample(faults.KINDS, count)
        self.kinds = list(kinds) if kinds is not None else drawn
        self.severity = self.rng.choice((0.0, 0.1, 0.3))
        self.fault_every_s = timeout_s * self.rng.choice((0.15, 0.4))

    def _draw_options(self) -> None:
        rng = self.rng
        timeout_s = rng.choice((6.0, 6.0, 12.0))
        tight = rng.random() < 0.2
        self.options = Options(
            storage="objq",
            heartbeat_timeout_s=timeout_s,
            broker_ttl_s=timeout_s / 3,
            enqueue_timeout_s=timeout_s / rng.choice((1, 3)),
            dedupe_window_s=rng.choice((timeout_s * 4, 120.0)),
            shutdown_grace_s=timeout_s,
            result_ttl_s=rng.choice((1.0, timeout_s, 3600.0)),
            max_finished=rng.choice((0, 2, 10_000)),
            dead_ttl_s=rng.choice((5.0, 3600.0)),
            max_jobs=4 if tight else 1_000_000,
            compress_above=rng.choice((2_000, 262_144)),
            direct_fallback=rng.random() < 0.8,
        )
        self.faults_s = timeout_s * rng.choice((4, 6))
        self.push_every_s = self.faults_s / rng.choice((3, 10, 15))
        self.operates = rng.random() < 0.5
        self.backs_off = rng.random() < 0.3

    def _populate(self) -> None:
        rng = self.rng
        self.brokers = [BrokerActor(self, n) for n in range(1, rng.choice((1, 2, 2, 3)) + 1)]
        self.workers = [WorkerActor(self, n) for n in range(1, rng.choice((1, 2, 3)) + 1)]
        self.clients = [ClientActor(self, n) for n in range(1, rng.choice((1, 2, 3)) + 1)]
        if self.options.direct_fallback and rng.random() < 0.4:
            self.clients.append(ClientActor(self, 9, is_direct=True))
        self._accompany()
        self.actors: list[Actor] = [
            *self.brokers,
            *self.workers,
            *self.clients,
            *self.watchers,
        ]

    def _accompany(self) -> None:
        """Add those who need no broker, and who watch."""
        company = self.company
        self.operator = Operator(self, company)
        self.watchers = [WatcherActor(self, n) for n in range(1, company.watchers + 1)]
        direct = [DirectWorkerActor(self, n) for n in range(1, company.direct_workers + 1)]
        if direct:
            self.clients.insert(0, ClientActor(self, 8, mode="direct"))
        if company.brokers == "none":
            self.brokers, self.workers = [], []
        if company.ends_without_brokers:
            self.workers = [*direct, *self.workers]  # the first one is there to the end
        else:
            self.workers = [*self.workers, *direct]

    # --- what actors and faults use ---------------------------------------------------------------

    def later(self, delay_s: float, act: Callable[..., Any], *args: Any) -> None:
        self.timeline.call_later(delay_s, act, *args)

    def undo(self, delay_s: float, act: Callable[..., Any], *args: Any) -> None:
        """End a fault after some time, unless the heal has ended them all."""
        self.later(delay_s, lambda: None if self.is_healing else act(*args))

    def note(self, text: str) -> None:
        self.history.note(self.timeline.now, text)

    def restart(self, actor: Actor) -> None:
        if self.operator.is_busy:
            self.later(0.5, self.restart, actor)  # nothing is started while the object is away
        elif not actor.is_up and not actor.broken:
            self.note(f"start {actor.name}")
            actor.start()

    def mark_cut(self, place: str, seconds: float) -> None:
        now = self.timeline.now
        self.history.cut.setdefault(place, []).append((now, now + seconds))

    def new_job(self, rng: random.Random, process: Process) -> ops.NewJob:
        now = process.clock.wall_ms()
        later = rng.random() < 0.15
        job = ops.NewJob(
            id=process.ids.job_id(now),
            task="shop.tasks.send",
            queue=rng.choice(QUEUES),
            args=Raw(b"[ %d,1.50 ]" % rng.randrange(1000)),
            priority=rng.choice((0, 0, 0, 5)),
            run_after=now + rng.randrange(10_000) if later else None,
            max_attempts=rng.choice((1, 3, 3)),
        )
        self.known.append(job.id)
        self.jobs[job.id] = job
        return job

    def duration_s(self, rng: random.Random) -> float:
        """Draw how long a job runs."""
        return rng.choice((0.0, 0.05, 0.3, 1.0, 2.0)) * rng.random() + (
            rng.choice((0.0, 0.0, 0.0, 1.3)) * self.options.heartbeat_timeout_s * rng.random()
        )

    def draw_weather(self) -> Weather:
        return Weather.drawn(self.rng, self.severity)

    def document(self) -> Document | None:
        """Return what is in the store; not to be changed."""
        content = self.store.content
        if content is None:
            return None
        if self._document is None or self._document[0] != content.tag:
            self._document = content.tag, decode(content.data)
        return self._document[1]

    def story(self) -> list[str]:
        """Return what happened, in order, for people."""
        told = [(at, text) for at, text in self.history.notes]
        for version in self.store.log:
            by = version.by.name if version.by else "an operator"
            told.append((version.at, f"{version.tag} {version.kind} by {by}{_summary(version)}"))
        for run in self.history.runs:
            told.append((run.began, f"{run.by.name} runs {run.job[-4:]} under {run.token}"))
            if run.ended is not None:
                told.append((run.ended, f"{run.by.name} ran {run.job[-4:]}: {run.how}"))
        for asked in (*self.history.pushed, *self.history.operated, *self.history.reported):
            name, request = ops.op_name(asked.op), getattr(asked.op, "request", "")
            ids = ", ".join(text[-4:] for text in asked.ids)
            told.append((asked.began, f"{asked.by.name} asks {name} {request} {ids}"))
            if asked.ended is not None:
                told.append(
                    (asked.ended, f"{asked.by.name}: {name} {ids} {set(asked.told.values())}")
                )
        told.sort(key=lambda item: item[0])
        return [f"{at:8.2f} {text}" for at, text in told]

    # --- the course of things ---------------------------------------------------------------------

    def run(self) -> None:
        try:
            self.store.weather = self.draw_weather()
            for actor in self.actors:
                self.later(self._start_s(actor), self.restart, actor)
            self.operator.start()
            if self.kinds:
                self.later(3.0, self._disturb)
            self.timeline.run(self.faults_s)
            self._heal()
            self._finish()
            self._idle()
        except Endless as endless:
            self.history.problems.append(f"liveness: {endless} at {self.timeline.now:.2f}")
        finally:
            self.is_over = True
            self.history.problems.extend(self.timeline.errors)
            for process in self.processes:
                process.loop.dispose()

    def _start_s(self, actor: Actor) -> float:
        """Return when an actor is started at first."""
        begins_s = self.rng.random() * 2
        if self.company.brokers == "later" and actor.kind == "broker":
            begins_s += self.faults_s * self.company.later
        return begins_s

    def _disturb(self) -> None:
        if self.is_healing:
            return
        self.rng.choice(self.kinds)(self)
        self.later(self.rng.expovariate(1 / self.fault_every_s), self._disturb)

    def _heal(self) -> None:
        self.is_healing = True
        self.healed_at = self.timeline.now
        self.note("heal")
        self.store.weather = Weather(latency_s=0.05)
        self.store.cuts.clear()
        self.network.slow = 0.0
        for connection in list(self.network.connections):
            if connection.is_lost:
                self.network.cut(connection)
        for pair in list(self.network.blocked_pairs()):
            while self.network.is_blocked(*pair):
                self.network.unblock(*pair)
        self.operator.finish()
        self._choose_core()
        if self.brokers and self.company.ends_without_brokers:
            self.operator.end_brokers(how=self.company.brokers)

    def _choose_core(self) -> None:
        """Break some for good, and mend all others; of each kind there is one at least."""
        self.core: dict[str, Actor] = {}
        groups: dict[str, Sequence[Actor]] = {
            "broker": self.brokers,
            "worker": self.workers,
            "client": self.clients,
            "watcher": self.watchers,
        }
        for role, group in groups.items():
            if not group:
                continue
            # The first worker takes from all queues, and the last client may be a direct one.
            core = self.rng.choice(group) if role == "broker" else group[0]
            for actor in group:
                if actor is core:
                    self.core[role] = actor
                elif self.rng.random() < 0.4:
                    self._break(actor)
            for actor in group:
                self._mend(actor)

    def _mend(self, actor: Actor) -> None:
        if actor.broken:
            return
        if actor.incarnation and actor.process.is_frozen:
            actor.process.resume()
        self.restart(actor)

    def _break(self, actor: Actor) -> None:
        """Leave an actor broken for good: dead, stopped, or cut off from the others."""
        actor.broken = True
        how = self.rng.choice(("dead", "dead", "stopped", "no store", "no network"))
        if how == "no network" and actor.kind == "broker":
            # A leader that answers challenges is left alone, though nobody else should reach it.
            self.store.cuts[actor.place] = "silent"
        self.note(f"{actor.name} stays broken: {how}")
        if how == "dead":
            actor.kill()
        elif how == "stopped" and actor.is_up and not actor.process.is_frozen:
            actor.process.pause(float("inf"))
        elif how == "no store":
            self.store.cuts[actor.place] = self.rng.choice(("denied", "refused", "silent"))
        elif how == "no network":
            for other in self.actors:
                self.network.block(actor.place, other.place)
                self.network.block(other.place, actor.place)
        self.mark_cut(actor.place, float("inf"))

    def _finish(self) -> None:
        """Let the core finish what there is, and a last push besides."""
        core = self.core["client"]
        assert isinstance(core, ClientActor)
        timeout_s = self.options.heartbeat_timeout_s
        self.timeline.run(self.healed_at + timeout_s)
        if self.operates:
            core.process.start(core.resume_all(), "resumes")
        core.process.start(core.push_at_last(), "last push")
        limit = self.healed_at + 12 * timeout_s + 90 + timeout_s * len(self.known)
        is_done = self.timeline.run(limit, lambda: self._all_done() or self._is_full_for_good())
        if is_done and self.brokers and any(self._needs_broker(job) for job in self._jobs_left()):
            self.operator.lend_broker()
            is_done = self.timeline.run(self.timeline.now + limit, self._all_done)
        if not is_done:
            self.history.problems.append(f"liveness: {self._what_is_left()}")

    def _jobs_left(self) -> list[ops.JobView]:
        document = self.document()
        return [job.view() for job in document.jobs.values()] if document is not None else []

    def _needs_broker(self, job: ops.JobView) -> bool:
        """Tell whether only a broker can end this claim: one granted it, and its holder is gone."""
        document = self.document()
        if job.claim is None or job.claim.epoch is None or (document and document.broker):
            return False
        for worker in self.workers:
            is_well = worker.is_up and not worker.broken and worker.mode == "direct"
            # What a worker has reported may have been undone by an operator's hand.
            if is_well and worker.worker.holdings.get(job.claim.token) is not None:
                return False
        return True

    def _is_full_for_good(self) -> bool:
        """Tell whether the queue is full of what nobody ends by itself, so that no push fits."""
        left = self._jobs_left()
        return len(left) >= self.options.max_jobs and all(
            self._needs_broker(job) or self._is_far_off(job) for job in left
        )

    def _is_far_off(self, job: ops.JobView | Job) -> bool:
        """Tell whether a job is to run in an hour, by a wrong clock: it is not waited for."""
        soon_ms = self._leaders_wall_ms() + 60_000
        return job.state == "scheduled" and (job.run_after or 0) > soon_ms

    def _all_done(self) -> bool:
        """Tell whether nothing waits or runs, and the last push was answered."""
        document = self.document()
        if document is None or not self.has_pushed:
            return False
        return all(
            self._is_far_off(job) or (job.state == "running" and self._needs_broker(job.view()))
            for job in document.jobs.values()
        )

    def _leaders_wall_ms(self) -> int:
        document = self.document()
        leader = document.broker.url if document and document.broker else ""
        default = self.core["worker" if self.company.ends_without_brokers else "broker"]
        actor = next((b for b in self.brokers if b.url == leader), default)
        return actor.process.clock.wall_at(self.timeline.now)

    def _what_is_left(self) -> str:
        document = self.document()
        if document is None:
            return "there is no document"
        left = [f"{job.id} is {job.state}" for job in list(document.jobs.values())[:3]]
        told = set(self.history.pushed[-1].told.values()) if self.history.pushed else "not made"
        return f"{left}, broker {document.broker}, last push {told}"

    def _idle(self) -> None:
        """Let time pass with nothing to do, until every late write has landed.

        What was begun in worse times may still end in a write, but only once.
        """
        timeout_s = self.options.heartbeat_timeout_s
        self.timeline.run(self.timeline.now + timeout_s)
        wrote: set[str] = set()
        for _ in range(3):
            before = len(self.store.log)
            self.timeline.run(max(self.timeline.now + timeout_s, self.store.last_arrival))
            wrote = {version.by.name for version in self.store.log[before:] if version.by}
            may_write = any(broker.broken and broker.is_up for broker in self.brokers)
            if not wrote or may_write:
                return
        self.history.problems.append(f"idle: {sorted(wrote)} write though there is nothing to do")


def _summary(version: Any) -> str:
    if version.data is None:
        return ""
    try:
        document = decode(version.data)
    except Corrupt:
        return " (which is no document)"
    jobs = ", ".join(
        f"{job.id[-4:]} {job.state}" + (f" {job.claim.token}" if job.claim else "")
        for job in (*document.jobs.values(), *list(document.finished.values())[-3:])
    )
    leader = document.broker.id[:4] if document.broker else "nobody"
    asked = " challenged" if document.challenge else ""
    return f" (seq {document.seq}, epoch {document.epoch}, {leader}{asked}): {jobs}"


def run_world(
    seed: int, kinds: Sequence[faults.Fault] | None = None, company: Company | None = None
) -> World:
    """Return the world of a seed at its end; see `World`."""
    gc.disable()  # its moment would depend on what ran before
    try:
        world = World(seed, kinds, company)
        world.run()
    finally:
        gc.enable()
    return world


def log_digest(world: World) -> str:
    """Return a digest of the store's log: equal for equal courses."""
    digest = hashlib.sha256()
    for version in world.store.log:
        digest.update(f"{version.at!r} {version.kind} {version.tag}".encode())
        digest.update(version.data or b"-")
    return digest.hexdigest()
