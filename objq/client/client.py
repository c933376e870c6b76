"""The client for code that uses the queue itself, not `django.tasks`: a method per operation.

It only builds operations and passes them to a `Caller`, which is a session of its own, or the one
that all threads and loops of this process share (`objq.aconnect`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from msgspec import UNSET, UnsetType

from objq.client.watching import Events
from objq.core import ops

Timeout = float | None | UnsetType
"""Seconds; left out: `ENQUEUE_TIMEOUT`; None: for ever (complete, fail and release only)."""

A = TypeVar("A", bound=ops.Answer)


class Caller(Protocol):
    async def call(self, op: ops.Op, timeout_s: Timeout = UNSET) -> ops.Answer:
        """Return the answer; see `objq.client.session.Session.call` for what is raised."""
        ...

    def watch(self) -> Events:
        """Return events for ever; see `objq.client.watching`."""
        ...


def narrow(answer: ops.Answer, kind: type[A]) -> A:
    """Return the answer as what the operation is known to be answered with."""
    assert isinstance(answer, kind), answer
    return answer


def listed(call: str, texts: Iterable[str], what: str = "ids") -> tuple[str, ...]:
    """Return them as an operation has them. Raises TypeError for a text, which is no list of its
    letters.
    """
    if isinstance(texts, str):
        raise TypeError(f'{call} takes a list of {what}; pass ["{texts}"].')
    return tuple(texts)


class Client:
    """Every method returns once the effect is durable, and raises as `Session.call` does.

    A `request` (or `claim`) id is drawn where none is given. Repeats are made below until the
    deadline; whoever goes on repeating after `Unknown` passes the same jobs, the `request` that the
    error's `request` names, and `repeat=True`.
    """

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def call(self, op: ops.Op, timeout_s: Timeout = UNSET) -> ops.Answer:
        return await self._caller.call(op, timeout_s)

    async def push(
        self,
        jobs: Iterable[ops.NewJob],
        *,
        request: str = "",
        repeat: bool = False,
        timeout_s: Timeout = UNSET,
    ) -> ops.Outcomes:
        """Append jobs; the outcome of each is in the answer, at its place."""
        op = ops.Push(request=request, jobs=tuple(jobs), repeat=repeat)
        return narrow(await self.call(op, timeout_s), ops.Outcomes)

    async def get(self, ids: Iterable[str], *, timeout_s: Timeout = UNSET) -> ops.Jobs:
        """Return the jobs as they are now; None where there is no such job."""
        return narrow(await self.call(ops.Get(ids=listed("get", ids)), timeout_s), ops.Jobs)

    async def stats(self, *, timeout_s: Timeout = UNSET) -> ops.Statistics:
        return narrow(await self.call(ops.Stats(), timeout_s), ops.Statistics)

    async def list(
        self,
        wanted: ops.Filter = ops.Filter(),  # noqa: B008 - frozen
        *,
        cursor: str | None = None,
        limit: int = 50,
        timeout_s: Timeout = UNSET,
    ) -> ops.Listed:
        """Return a page of jobs. Go on with the answer's `cursor` until it is None.

        A page may be short, or empty, and not the last: the broker bounds what it looks at.
        """
        op = ops.ListJobs(filter=wanted, page=ops.Page(cursor=cursor, limit=limit))
        return narrow(await self.call(op, timeout_s), ops.Listed)

    async def workers(self, *, timeout_s: Timeout = UNSET) -> ops.AllWorkers:
        return narrow(await self.call(ops.Workers(), timeout_s), ops.AllWorkers)

    async def history(self, *, timeout_s: Timeout = UNSET) -> ops.RecentHistory:
        return narrow(await self.call(ops.History(), timeout_s), ops.RecentHistory)

    def watch(self) -> Events:
        """Return an endless iterator of snapshots and deltas; close it with `aclose`.

        It reconnects, follows the broker and fills gaps by itself; see `objq.client.watching`.
        """
        return self._caller.watch()

    # --- for workers -----------------------------------------------------------------------------

    async def claim(
        self,
        queues: Iterable[str] = ("default",),
        *,
        max_jobs: int = 1,
        wait_s: float = 0.0,
        worker: str = "",
        claim: str = "",
        timeout_s: Timeout = UNSET,
    ) -> ops.Granted:
        """Take the next jobs, waiting up to `wait_s` seconds for one."""
        op = ops.TakeClaim(
            claim=claim,
            queues=listed("claim", queues, "queues"),
            max=max_jobs,
            wait=wait_s,
            worker=worker,
        )
        return narrow(await self.call(op, timeout_s), ops.Granted)

    async def heartbeat(
        self, tokens: Iterable[str], started: Iterable[str] = (), *, timeout_s: Timeout = UNSET
    ) -> ops.Beaten:
        op = ops.Heartbeat(
            tokens=listed("heartbeat", tokens, "tokens"),
            started=listed("heartbeat", started, "tokens"),
        )
        return narrow(await self.call(op, timeout_s), ops.Beaten)

    async def complete(
        self, items: Iterable[ops.Completion], *, timeout_s: Timeout = UNSET
    ) -> ops.Outcomes:
        return narrow(await self.call(ops.Complete(items=tuple(items)), timeout_s), ops.Outcomes)

    async def fail(
        self, items: Iterable[ops.Failure], *, timeout_s: Timeout = UNSET
    ) -> ops.Outcomes:
        return narrow(await self.call(ops.Fail(items=tuple(items)), timeout_s), ops.Outcomes)

    async def release(self, tokens: Iterable[str], *, timeout_s: Timeout = UNSET) -> ops.Outcomes:
        op = ops.Release(tokens=listed("release", tokens, "tokens"))
        return narrow(await self.call(op, timeout_s), ops.Outcomes)

    # --- for operators ---------------------------------------------------------------------------

    async def cancel(
        self, ids: Iterable[str], expected: ops.JobState, *, timeout_s: Timeout = UNSET
    ) -> ops.Outcomes:
        """Cancel jobs that are in the state `expected`; the others get a `conflict`.

        Expect what the job was seen to be: "ready" or "scheduled" is cancelled for good, "running"
        is asked to stop, and one that has ended gets a `conflict`.
        """
        op = ops.Cancel(request="", ids=listed("cancel", ids), expected=expected)
        return narrow(await self.call(op, timeout_s), ops.Outcomes)

    async def retry(
        self, ids: Iterable[str], expected: ops.JobState = "dead", *, timeout_s: Timeout = UNSET
    ) -> ops.Outcomes:
        """Make jobs ready anew that are in the state `expected`: "dead" or "cancelled"."""
        op = ops.Retry(request="", ids=listed("retry", ids), expected=expected)
        return narrow(await self.call(op, timeout_s), ops.Outcomes)

    async def delete(
        self, ids: Iterable[str], expected: ops.JobState, *, timeout_s: Timeout = UNSET
    ) -> ops.Outcomes:
        """Remove jobs that are in the state `expected`; the others get a `conflict`.

        Expect what the job was seen to be: "ready", "scheduled", "succeeded", "dead" or
        "cancelled". A "running" one gets a `conflict`: cancel it first.
        """
        op = ops.Delete(request="", ids=listed("delete", ids), expected=expected)
        return narrow(await self.call(op, timeout_s), ops.Outcomes)

    async def run_now(
        self,
        ids: Iterable[str],
        expected: ops.JobState = "scheduled",
        *,
        timeout_s: Timeout = UNSET,
    ) -> ops.Outcomes:
        """Make jobs ready now that are in the state `expected`, which is "scheduled"."""
        op = ops.RunNow(request="", ids=listed("run_now", ids), expected=expected)
        return narrow(await self.call(op, timeout_s), ops.Outcomes)

    async def pause(self, queue: str, *, timeout_s: Timeout = UNSET) -> ops.Answer:
        return await self.call(ops.Pause(request="", queue=queue), timeout_s)

    async def resume(self, queue: str, *, timeout_s: Timeout = UNSET) -> ops.Answer:
        return await self.call(ops.Resume(request="", queue=queue), timeout_s)
