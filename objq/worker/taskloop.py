"""The event loop of async tasks, in a thread of its own: what blocks it holds up no heartbeat."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.db import connections

from objq.worker.calls import logger


class AsyncCall:
    """One call of an async function; `cancel` may be called from any thread, at any time."""

    def __init__(self, function: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self._function = function
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
                self._loop.call_soon_threadsafe(self._task.cancel)

    async def run(self) -> tuple[Any, BaseException | None]:
        """Return what the function returned or raised. Nothing that it raises gets to the loop."""
        # Its synchronous parts get a thread of their own, as those of a request do, so that jobs
        # do not wait for each other's database calls.
        async with ThreadSensitiveContext():
            try:
                self._begin()
                return await self._function(), None
            except BaseException as error:
                return None, error
            finally:
                await sync_to_async(connections.close_all)()

    def _begin(self) -> None:
        with self._lock:
            if self._cancelled:
                raise asyncio.CancelledError
            self._loop = asyncio.get_running_loop()
            self._task = asyncio.current_task()


class TaskLoop:
    """Starts its thread with the first call; `stop` ends it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def call(self, call: AsyncCall) -> Any:
        """Run `call` on the loop and wait for it; return or raise as its function did."""
        value, error = asyncio.run_coroutine_threadsafe(call.run(), self._running()).result()
        if error is not None:
            raise error
        return value

    def stop(self) -> None:
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_run_for_ever, args=(loop,), name="objq task loop", daemon=True
                )
                self._thread.start()
            return self._loop


def _run_for_ever(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop until it is stopped; a SystemExit out of a stray task does not end it."""
    asyncio.set_event_loop(loop)
    while True:
        try:
            loop.run_forever()
            break
        except (SystemExit, KeyboardInterrupt) as error:
            logger.error(
                "An asyncio task that a job left behind raised %s",
                type(error).__name__,
                extra={"event": "stray_exit"},
            )
    loop.run_until_complete(loop.shutdown_asyncgens())
