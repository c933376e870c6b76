"""Backends and helpers for the tests of projects that use objq.

    TASKS = {"default": {"BACKEND": "objq.testing.ImmediateBackend"}}

Both backends are the real one over the real rules, with a document in this process's memory in
place of broker and store: what is refused in production is refused here, and tasks may have objq's
options (Django's own Immediate and Dummy backends fail on those while modules are imported).

`ImmediateBackend` runs a job before `enqueue` returns, retries included, and waits for nothing but
a `run_after`. `DummyBackend` keeps jobs until `run_jobs` runs them. With `real=True` that also runs
what the real backend has in its queue, so that a test can look at both ends without a worker.

Jobs run in the calling thread, hence in the transaction of a `TestCase`. A task's `timeout` is not
enforced. What is queued outlives a test: call `clear()` in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import count
from typing import Any, Final, ParamSpec, TypeVar

from asgiref.sync import async_to_sync, sync_to_async
from django.core.checks import CheckMessage
from django.core.signals import setting_changed
from msgspec import UNSET
from msgspec.structs import replace

from objq import wire
from objq.backend import ObjqBackend
from objq.client.client import Client, narrow
from objq.client.watching import Events
from objq.clock import SYSTEM_CLOCK
from objq.compat import Task, TaskResult, task_backends
from objq.core import ops
from objq.core.document import Document
from objq.core.listing import Listing
from objq.core.rules import apply
from objq.core.statistics import statistics
from objq.errors import Rejected, Unsupported
from objq.execute import Execution
from objq.ids import Ids
from objq.options import Options
from objq.tasks import Prepared
from objq.worker.seam import Control
from objq.worker.taskloop import AsyncCall, TaskLoop

P = ParamSpec("P")
R = TypeVar("R")

WORKER: Final = "objq.testing"
EPOCH: Final = 1

_ids = Ids()


class MemoryQueue:
    """The document of one alias, with a client's calls and neither broker nor store."""

    def __init__(self, options: Options) -> None:
        self._lock = threading.Lock()
        self._requests = count(1)
        self._pushed: dict[str, None] = {}
        now = SYSTEM_CLOCK.wall_ms()
        self.document = Document.new(_ids.token(), options.document_settings(), now)
        self.document.seq = 1  # as if it were written: request ids are drawn from a version
        self._listing = Listing()

    def call(self, op: ops.Op, timeout_s: object = UNSET) -> Any:
        with self._lock:
            if isinstance(op, ops.Get):
                return ops.Jobs(jobs=self.document.views(op.ids))
            if isinstance(op, ops.Stats):
                return statistics(self.document, lambda token: None)
            if isinstance(op, ops.ListJobs):
                return self._listing.page(self.document, op, lambda token: None)
            if not isinstance(op, ops.Change):
                raise Unsupported(f"The queue of a test does not know {ops.op_name(op)}.")
            if hasattr(op, "request"):
                op = replace(op, request=f"1-testing:{next(self._requests)}")
            received = wire.as_received(op)
            if isinstance(received.op, Rejected):
                raise received.op
            if isinstance(op, ops.Push):
                self._pushed |= {job.id: None for job in op.jobs}
            return wire.merge(self._apply(received.op), received.refused)

    def _apply(self, op: ops.Op) -> ops.Answer:
        # No request id is ever forgotten, since there is but one prefix, and it is this queue's.
        now = SYSTEM_CLOCK.wall_ms()
        self.document.make_due_ready(now)
        change: ops.Change = op  # type: ignore[assignment]  # `apply` refuses what is none
        return apply(self.document, change, now, mint=_ids.token, epoch=EPOCH).answer

    def push(self, jobs: Iterable[ops.NewJob]) -> ops.Outcomes:
        return narrow(self.call(ops.Push(request="", jobs=tuple(jobs))), ops.Outcomes)

    def get(self, ids: Iterable[str]) -> ops.Jobs:
        return narrow(self.call(ops.Get(ids=tuple(ids))), ops.Jobs)

    def scheduled(self) -> list[ops.JobView]:
        """Return the jobs that wait for their time, in push order."""
        with self._lock:
            return [job.view() for job in self.document.jobs.values() if job.state == "scheduled"]

    def run_now(self, ids: Iterable[str]) -> None:
        """Make scheduled jobs ready."""
        self.call(ops.RunNow(request="", ids=tuple(ids), expected="scheduled"))

    def all_ids(self) -> list[str]:
        """Return the ids of all jobs that are there, in push order."""
        with self._lock:
            return [job_id for job_id in self._pushed if self.document.find(job_id) is not None]


class AsyncCaller:
    """The same, for a client that is awaited."""

    def __init__(self, queue: MemoryQueue) -> None:
        self._queue = queue

    async def call(self, op: ops.Op, timeout_s: object = UNSET) -> ops.Answer:
        return narrow(self._queue.call(op), ops.Answer)

    def watch(self) -> Events:
        raise Unsupported("The queue of a test cannot be watched.")


_queues: Final[dict[str, MemoryQueue]] = {}
_queues_lock: Final = threading.Lock()


def clear(alias: str | None = None) -> None:
    """Forget all jobs of the test backends, or those of one alias."""
    with _queues_lock:
        for name in [alias] if alias else list(_queues):
            _queues.pop(name, None)


