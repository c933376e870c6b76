"""A broker in memory that loses what it is told to, and jobs that end when they are told to."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from msgspec import Raw

from objq.core.ops import (
    Answer,
    Beaten,
    Complete,
    Completion,
    Fail,
    Failure,
    Grant,
    Granted,
    Heartbeat,
    ItemOutcome,
    JobError,
    Op,
    Outcomes,
    Problem,
    Release,
    TakeClaim,
)
from objq.errors import ObjqError
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
    """`lose_reply` applies the next request of a kind but answers with an error."""

    def __init__(self, jobs: int = 0) -> None:
        self.ready: deque[Grant] = deque(grant(number) for number in range(jobs))
        self.live: dict[str, Grant] = {}
        self.by_claim: dict[str, tuple[Grant, ...]] = {}
        self.done: dict[str, Completion | Failure] = {}
        self.released: list[str] = []
        self.cancel: set[str] = set()
        self.sent: list[Sent] = []
        self.latency_s = 0.01
        self.replaces_claims = True
        self.item_errors: dict[str, list[Problem]] = defaultdict(list)
        self.down: ObjqError | None = None
        self._faults: dict[type[Op], deque[tuple[bool, ObjqError]]] = defaultdict(deque)
        self._waiting: dict[str, asyncio.Event] = {}
        self._changed = asyncio.Event()

    # --- what tests do ---------------------------------------------------------------------------

    def push(self, *grants: Grant) -> None:
        self.ready.extend(grants)
        self.notify()

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
        if isinstance(op, TakeClaim):
            return await self._claim(op)
        if isinstance(op, Heartbeat):
            return Beaten(
                lost=tuple(t for t in op.tokens if t not in self.live),
                cancel=tuple(t for t in op.tokens if t in self.cancel),
            )
        if isinstance(op, Complete | Fail):
            return Outcomes(items=tuple(self._end(item) for item in op.items))
        assert isinstance(op, Release)
        return Outcomes(items=tuple(self._release(token) for token in op.tokens))

    async def _claim(self, op: TakeClaim) -> Granted:
        if op.wait and op.claim in self._waiting and self.replaces_claims:
            self._waiting.pop(op.claim).set()
        if not self.ready and op.wait:
            ended = self._waiting[op.claim] = asyncio.Event()
            until = asyncio.get_running_loop().time() + op.wait
            while not self.ready and not ended.is_set():
                left = until - asyncio.get_running_loop().time()
                if left <= 0:
                    break
                changed = asyncio.ensure_future(self._changed.wait())
                await asyncio.wait({changed}, timeout=left)
                changed.cancel()
                self._changed.clear()
        if op.claim not in self.by_claim:
            count = min(op.max, len(self.ready))
            taken = tuple(self.ready.popleft() for _ in range(count))
            self.live |= {g.token: g for g in taken}
            if taken:
                self.by_claim[op.claim] = taken
        held = self.by_claim.get(op.claim, ())
        return Granted(jobs=tuple(g for g in held if g.token in self.live))

    def _end(self, item: Completion | Failure) -> ItemOutcome:
        if self.item_errors[item.token]:
            return ItemOutcome(token=item.token, error=self.item_errors[item.token].pop(0))
        if self.live.pop(item.token, None) is None and item.token not in self.done:
            return ItemOutcome(token=item.token, error=Problem(code="claim_lost", message="gone"))
        self.done[item.token] = item
        return ItemOutcome(token=item.token, state="succeeded")

    def _release(self, token: str) -> ItemOutcome:
        if self.live.pop(token, None) is None:
            return ItemOutcome(token=token, error=Problem(code="claim_lost", message="gone"))
        self.released.append(token)
        return ItemOutcome(token=token, state="ready")

    def notify(self) -> None:
        self._changed.set()


class FakeExecutor:
    """`gate(job)` keeps a job running until its future is done; others end at once."""

    def __init__(self, notify: Callable[[], None]) -> None:
        self._notify = notify
        self.started: list[str] = []
        self.started_at: dict[str, float] = {}
        self.controls: dict[str, Control] = {}
        self.failing: set[str] = set()
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
            return Outcome(Failure(token=grant.token, error=error), lingering)
        result = self.results.get(grant.id, Raw(b"null"))
        return Outcome(Completion(token=grant.token, result=result), lingering)

    def _look(self, job: str, control: Control) -> None:
        if control.interrupted and job.startswith("async-"):
            self.open(job)
