"""What the worker's loop needs from the outside: somebody to talk to and somebody to run jobs.

Both are seams of one method, so that the same loop runs in a process with threads and sockets, in a
test with fakes, and in a simulation on a virtual clock.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from objq.core.ops import Answer, Completion, Failure, Grant, Op, QueueName, WorkerName


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """`prefetch`: the most jobs held beyond those that run; see `appetite`."""

    name: WorkerName
    queues: tuple[QueueName, ...]
    slots: int
    prefetch: int
    shutdown_grace_s: float
    burst: bool = False


class Caller(Protocol):
    """The part of a client that a worker uses."""

    async def call(self, op: Op, timeout_s: float | None) -> Answer:
        """Return the answer; raise Rejected, AskAnother, Unknown or DocumentError (S12)."""
        ...


Report = Completion | Failure


@dataclass(slots=True, eq=False)
class Control:
    """What the worker tells a job that it runs. The flags may be read from any thread.

    `cancel_requested`: somebody asked that the job stop (S6: if it completes all the same, that
    wins). `claim_lost`: the job is no longer this worker's, and its outcome will be refused (S5).
    `interrupted`: the worker is ending and hands the job back; only an async job can act on that.
    """

    cancel_requested: bool = False
    claim_lost: bool = False
    interrupted: bool = False
    on_change: Callable[[], None] | None = field(default=None, repr=False)
    """Set by the executor: called on the worker's loop after a flag was raised."""

    def request_cancel(self) -> None:
        if not self.cancel_requested:
            self.cancel_requested = True
            self._tell()

    def lose(self) -> None:
        if not self.claim_lost:
            self.claim_lost = True
            self._tell()

    def interrupt(self) -> None:
        if not self.interrupted:
            self.interrupted = True
            self._tell()

    def _tell(self) -> None:
        if self.on_change is not None:
            self.on_change()


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended. `lingering`: done once the slot is really free, if that is not yet so."""

    item: Report
    lingering: Awaitable[object] | None = None


class Executor(Protocol):
    """Runs jobs."""

    async def run(self, grant: Grant, control: Control) -> Outcome:
        """Run a job to its outcome. Whatever the job does, this returns; it never raises."""
        ...
