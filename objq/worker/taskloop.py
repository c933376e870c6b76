"""The event loop of async tasks, in a thread of its own: what blocks it holds up no heartbeat.

Its jobs share it, and any of them can do to it what code on a loop can do. One that stops it does
no harm; one that breaks it fails the calls under way, and the next call gets a new loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Final

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.db import connections

from objq.worker.calls import logger
from objq.worker.exits import exit_if_forked
from objq.worker.failures import describe

STOP_S: Final = 3.0
"""Time for the loop to end; what a job left on it may block it for ever."""


class AsyncCall:
    """One call of an async function; `cancel` may be called from any thread, at any time."""

    def __init__(self, function: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self._function = function
        self._process = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self._lock = threading.Lock()
        self._cancelled = False

    def cancel(self) -> None:
        """Raise CancelledError inside the function, once; before it began, it never begins."""
        with self._lock:
            if self._cancelled:
                return
            self._cancelled = True
            if self._loop is not None and self._task is not None:
                with contextlib.suppress(RuntimeError):  # a job has closed the loop: it has ended
                    self._loop.call_soon_threadsafe(self._task.cancel)

    async def run(self) -> tuple[Any, BaseException | None]:
        """Return what the function returned or raised. Nothing that it raises gets to the loop."""
        # Its synchronous parts get a thread of their own, as those of a request do, so that jobs
        # do not wait for each other's database calls.
        async with ThreadSensitiveContext():
            try:
                self._begin()
                value = await self._function()
                exit_if_forked(self._process)
                return value, None
            except BaseException as error:
                exit_if_forked(self._process, error)
                return None, error
            finally:
                await sync_to_async(connections.close_all)()

    def _begin(self) -> None:
        with self._lock:
            if self._cancelled:
                raise asyncio.CancelledError
            self._loop = asyncio.get_running_loop()
            self._task = asyncio.current_task()


class LoopBroken(RuntimeError):
    """The event loop that async jobs share does not go on, for what one of them did to it."""


class TaskLoop:
    """Starts its thread with the first call; `stop` ends it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._calls: set[Future[Any]] = set()

    def call(self, call: AsyncCall) -> Any:
        """Run `call` on the loop and wait for it; return or raise as its function did.

        Raises LoopBroken if the loop breaks meanwhile.
        """
        with self._lock:
            future = asyncio.run_coroutine_threadsafe(call.run(), self._running())
            self._calls.add(future)
            future.add_done_callback(self._calls.discard)
        value, error = future.result()
        if error is not None:
            raise error
        return value

    def stop(self) -> None:
        """End the thread; give up waiting after a few seconds."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
            if loop is not None:
                with contextlib.suppress(RuntimeError):  # a job has just closed it
                    loop.call_soon_threadsafe(loop.stop)
        if thread is not None:
            thread.join(STOP_S)

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._serve, args=(loop,), name="objq task loop", daemon=True
            )
            self._thread.start()
        return self._loop

    # --- in the thread of the loop ---------------------------------------------------------------

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run the loop until `stop`, which lets go of it, or until it breaks."""
        asyncio.set_event_loop(loop)
        _here.loop = loop
        try:
            while self._loop is loop:
                self._turn(loop)
            loop.run_until_complete(loop.shutdown_asyncgens())
        except BaseException as error:
            self._broke(loop, error)
        finally:
            _left_behind.extend(asyncio.all_tasks(loop))
            with contextlib.suppress(Exception):  # it may be broken in any way
                loop.close()

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run the loop until it stops, or until the exit of a stray task comes out of it."""
        process = os.getpid()
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt) as error:
            exit_if_forked(process, error)
            logger.error(
                "An asyncio task that a job left behind raised %s",
                type(error).__name__,
                extra={"event": "stray_exit"},
            )
            return
        exit_if_forked(process, LoopBroken("a forked child cannot await on its parent's loop"))
        if self._loop is loop:
            logger.warning(
                "A job stopped the event loop that all async jobs share; it goes on",
                extra={"event": "loop_stopped"},
            )

    def _broke(self, loop: asyncio.AbstractEventLoop, error: BaseException) -> None:
        """Fail the calls under way, which will never go on, and let the next have a new loop."""
        with self._lock:
            if self._loop is not loop:
                return  # it was to end anyway, and nobody waits
            self._loop = self._thread = None
            calls = list(self._calls)
        for future in calls:
            broken = LoopBroken("a job broke the event loop that all async jobs share")
            broken.__cause__ = error
            future.set_exception(broken)
        logger.error(
            "A job broke the event loop that all async jobs share, so those under way fail\n%s",
            describe(error, ()).traceback.rstrip(),
            extra={"event": "loop_broke"},
        )


_here: Final = threading.local()

_left_behind: Final[list[asyncio.Task[Any]]] = []
"""The tasks of loops that have ended, which never go on. The collector must not come upon them: it
would run what stands in their `finally`, in any thread, within any lock that the thread holds."""


def _stop_in_child() -> None:
    """Let a child that an async job forks not go on with the loop, and so with other jobs.

    It ends with the turn of the loop in which it was forked.
    """
    loop = getattr(_here, "loop", None)
    if loop is not None:
        loop.stop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_stop_in_child)
