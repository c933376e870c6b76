"""An event loop in a daemon thread, for callers that have none."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

STOP_TIMEOUT_S: Final = 3.0


class LoopThread:
    """Runs coroutines for any thread. A daemon, so that it never keeps the process alive."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Start `work`; the future's `cancel` cancels it. Raises RuntimeError once stopped."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def is_current(self) -> bool:
        """Return whether the caller runs in this very thread, where waiting would never end."""
        return threading.get_ident() == self._thread.ident

    def stop(self) -> None:
        """Cancel what runs and end the thread; give up waiting after a few seconds."""
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STOP_TIMEOUT_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            tasks = asyncio.all_tasks(self._loop)
            for task in tasks:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()