def _forget(*, setting: str, **kwargs: Any) -> None:
    if setting == "TASKS":
        clear()


setting_changed.connect(_forget, dispatch_uid="objq.testing")


class DummyBackend(ObjqBackend):
    """Keeps jobs in memory; `run_jobs` runs them. `STORAGE` may be left out."""

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        options = {"STORAGE": "default", **params.get("OPTIONS", {})}
        super().__init__(alias, {**params, "OPTIONS": options})

    def client(self) -> MemoryQueue:
        with _queues_lock:
            if self.alias not in _queues:
                _queues[self.alias] = MemoryQueue(self.config)
            return _queues[self.alias]

    async def aclient(self) -> Client:
        return Client(AsyncCaller(self.client()))

    @property
    def results(self) -> list[TaskResult[..., Any]]:
        """All jobs that were enqueued, in that order, as they are now."""
        return [self.get_result(job_id) for job_id in self.client().all_ids()]

    def clear(self) -> None:
        clear(self.alias)

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        from objq.checks import check_options

        return list(check_options(self.alias, self.params))


class ImmediateBackend(DummyBackend):
    """Runs jobs at once, in the thread that enqueues them."""

    def send(self, prepared: Prepared) -> TaskResult[..., Any]:
        result = super().send(prepared)
        self._run(result)
        return result

    async def aenqueue(
        self, task: Task[P, R], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> TaskResult[P, R]:
        result = await super().aenqueue(task, args, kwargs)
        await sync_to_async(self._run)(result)
        return result

    def _run(self, result: TaskResult[..., Any]) -> None:
        _run_jobs(self.alias)
        while _waits_for_retry(self.client().get((result.id,)).jobs[0]):
            self.client().run_now([result.id])
            _run_jobs(self.alias)
        result.refresh()


def run_jobs(
    alias: str = "default",
    *,
    queues: Sequence[str] | None = None,
    until: datetime | None = None,
    most: int = 1000,
    real: bool = False,
) -> list[TaskResult[..., Any]]:
    """Run what is ready, one job after the other, in this thread; return the results.

    `queues`: all that the backend has, unless given. `until`: as though it were that time already,
    so that what is scheduled before it runs too, retries included (test backends only). At most
    `most` attempts are made. `real`: the backend may be the real one, whose jobs are then run here,
    whoever enqueued them, and end for good, also if the test's database is rolled back.
    """
    with contextlib.suppress(RuntimeError):
        asyncio.get_running_loop()
        raise TypeError("run_jobs() holds up the event loop: await objq.testing.arun_jobs().")
    return _run_jobs(alias, queues=queues, until=until, most=most, real=real)


def _run_jobs(
    alias: str,
    *,
    queues: Sequence[str] | None = None,
    until: datetime | None = None,
    most: int = 1000,
    real: bool = False,
) -> list[TaskResult[..., Any]]:
    backend = task_backends[alias]
    if not isinstance(backend, ObjqBackend):
        raise TypeError(f"TASKS[{alias!r}] is no backend of objq but {type(backend).__name__}.")
    client: Any = backend.client()
    if until is not None and not isinstance(client, MemoryQueue):
        raise TypeError("run_jobs(until=…) needs a backend of objq.testing.")
    if not (real or isinstance(client, MemoryQueue)):
        raise TypeError(
            f"TASKS[{alias!r}] is the real queue, and run_jobs() would run whatever is in it: use "
            "a backend of objq.testing in the settings of your tests, or say run_jobs(real=True)."
        )
    names = tuple(queues or sorted(backend.queues) or client.call(ops.Stats()).queues)
    ran: dict[str, None] = {}
    for _ in range(most if names else 0):
        if until is not None and (due := _due(client, names, until)):
            client.run_now(due)
        claim = ops.TakeClaim(claim=_ids.token(), queues=names, worker=WORKER)
        granted: ops.Granted = client.call(claim)
        if not granted.jobs:
            break
        client.call(_outcome(granted.jobs[0], alias))
        ran[granted.jobs[0].id] = None
    return [backend.get_result(job_id) for job_id in ran]


arun_jobs = sync_to_async(run_jobs)
"""The same for asynchronous tests."""


def _waits_for_retry(job: ops.JobView | None) -> bool:
    return job is not None and job.state == "scheduled" and job.attempts > 0


def _due(queue: MemoryQueue, names: Sequence[str], until: datetime) -> list[str]:
    until_ms = until.timestamp() * 1000
    return [
        job.id
        for job in queue.scheduled()
        if job.queue in names and (job.run_after or 0) <= until_ms
    ]


def _outcome(grant: ops.Grant, alias: str) -> ops.Complete | ops.Fail:
    report = Execution(
        grant,
        Control(),
        alias=alias,
        worker=WORKER,
        clock=SYSTEM_CLOCK,
        task_loop=InlineLoop(),
        begun=lambda timeout_s: None,
    ).run_inside()
    if isinstance(report, ops.Completion):
        return ops.Complete(items=(report,))
    if isinstance(report, ops.Failure):
        return ops.Fail(items=(report,))
    raise AssertionError("nobody else settles a job that runs inline")


class InlineLoop(TaskLoop):
    """Runs async tasks from the calling thread, so that they see its database transaction."""

    def call(self, call: AsyncCall) -> Any:
        return async_to_sync(call._function)()
