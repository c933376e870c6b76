"""The executor of a real worker: a pool of as many threads as there are slots.

Every job has a thread. A sync task runs in it; an async one runs on the loop of `taskloop` while
its thread waits. The worker's own loop only ever waits for futures, so that no job can hold up a
heartbeat.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from objq.clock import Clock
from objq.core.ops import Failure, Grant, Token, WorkerName
from objq.execute import Execution
from objq.worker.calls import logger
from objq.worker.exits import exit_if_forked
from objq.worker.failures import describe
from objq.worker.seam import Control, Outcome, Report
from objq.worker.taskloop import TaskLoop

CLEAN_UP_S: Final = 5.0
"""Time for an async job to end after its timeout cancelled it; then it counts as stuck."""

ASIDE_THREADS: Final = 2


class ThreadExecutor:
    """Runs jobs of one backend, at most `threads` at a time. Make it in the main thread."""

    def __init__(self, *, threads: int, alias: str, worker: WorkerName, clock: Clock) -> None:
        self._alias = alias
        self._worker = worker
        self._clock = clock
        self._started_at = clock.wall_ms()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="objq task")
        # A timeout is told (backoff, signals: other people's code) while the pool may be full.
        self._aside = ThreadPoolExecutor(ASIDE_THREADS, thread_name_prefix="objq timeout")
        self._task_loop = TaskLoop()
        self._busy: set[asyncio.Future[Report | None]] = set()
        # Jobs that share a thread do not share context variables, such as the active language.
        self._context = contextvars.copy_context()

    async def run(self, grant: Grant, control: Control) -> Outcome:
        """Run a job to its outcome; past its timeout, report that and leave the thread to it."""
        loop = asyncio.get_running_loop()
        deadline = loop.create_future()

        def begun(timeout_s: float) -> None:
            loop.call_soon_threadsafe(loop.call_later, timeout_s, _set, deadline)

        execution = Execution(
            grant,
            control,
            alias=self._alias,
            worker=self._worker,
            clock=self._clock,
            task_loop=self._task_loop,
            begun=begun,
            code_since=self._started_at,
        )
        control.on_change = execution.look
        execution.look()
        work = self._start(self._pool, grant.token, execution.run)
        self._busy.add(work)
        work.add_done_callback(self._busy.discard)
        await asyncio.wait({work, deadline}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done() and execution.expire():
            await asyncio.wait({work}, timeout=CLEAN_UP_S)
        if not work.done() and execution.settle():
            item = await self._start(self._aside, grant.token, execution.timed_out)
            assert item is not None
            return Outcome(item, lingering=work)
        outcome = await work
        assert outcome is not None  # only `settle` above takes the outcome from it
        return Outcome(outcome)

    def _start(
        self, pool: ThreadPoolExecutor, token: Token, work: Callable[[], Report | None]
    ) -> asyncio.Future[Report | None]:
        context = self._context.copy()
        return asyncio.get_running_loop().run_in_executor(pool, context.run, _done, token, work)

    @property
    def idle(self) -> bool:
        """Whether no thread is busy, so that `stop` will return."""
        return not self._busy

    def stop(self) -> None:
        """Wait for the threads, which must be idle, and end them."""
        self._pool.shutdown()
        self._aside.shutdown()
        self._task_loop.stop()


def _done(token: Token, work: Callable[[], Report | None]) -> Report | None:
    """Return what `work` does; if it raises, a failure that says so.

    Nothing may be raised to the worker's loop: an exit would end it, and a StopIteration would
    never arrive there.
    """
    process = os.getpid()
    try:
        report = work()
    except BaseException as bug:
        exit_if_forked(process, bug)
        with contextlib.suppress(BaseException):
            logger.exception("The worker could not run a job", extra={"event": "job_not_run"})
        return Failure(token=token, error=describe(bug, ()))
    exit_if_forked(process)
    return report


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
