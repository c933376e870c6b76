"""The faces of the shared session: blocking for threads, awaitable for any event loop.

Both hand their call to the one background loop of the process, so that all threads, views and loops
share a connection, and what they ask at about the same time shares a frame.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Iterable

from msgspec import UNSET

from objq.client.client import Timeout, listed, narrow
from objq.client.shared import shared
from objq.client.sharedwatch import SharedWatching, SyncWatching
from objq.core import ops
from objq.errors import Unknown


class SharedCaller:
    """The shared session, awaited from another loop."""

    def __init__(self, alias: str) -> None:
        self._alias = alias

    async def call(self, op: ops.Op, timeout_s: Timeout = UNSET) -> ops.Answer:
        future = shared.submit(self._alias, op, timeout_s)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise _closed(op) from None

    def watch(self) -> SharedWatching:
        return SharedWatching(self._alias)


class SyncClient:
    """The methods of `objq.client.client.Client`, blocking. They may be called from any thread.

    In a thread that runs an event loop they block that loop; use `aconnect` there.
    """

    def __init__(self, alias: str) -> None:
        self._alias = alias

    def call(self, op: ops.Op, timeout_s: Timeout = UNSET) -> ops.Answer:
        """Return the answer; see `objq.client.session.Session.call` for what is raised."""
        if not shared.may_wait():
            raise RuntimeError("The loop of objq cannot wait for itself; await an async client.")
        future = shared.submit(self._alias, op, timeout_s)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise _closed(op) from None
        finally:
            future.cancel()  # does something only if the wait was interrupted, as by Ctrl-C

    def push(
        self,
        jobs: Iterable[ops.NewJob],
        *,
        request: str = "",
        repeat: bool = False,
        timeout_s: Timeout = UNSET,
    ) -> ops.Outcomes:
        op = ops.Push(request=request, jobs=tuple(jobs), repeat=repeat)
        return narrow(self.call(op, timeout_s), ops.Outcomes)

    def get(self, ids: Iterable[str], *, timeout_s: Timeout = UNSET) -> ops.Jobs:
        return narrow(self.call(ops.Get(ids=listed("get", ids)), timeout_s), ops.Jobs)

    def stats(self, *, timeout_s: Timeout = UNSET) -> ops.Statistics:
        return narrow(self.call(ops.Stats(), timeout_s), ops.Statistics)

    def list(
        self,
        wanted: ops.Filter = ops.Filter(),  # noqa: B008 - frozen
        *,
        cursor: str | None = None,
        limit: int = 50,
        timeout_s: Timeout = UNSET,
    ) -> ops.Listed:
        op = ops.ListJobs(filter=wanted, page=ops.Page(cursor=cursor, limit=limit))
        return narrow(self.call(op, timeout_s), ops.Listed)

    def workers(self, *, timeout_s: Timeout = UNSET) -> ops.AllWorkers:
        return narrow(self.call(ops.Workers(), timeout_s), ops.AllWorkers)

    def history(self, *, timeout_s: Timeout = UNSET) -> ops.RecentHistory:
        return narrow(self.call(ops.History(), timeout_s), ops.RecentHistory)

    def watch(self) -> SyncWatching:
        """Return an endless iterator of snapshots and deltas, to be closed when done."""
        return SyncWatching(self._alias)

    # --- for workers -----------------------------------------------------------------------------

    def claim(
        self,
        queues: Iterable[str] = ("default",),
        *,
        max_jobs: int = 1,
        wait_s: float = 0.0,
        worker: str = "",
        claim: str = "",
        timeout_s: Timeout = UNSET,
    ) -> ops.Granted:
        op = ops.TakeClaim(
            claim=claim,
            queues=listed("claim", queues, "queues"),
            max=max_jobs,
            wait=wait_s,
            worker=worker,
        )
        return narrow(self.call(op, timeout_s), ops.Granted)

    def heartbeat(
        self, tokens: Iterable[str], started: Iterable[str] = (), *, timeout_s: Timeout = UNSET
    ) -> ops.Beaten:
        op = ops.Heartbeat(
            tokens=listed("heartbeat", tokens, "tokens"),
            started=listed("heartbeat", started, "tokens"),
        )
        return narrow(self.call(op, timeout_s), ops.Beaten)

    def complete(
        self, items: Iterable[ops.Completion], *, timeout_s: Timeout = UNSET
    ) -> ops.Outcomes:
        return narrow(self.call(ops.Complete(items=tuple(items)), timeout_s), ops.Outcomes)

    def fail(self, items: Iterable[ops.Failure], *, timeout_s: Timeout = UNSET) -> ops.Outcomes:
        return narrow(self.call(ops.Fail(items=tuple(items)), timeout_s), ops.Outcomes)

    def release(self, tokens: Iterable[str], *, timeout_s: Timeout = UNSET) -> ops.Outcomes:
        op = ops.Release(tokens=listed("release", tokens, "tokens"))
        return narrow(self.call(op, timeout_s), ops.Outcomes)

    # --- for operators ---------------------------------------------------------------------------

    def cancel(
        self, ids: Iterable[str], expected: ops.JobState, *, timeout_s: Timeout = UNSET
    ) -> ops.Outcomes:
        """Cancel jobs that are in the state `expected`; the others get a `conflict`.

        Expect what the job was seen to be: "ready" or "scheduled" is cancelled for good, "running"
        is asked to stop, and one that has ended gets a `conflict`.
        """
        op = ops.Cancel(request="", ids=listed("cancel", ids), expected=expected)
        return narrow(self.call(op, timeout_s), ops.Outcomes)

    def retry(
        self, ids: Iterable[str], expected: ops.JobState = "dead", *, timeout_s: Timeout = UNSET
    ) -> ops.Outcomes:
        """Make jobs ready anew that are in the state `expected`: "dead" or "cancelled"."""
        op = ops.Retry(request="", ids=listed("retry", ids), expected=expected)
        return narrow(self.call(op, timeout_s), ops.Outcomes)

    def delete(
        self, ids: Iterable[str], expected: ops.JobState, *, timeout_s: Timeout = UNSET
    ) -> ops.Outcomes:
        """Remove jobs that are in the state `expected`; the others get a `conflict`.

        Expect what the job was seen to be: "ready", "scheduled", "succeeded", "dead" or
        "cancelled". A "running" one gets a `conflict`: cancel it first.
        """
        op = ops.Delete(request="", ids=listed("delete", ids), expected=expected)
        return narrow(self.call(op, timeout_s), ops.Outcomes)

    def run_now(
        self,
        ids: Iterable[str],
        expected: ops.JobState = "scheduled",
        *,
        timeout_s: Timeout = UNSET,
    ) -> ops.Outcomes:
        """Make jobs ready now that are in the state `expected`, which is "scheduled"."""
        op = ops.RunNow(request="", ids=listed("run_now", ids), expected=expected)
        return narrow(self.call(op, timeout_s), ops.Outcomes)

    def pause(self, queue: str, *, timeout_s: Timeout = UNSET) -> ops.Answer:
        return self.call(ops.Pause(request="", queue=queue), timeout_s)

    def resume(self, queue: str, *, timeout_s: Timeout = UNSET) -> ops.Answer:
        return self.call(ops.Resume(request="", queue=queue), timeout_s)


def _closed(op: ops.Op) -> Unknown:
    return Unknown(
        f"The client was closed while this {ops.op_name(op)} was under way.", ids=ops.ids_of(op)
    )
