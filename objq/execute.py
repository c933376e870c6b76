"""One attempt of a job, in the thread where it runs: from the grant to the call and its outcome.

Whatever happens here fails the job and not the worker: a path that cannot be imported or leads to
something else than a task, SystemExit, a result that is not JSON. Only what is decorated as a task
is ever called, and only a module of the project's is imported to find it (`finding.find_task`),
whatever path stands in the queue.

`task_started` is sent before the call and `task_finished` when no attempt will follow; what their
receivers raise is logged and goes no further.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import threading
from collections.abc import Callable, Coroutine
from datetime import datetime
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, Final

from django.db import close_old_connections
from django.dispatch import Signal
from django.utils import timezone
from msgspec import UNSET, Raw, UnsetType

from objq import finding, results
from objq.arguments import RESULT, NotJSON, encode_value
from objq.clock import Clock
from objq.compat import (
    Task,
    TaskError,
    task_backends,
    task_finished,
    task_started,
)
from objq.core.ops import MAX_RETRY_AFTER_S, Completion, Failure, Grant, WorkerName
from objq.errors import TaskCancelled, TaskTimeout
from objq.worker import taskloop
from objq.worker.context import JobContext
from objq.worker.exits import exit_if_forked
from objq.worker.failures import describe, whereabouts
from objq.worker.seam import Control, Report
from objq.worker.taskloop import AsyncCall, TaskLoop

logger = logging.getLogger("objq.worker")

OWN_FILES: Final = (__file__, taskloop.__file__)

NEWER_TASK_BACKOFF_S: Final = 60.0
"""Before the first retry of a job whose task is not there, and twice as long before each further
one: a deployment that brings the task to the workers should be over before the attempts are."""


class Execution:
    """`begun(timeout_s)` is called, from the job's thread, when a task with a timeout starts.

    `code_since`: since when this process has had its code (wall clock, ms), if that is long ago.
    """

    def __init__(
        self,
        grant: Grant,
        control: Control,
        *,
        alias: str,
        worker: WorkerName,
        clock: Clock,
        task_loop: TaskLoop,
        begun: Callable[[float], None],
        code_since: int | None = None,
    ) -> None:
        self._grant = grant
        self._control = control
        self._alias = alias
        self._worker = worker
        self._clock = clock
        self._task_loop = task_loop
        self._begun = begun
        self._code_since = code_since
        self._process = os.getpid()
        self._result: results.ObjqResult
        self._task: Task[..., Any]
        self._call: AsyncCall | None = None
        self._thread: int | None = None
        self._expired = False
        self._returned = False
        self._settled = False
        self._lock = threading.Lock()

    # --- in the job's thread ---------------------------------------------------------------------

    def run(self) -> Report | None:
        """Return the outcome, or None if `settle` was called before there was one."""
        _close_connections()
        try:
            return self.run_inside()
        finally:
            _close_connections()

    def run_inside(self) -> Report | None:
        """Do the same for a caller whose database connections, and transaction, are the job's."""
        self._thread = threading.get_ident()
        try:
            value = self._attempt()
            exit_if_forked(self._process)
            self._returned = True
            result = encode_value(value, RESULT)
        except BaseException as error:
            exit_if_forked(self._process, error)
            if not self.settle():
                return None
            if not self._is_cancellation(error):
                return self._fail(error)
            cancellation = error
        else:
            return self._succeed(result) if self.settle() else None
        # Outside of the handler: Django logs the exception that is handled when a task has ended,
        # and there is none to look into where an operator had the job cancelled.
        return self._fail(cancellation)

    def _is_cancellation(self, error: BaseException) -> bool:
        return self._control.cancel_requested and isinstance(
            error, TaskCancelled | asyncio.CancelledError
        )

    def _attempt(self) -> Any:
        self._task, problem = _find(self._grant.task, self._code_since)
        self._result = results.from_grant(
            self._grant,
            self._task,
            self._alias,
            worker=self._worker,
            started_at=self._clock.wall_ms(),
        )
        self._send(task_started)
        if problem is not None:
            raise problem
        args = json.loads(bytes(self._grant.args))
        kwargs = json.loads(bytes(self._grant.kwargs))
        if self._task.takes_context:
            args.insert(0, JobContext(task_result=self._result, control=self._control))
        function = partial(self._task.func, *args, **kwargs)
        if iscoroutinefunction(self._task.func):
            return self._call_async(function)
        self._begin()
        return function()

    def _call_async(self, function: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        self._call = AsyncCall(function)
        self._begin()
        self.look()
        try:
            value = self._task_loop.call(self._call)
        except BaseException as error:
            if self._expired:
                raise self._timeout() from error
            if self._control.cancel_requested and isinstance(error, asyncio.CancelledError):
                raise TaskCancelled("the job was cancelled while it ran") from error
            raise
        if self._expired:  # it swallowed the cancellation
            raise self._timeout()
        return value

    def _begin(self) -> None:
        timeout_s = getattr(self._task, "timeout", None)
        if timeout_s is not None:
            self._begun(timeout_s)

    # --- from the worker's loop ------------------------------------------------------------------

    def look(self) -> None:
        """Act on the flags of the control."""
        call = self._call
        if call is not None and (self._control.cancel_requested or self._control.interrupted):
            call.cancel()

    def expire(self) -> bool:
        """The deadline is here: return whether the job was told, so that it may still clean up."""
        self._expired = True
        if self._call is None:
            return False  # nothing can stop a thread
        self._call.cancel()
        return True

    def settle(self) -> bool:
        """Claim the right to say how the job ended; only the first caller gets it."""
        with self._lock:
            first, self._settled = not self._settled, True
            return first

    def timed_out(self) -> Failure:
        """Return the outcome of a job that is past its deadline and still runs."""
        try:
            raise self._timeout()
        except TaskTimeout as error:
            return self._fail(error, whereabouts(self._thread, __file__))

    # --- outcomes --------------------------------------------------------------------------------

    def _succeed(self, result: Raw) -> Completion:
        results.succeed(self._result, json.loads(bytes(result)), self._clock.wall_ms())
        self._finished()
        return Completion(token=self._grant.token, result=result)

    def _fail(self, error: BaseException, more: str = "") -> Failure:
        """Call this while `error` is handled: the receivers of `task_finished` look for it.

        Not so for a cancellation.
        """
        job_error = describe(error, OWN_FILES, more)
        retry_after = self._retry_after(error)
        terminal = (
            retry_after is None
            or self._grant.attempt >= self._grant.max_attempts
            or self._control.cancel_requested
        )
        task_error = TaskError(exception_class_path=job_error.type, traceback=job_error.traceback)
        results.fail(self._result, task_error, self._clock.wall_ms(), terminal=terminal)
        if terminal:
            self._finished()
        return Failure(token=self._grant.token, error=job_error, retry_after=retry_after)

    def _retry_after(self, error: BaseException) -> float | None | UnsetType:
        """Return what the task's `backoff` says: seconds, None for no further attempt, or UNSET.

        A result that is no JSON would be none the next time, so it is not asked for again.
        """
        if self._returned and isinstance(error, NotJSON):
            return None
        backoff = getattr(self._task, "backoff", None)
        if self._grant.attempt >= self._grant.max_attempts:
            return UNSET
        if isinstance(error, finding.TaskMissing):
            return min(NEWER_TASK_BACKOFF_S * 2.0 ** (self._grant.attempt - 1), MAX_RETRY_AFTER_S)
        if backoff is None:
            return UNSET
        try:
            seconds = backoff(error, self._result)
            if seconds is None:
                return None
            seconds = float(seconds)
        except BaseException:
            logger.exception(
                "The backoff of %s failed, so the default is used",
                self._grant.task,
                extra={"event": "backoff_failed", "job": self._grant.id, "task": self._grant.task},
            )
            return UNSET
        return min(max(seconds, 0.0), MAX_RETRY_AFTER_S) if math.isfinite(seconds) else UNSET

    def _finished(self) -> None:
        if not (
            self._control.claim_lost or self._control.interrupted
        ):  # else it is not for us to say
            self._send(task_finished)

    def _send(self, signal: Signal) -> None:
        try:
            sender = type(task_backends[self._alias])
            signal.send_robust(sender=sender, task_result=self._result)
        except BaseException:
            logger.exception(
                "A receiver of a task signal failed",
                extra={"event": "receiver_failed", "job": self._grant.id},
            )

    def _timeout(self) -> TaskTimeout:
        limit_s = getattr(self._task, "timeout", 0)
        return TaskTimeout(f"the job did not end within its timeout of {limit_s:g} s")


def _find(path: str, code_since: int | None) -> tuple[Task[..., Any], BaseException | None]:
    """Return the task, or a stand-in that raises and the reason."""
    try:
        return finding.find_task(path), None
    except finding.TaskMissing as error:
        if code_since is None:
            return finding.missing_task(path, error), error
        since = datetime.fromtimestamp(code_since / 1000, timezone.get_default_timezone())
        missing = finding.TaskMissing(
            f"{error}; this worker started at {since:%H:%M:%S (%Y-%m-%d, %Z)}: restart it if the "
            "task is newer, or bring the old name back if it was renamed while jobs waited",
            name=error.name,
        )
        return finding.missing_task(path, missing), missing
    except BaseException as error:
        return finding.missing_task(path, error), error


def _close_connections() -> None:
    try:
        close_old_connections()
    except BaseException:
        logger.exception("Closing database connections failed", extra={"event": "close_failed"})
