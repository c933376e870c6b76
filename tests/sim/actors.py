"""Who lives in the world: broker processes, clients that push and operate, workers, watchers.

Each actor stays at its place; what dies and is started again are its processes. Everything below
the seams (store, connect, probe, executor, clock, ids) is the real code.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from msgspec import Raw

from objq.broker.broker import Broker
from objq.client.opening import open_session
from objq.client.session import Session
from objq.core import ops
from objq.errors import (
    AskAnother,
    ConfigurationError,
    DocumentError,
    ObjqError,
    Rejected,
    Unknown,
)
from objq.server.sockets import Sockets
from objq.worker import Control, Outcome, Worker, WorkerOptions
from tests.sim.history import Asked, Run, Told
from tests.sim.network import Host
from tests.sim.process import Process
from tests.sim.store import StoreClient

if TYPE_CHECKING:
    from tests.sim.world import World

Mode = Literal["broker", "direct"]

PORT: Final = 3000
QUEUES: Final = ("default", "mail")
EPSILON_S: Final = 0.05


class Actor(ABC):
    """Something with a place and, at most times, a process."""

    kind = "actor"

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.name = f"{self.kind}-{number}"
        self.place = f"10.0.{self.kind}.{number}"
        self.process: Process
        self.incarnation = 0
        self.broken = False
        """Not to be started again: broken for good."""
        self.store: StoreClient
        """Of the process."""

    @property
    def is_up(self) -> bool:
        return self.incarnation > 0 and self.process.is_alive

    def start(self) -> None:
        self.incarnation += 1
        name = f"{self.name}.{self.incarnation}"
        self.process = Process(self.world.timeline, self.place, name, str(self.world.seed))
        self.world.processes.append(self.process)
        self.process.loop.call_soon(self.begin)

    @abstractmethod
    def begin(self) -> None:
        """Start its part, in its process."""

    def kill(self) -> None:
        if self.is_up:
            self.process.kill()
            self.world.network.died(self.process)

    def session(self, role: Any, mode: Mode = "broker", **more: Any) -> Session:
        world, process = self.world, self.process
        self.connector = world.network.connector(process)
        self.store = StoreClient(world.store, process)
        return open_session(
            replace(world.options, mode=mode),
            role=role,
            store=self.store,
            seen=set(),
            connect=self.connector,
            clock=process.clock,
            ids=process.ids,
            **more,
        )


class Tap:
    """The broker as its sockets see it, noting what was heard and when answers were given (S2)."""

    def __init__(self, world: World, process: Process, broker: Broker, store: StoreClient) -> None:
        self._world = world
        self._process = process
        self._broker = broker
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)

    def submit(self, op: Any) -> asyncio.Future[Any]:
        for token in ops.tokens_of(op):
            self._world.history.hear(self._process, token)
        future: asyncio.Future[Any] = self._broker.submit(op)
        if future.done():
            self._answered(future)
        else:
            future.add_done_callback(self._answered)
        return future

    def _answered(self, future: asyncio.Future[Any]) -> None:
        if future.cancelled() or future.exception() is not None:
            return
        now, half_s = self._process.timeline.now, self._world.options.heartbeat_timeout_s / 2
        since = self._store.confirmed_at
        # A broker that was stopped in the middle of its code cannot know; its next look will tell.
        if now - since > half_s + EPSILON_S and not self._process.was_paused(since, now + 1):
            self._world.history.problems.append(
                f"S2: {self._process.name} answered ok at {now:.2f}, {now - since:.2f} s after its "
                "last store access that was answered began"
            )


class BrokerActor(Actor):
    kind = "broker"

    @property
    def url(self) -> str:
        return f"ws://{self.place}:{PORT}/objq/v1/"

    def begin(self) -> None:
        world, process = self.world, self.process
        store = self.store = StoreClient(world.store, process)

        async def probe(url: str, introduction: bytes) -> Any:
            return await world.network.probe(process, url)

        self.broker = Broker(
            store,
            world.options,
            clock=process.clock,
            ids=process.ids,
            advertise=self.url,
            bound=(self.place, PORT),
            probe=probe,
        )
        self.sockets = Sockets(cast(Any, Tap(world, process, self.broker, store)))
        self.broker.on_reset.append(self.sockets.reset)
        self.host = Host(process, self.sockets, self.broker.readiness)
        world.network.hosts[self.url] = self.host
        process.start(self._run(self.broker, process), "broker")

    async def _run(self, broker: Broker, process: Process) -> None:
        try:
            await broker.run()
        except Exception as error:
            if not self.world.is_over:
                self.world.history.problems.append(f"broker {process.name} died of {error!r}")
            raise

    def stop(self) -> None:
        """Stop gracefully, as SIGTERM does; the process ends when it is done."""
        self.process.start(self._stop(), "stop")

    async def _stop(self) -> None:
        # In the order of `objq.server.serving.Server._stop`.
        process = self.process
        await self.broker.stop()
        self.host.is_open = False
        self.sockets.going_away()
        await asyncio.sleep(0.1)
        self.world.timeline.call_later(0, self._gone, process)

    def _gone(self, process: Process) -> None:
        """End the process; like any supervisor, the world starts another sometime."""
        if process.is_alive:
            process.kill()
            self.world.network.died(process)
            self.world.later(1.0, self.world.restart, self)


class ClientActor(Actor):
    """Pushes, reads and operates. `is_direct`: it never reaches a broker, and would need one."""

    kind = "client"

    def __init__(
        self, world: World, number: int, *, is_direct: bool = False, mode: Mode = "broker"
    ) -> None:
        super().__init__(world, number)
        self.is_direct = is_direct
        self.mode: Mode = mode
        self.rng = random.Random(f"{world.seed}/{self.name}")

    def begin(self) -> None:
        self.client = self.session("manage", self.mode)
        self.connector.is_cut = self.is_direct
        self.process.start(self._work(), "pushes")

    async def _work(self) -> None:
        rng, world = self.rng, self.world
        while True:
            await asyncio.sleep(rng.expovariate(1 / world.push_every_s))
            if world.is_healing:
                return
            self.process.start(self._act(), "acts")

    async def _act(self) -> None:
        rng = self.rng
        dice = rng.random()
        if dice < 0.7 or self.is_direct:
            await self.push(rng.choice((1, 1, 1, 2, 5)))
        elif dice < 0.85:
            await self._read()
        else:
            await self._operate()

    async def push_at_last(self) -> None:
        """Push until it works: in a healthy world it soon does."""
        while not self.world.has_pushed:
            asked = await self.push(1)
            self.world.has_pushed = set(asked.told.values()) == {"ok"}
            await asyncio.sleep(0 if self.world.has_pushed else 1)  # a queue may be full for long

    async def push(self, count: int) -> Asked:
        world, rng = self.world, self.rng
        jobs = tuple(world.new_job(rng, self.process) for _ in range(count))
        asked = self._ask(ops.Push(request="", jobs=jobs), tuple(job.id for job in jobs))
        world.history.pushed.append(asked)
        for _ in range(rng.choice((1, 1, 2, 4))):
            error = await self._call(asked)
            if error is None and rng.random() < 0.3:
                await self._read()  # what it has just been told must not be gone (S11)
            if not isinstance(error, Unknown) or not error.request or world.is_healing:
                break
            await asyncio.sleep(rng.expovariate(1))
            # What is repeated is this request: what became of it is open until it is answered.
            asked.op = ops.Push(request=error.request, jobs=jobs, repeat=True)
        return asked

    async def _read(self) -> None:
        ids = self.rng.sample(self.world.known, min(3, len(self.world.known)))
        op = ops.Get(ids=tuple(ids)) if ids and self.rng.random() < 0.6 else ops.Stats()
        try:
            answer = await self.client.call(op)
        except ObjqError:
            return
        self.world.history.saw(self.process, answer)

    async def _operate(self) -> None:
        world, rng = self.world, self.rng
        if not world.operates or not world.known:
            return
        if rng.random() < 0.15:
            queue = rng.choice(QUEUES)
            for turn in (ops.Pause, ops.Resume):
                await self._operated(turn(request="", queue=queue), (queue,))
                await asyncio.sleep(rng.uniform(0, 3))
            return
        job_id = rng.choice(world.known[-20:])
        try:
            answer = await self.client.call(ops.Get(ids=(job_id,)))
        except ObjqError:
            return
        self.world.history.saw(self.process, answer)
        assert isinstance(answer, ops.Jobs)
        view = answer.jobs[0]
        if view is None:
            return
        kind = rng.choice((ops.Cancel, ops.Retry, ops.Delete, ops.RunNow))
        await self._operated(kind(request="", ids=(job_id,), expected=view.state), (job_id,))

    async def resume_all(self) -> None:
        """Resume all queues, however long it takes."""
        for queue in QUEUES:
            # One after another, until the queue is known to be open.
            error: ObjqError | None = Unknown("not asked yet")
            while error is not None:
                error = await self._operated(ops.Resume(request="", queue=queue), (queue,))

    async def _operated(self, op: ops.Op, ids: tuple[str, ...]) -> ObjqError | None:
        asked = self._ask(op, ids)
        self.world.history.operated.append(asked)
        return await self._call(asked)

    def _ask(self, op: ops.Op, ids: tuple[str, ...]) -> Asked:
        told: dict[str, Told] = dict.fromkeys(ids, "open")
        began = self.world.timeline.now
        return Asked(op=op, ids=ids, by=self.process, began=began, told=told)

    async def _call(self, asked: Asked) -> ObjqError | None:
        first = getattr(asked.op, "request", "") == ""
        try:
            answer = await self.client.call(asked.op)
        except ObjqError as error:
            told = conclusion(error)
            if told == "unsent" and not first:
                told = "unknown"  # this call sent nothing, but one before it did
            asked.told = dict.fromkeys(asked.ids, told)
            asked.codes = dict.fromkeys(asked.ids, error.code)
            asked.ended = self.world.timeline.now
            return error
        asked.ended = self.world.timeline.now
        asked.position = answer.position
        self.world.history.saw(self.process, answer)
        note_items(asked, answer)
        return None


class Executor:
    """Runs jobs that do nothing for as long as the world has decided."""

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process
        self._rng = random.Random(f"{world.seed}/{process.name}/runs")

    async def run(self, grant: ops.Grant, control: Control) -> Outcome:
        world, rng = self._world, self._rng
        run = Run(
            job=grant.id,
            token=grant.token,
            by=self._process,
            began=world.timeline.now,
            args=bytes(grant.args),
        )
        world.history.runs.append(run)
        interrupted = asyncio.Event()
        control.on_change = lambda: interrupted.set() if control.interrupted else None
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(interrupted.wait(), world.duration_s(rng))
        run.ended = world.timeline.now
        if interrupted.is_set() or rng.random() < 0.15:
            run.how = "fail"
            error = ops.JobError(type="builtins.ValueError", message="no")
            pause: Any = {} if world.backs_off else {"retry_after": rng.choice((0.0, 0.5))}
            return Outcome(ops.Failure(token=grant.token, error=error, **pause))
        run.how = "complete"
        return Outcome(ops.Completion(token=grant.token, result=Raw(b'"%d"' % rng.randrange(9))))


class WorkerActor(Actor):
    kind = "worker"
    mode: Mode = "broker"

    def begin(self) -> None:
        world, process = self.world, self.process
        rng = random.Random(f"{world.seed}/{process.name}/options")
        takes_all = self.name in ("worker-1", "direct-1")
        queues = QUEUES if takes_all else rng.choice((QUEUES, QUEUES, ("default",)))
        slots = rng.choice((1, 2, 4))
        self.client = self.session(
            "work", self.mode, worker=process.name, queues=queues, slots=slots
        )
        options = WorkerOptions(
            name=process.name,
            queues=queues,
            slots=slots,
            prefetch=rng.choice((0, 1, 4)),
            shutdown_grace_s=world.options.shutdown_grace_s,
        )
        self.worker = Worker(
            self,
            Executor(world, process),
            options,
            settings=lambda: self.client.settings,
            clock=process.clock,
            ids=process.ids,
            claim_id=self.client.claim_id,
            in_doubt=self.client.in_doubt,
        )
        process.start(self._run(self.worker, process), "worker")

    async def _run(self, worker: Worker, process: Process) -> None:
        try:
            await worker.run()
        except Exception as error:
            if not self.world.is_over:
                self.world.history.problems.append(f"worker {process.name} died of {error!r}")
            raise
        self.world.timeline.call_later(0, self._gone, process)

    def _gone(self, process: Process) -> None:
        """End the process; like any supervisor, the world starts another sometime."""
        if process.is_alive:
            process.kill()
            self.world.network.died(process)
            self.world.later(1.0, self.world.restart, self)

    def drain(self) -> None:
        self.world.history.draining.setdefault(self.process.name, self.world.timeline.now)
        self.process.loop.call_soon(self.worker.drain)

    async def call(self, op: ops.Op, timeout_s: float | None) -> ops.Answer:
        """Be the worker's `Caller`: pass on, and note what reports were told."""
        if not isinstance(op, (ops.Complete, ops.Fail, ops.Release)):
            return await self.client.call(op, timeout_s)
        tokens = ops.tokens_of(op)
        began = self.world.timeline.now
        asked = Asked(op=op, ids=tokens, by=self.process, began=began)
        self.world.history.reported.append(asked)
        answer = await self.client.call(op, timeout_s)
        asked.ended = self.world.timeline.now
        note_items(asked, answer)
        return answer


