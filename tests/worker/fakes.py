"""A broker in memory that loses what it is told to, and jobs that end when they are told to."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from msgspec import Raw
from msgspec.structs import replace

from objq.core.claiming import beat, beaten
from objq.core.document import Document
from objq.core.ending import expire
from objq.core.ops import (
    Answer,
    Cancel,
    Change,
    Complete,
    Completion,
    DocumentSettings,
    Fail,
    Failure,
    Grant,
    Granted,
    Heartbeat,
    ItemOutcome,
    JobError,
    NewJob,
    Op,
    Outcomes,
    Problem,
    Push,
    Release,
    TakeClaim,
    tokens_of,
)
from objq.core.rules import apply
from objq.core.waiting import WaitingClaims
from objq.errors import ObjqError
from objq.wire import encode_request
from objq.worker.seam import Control, Outcome

OpT = TypeVar("OpT", bound=Op)


class Sent(NamedTuple):
    at: float
    op: Op


def grant(number: int, **changes: Any) -> Grant:
    given = {
        "id": f"job-{number}",
        "token": f"token-{number}",
        "queue": "default",
        "task": "shop.tasks.send",
        "args": Raw(b"[]"),
        "kwargs": Raw(b"{}"),
        "attempt": 1,
        "max_attempts": 3,
        "pushed_at": 0,
        "claimed_at": 0,
    }
    return Grant(**{**given, **changes})


class FakeBroker:
    """The real rules on a document in memory, the real limit of a frame, and faults at will.

    The job `job-7` is granted under `token-7`, and has one attempt. `lose_reply` applies the next
    request of a kind but answers with an error.
    """

    def __init__(self, jobs: int = 0) -> None:
        self.document = Document.new("document", DocumentSettings(), 0)
        self.document.seq = 1
        self.done: dict[str, Completion | Failure] = {}
        self.released: list[str] = []
        self.sent: list[Sent] = []
        self.latency_s = 0.01
        self.replaces_claims = True
        self.item_errors: dict[str, list[Problem]] = defaultdict(list)
        self.down: ObjqError | None = None
        self._faults: dict[type[Op], deque[tuple[bool, ObjqError]]] = defaultdict(deque)
        self._waiting: WaitingClaims[asyncio.Future[Granted]] = WaitingClaims()
        self._requests = itertools.count(1)
        self._grants: Counter[str] = Counter()
        self._changed = asyncio.Event()
        self.push(*(f"job-{number}" for number in range(jobs)))

    # --- what tests do ---------------------------------------------------------------------------

    @property
    def live(self) -> list[str]:
        """The tokens of the jobs that are held, in the order of their grants."""
        return list(self.document.claims)

    def push(self, *jobs: str, alone: bool = False) -> None:
        """Push jobs. `alone`: as if the worker before had fallen silent with each, unstarted."""
        new = tuple(NewJob(id=job, task="shop.tasks.send", max_attempts=1) for job in jobs)
        if new:
            self._apply(Push(request=f"1-test:{next(self._requests)}", jobs=new))
        for job in jobs if alone else ():
            self.document.change(self.document.jobs[job], alone=True)
        self._serve()
        self.notify()

    def lose(self, token: str) -> None:
        """Let a claim expire; its job goes to somebody else."""
        expire(self.document, [token], self._now())
        self._apply(TakeClaim(claim=f"other-{token}", worker="other"))

    def cancel(self, *jobs: str) -> None:
        request = f"1-test:{next(self._requests)}"
        self._apply(Cancel(request=request, ids=jobs, expected="running"))

    def lose_reply(self, kind: type[Op], error: ObjqError) -> None:
        self._faults[kind].append((True, error))

    def refuse(self, kind: type[Op], error: ObjqError) -> None:
        self._faults[kind].append((False, error))

    def of(self, kind: type[OpT]) -> list[OpT]:
        return [sent.op for sent in self.sent if isinstance(sent.op, kind)]

    async def until(self, what: Callable[[], bool]) -> None:
        async with asyncio.timeout(1000):
            while not what():
                self._changed.clear()
                await self._changed.wait()

    # --- what the worker does --------------------------------------------------------------------

    async def call(self, op: Op, timeout_s: float | None) -> Answer:
        encode_request(1, op)
        self.sent.append(Sent(asyncio.get_running_loop().time(), op))
        self.notify()
        await asyncio.sleep(self.latency_s)
        if self.down is not None:
            raise self.down
        applied, error = (
            self._faults[type(op)].popleft() if self._faults[type(op)] else (True, None)
        )
        if error is not None and not applied:
            raise error
        answer = await self._answer(op)
        self.notify()
        if error is not None:
            raise error
        return answer

    async def _answer(self, op: Op) -> Answer:
        if isinstance(op, Heartbeat):
            beat(self.document, op.tokens, op.started, self._now())
            return beaten(self.document, op)
        if isinstance(op, TakeClaim):
            return await self._claim(op)
        assert isinstance(op, Complete | Fail | Release)
        before = set(self.document.claims)
        faults = [self.item_errors[token] for token in tokens_of(op)]
        answer = self._apply(_without(op, faults))
        assert isinstance(answer, Outcomes)
        outcomes = iter(answer.items)
        items = tuple(ItemOutcome(error=f.pop(0)) if f else next(outcomes) for f in faults)
        self._note(op, before - set(self.document.claims))
        self._serve()
        return Outcomes(items=items)

    async def _claim(self, op: TakeClaim) -> Answer:
        answer = self._apply(op)
        if answer != Granted() or not op.wait:
            return answer
        future: asyncio.Future[Granted] = asyncio.get_running_loop().create_future()
        if self.replaces_claims or not self._waiting:
            replaced = self._waiting.add(future, op)
            if replaced is not None:
                replaced.set_result(Granted())
        try:
            async with asyncio.timeout(op.wait):
                return await future
        except TimeoutError:
            return Granted()
        finally:
            self._waiting.discard(future)

    def _note(self, op: Complete | Fail | Release, ended: set[str]) -> None:
        if isinstance(op, Release):
            self.released += [token for token in op.tokens if token in ended]
        else:
            self.done |= {item.token: item for item in op.items if item.token in ended}

    def _serve(self) -> None:
        for future, outcome in self._waiting.serve(
            self.document, self._now(), mint=self._mint, epoch=1
        ):
            assert isinstance(outcome, Granted)
            future.set_result(outcome)

    def _apply(self, op: Change) -> Answer:
        return apply(self.document, op, self._now(), mint=self._mint, epoch=1).answer

    def _mint(self) -> str:
        job = self.document.next_ready(("default",))  # the one that is being granted
        assert job is not None
        self._grants[job.id] += 1
        again = f".{self._grants[job.id]}" if self._grants[job.id] > 1 else ""
        return f"token-{job.id.rpartition('-')[2]}{again}"

    @staticmethod
    def _now() -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    def notify(self) -> None:
        self._changed.set()


def _without(op: Any, faults: list[list[Problem]]) -> Any:
    """Return the request without the items that are to meet a fault."""
    field = "tokens" if isinstance(op, Release) else "items"
    items = zip(getattr(op, field), faults, strict=True)
    return replace(op, **{field: tuple(item for item, fault in items if not fault)})


class FakeExecutor:
    """`gate(job)` keeps a job running until its future is done; others end at once."""

    def __init__(self, notify: Callable[[], None]) -> None:
        self._notify = notify
        self.started: list[str] = []
        self.started_at: dict[str, float] = {}
        self.controls: dict[str, Control] = {}
        self.failing: set[str] = set()
        self.errors: dict[str, JobError] = {}
        self.results: dict[str, Raw] = {}
        self.lingering: dict[str, asyncio.Future[None]] = {}
        self._gates: dict[str, asyncio.Event] = {}

    def gate(self, *jobs: str) -> None:
        for job in jobs:
            self._gates[job] = asyncio.Event()

    def open(self, *jobs: str) -> None:
        for job in jobs:
            self._gates[job].set()

    async def run(self, grant: Grant, control: Control) -> Outcome:
        self.started.append(grant.id)
        self.started_at[grant.id] = asyncio.get_running_loop().time()
        self.controls[grant.id] = control
        self._notify()
        control.on_change = lambda: self._look(grant.id, control)
        if grant.id in self._gates:
            await self._gates[grant.id].wait()
        lingering = self.lingering.get(grant.id)
        if grant.id in self.failing or control.interrupted:
            error = JobError(type="builtins.ValueError", message="no")
            error = self.errors.get(grant.id, error)
            return Outcome(Failure(token=grant.token, error=error), lingering)
        result = self.results.get(grant.id, Raw(b"null"))
        return Outcome(Completion(token=grant.token, result=result), lingering)

    def _look(self, job: str, control: Control) -> None:
        if control.interrupted and job.startswith("async-"):
            self.open(job)