class DirectWorkerActor(WorkerActor):
    """A worker that needs no broker, and goes on over the wire when it meets one."""

    kind = "direct"
    mode = "direct"


class WatcherActor(Actor):
    """Watches the queue, and now and then is too busy to look at what it is told."""

    kind = "watcher"

    def begin(self) -> None:
        self.rng = random.Random(f"{self.world.seed}/{self.process.name}/looks")
        self.client = self.session("read")
        self.process.start(self._watch(self.process), "watches")

    async def _watch(self, process: Process) -> None:
        world = self.world
        told = world.history.watched.setdefault(process.name, [])
        try:
            async for event in self.client.watch():
                told.append((world.timeline.now, event))
                if self.rng.random() < 0.05 and not world.healed_at:
                    await asyncio.sleep(self.rng.random() * world.options.heartbeat_timeout_s)
        except Exception as error:
            if not world.is_over:
                world.history.problems.append(f"watcher {process.name} died of {error!r}")
            raise


def conclusion(error: ObjqError) -> Told:
    """Return what a caller may conclude from an error (S12)."""
    if isinstance(error, Rejected | ConfigurationError):
        return "rejected"
    return "unsent" if isinstance(error, AskAnother | DocumentError) else "unknown"


def note_items(asked: Asked, answer: ops.Answer) -> None:
    if not isinstance(answer, ops.Outcomes):
        asked.told = dict.fromkeys(asked.ids, "ok")
        return
    for item_id, item in zip(asked.ids, answer.items, strict=True):
        if item.error is None:
            asked.told[item_id] = "ok"
        else:
            asked.codes[item_id] = item.error.code
            unclear = item.error.code in ("unknown", "unavailable")
            asked.told[item_id] = "unknown" if unclear else "rejected"
