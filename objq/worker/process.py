"""A worker as a process: three kinds of threads, and signals.

* The main thread waits, and takes the signals: the first SIGTERM or SIGINT drains, a second ends
  the process at once. Those that come together are one.
* One thread has the event loop with the connection, the claims and the heartbeats. It runs nothing
  of a job's, so a job that blocks its thread, or the loop of async jobs, holds up no heartbeat.
* The jobs have the threads of `threads`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import threading
from dataclasses import dataclass
from types import FrameType
from typing import Final

from objq import conf
from objq.client.opening import open_session
from objq.clock import SYSTEM_CLOCK, Clock
from objq.core.ops import MAX_NAME, QueueName
from objq.ids import Ids
from objq.stopping import StopRequests, exit_at_once
from objq.worker.calls import logger
from objq.worker.core import Worker
from objq.worker.ending import Ending
from objq.worker.exits import limit_exit
from objq.worker.seam import WorkerOptions
from objq.worker.streams import shared_streams
from objq.worker.threads import ThreadExecutor

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, kw_only=True)
class ProcessOptions:
    """What the command line says. `concurrency`: jobs, and so threads, at a time."""

    alias: str
    queues: tuple[QueueName, ...]
    concurrency: int
    burst: bool = False


class WorkerProcess:
    """Make it and call `run` in the main thread. Raises ConfigurationError when made."""

    def __init__(self, options: ProcessOptions, clock: Clock = SYSTEM_CLOCK) -> None:
        settings = conf.options_for(options.alias)
        ids = Ids()
        self.name = worker_name(ids)
        self._session = open_session(
            settings,
            role="work",
            worker=self.name,
            queues=options.queues,
            slots=options.concurrency,
            ids=ids,
        )
        self._executor = ThreadExecutor(
            threads=options.concurrency, alias=options.alias, worker=self.name, clock=clock
        )
        self._grace_s = settings.shutdown_grace_s
        self._worker = Worker(
            self._session,
            self._executor,
            WorkerOptions(
                name=self.name,
                queues=options.queues,
                slots=options.concurrency,
                prefetch=options.concurrency,
                shutdown_grace_s=settings.shutdown_grace_s,
                burst=options.burst,
            ),
            settings=lambda: self._session.settings,
            clock=clock,
            ids=ids,
            claim_id=self._session.claim_id,
            in_doubt=self._session.in_doubt,
        )
        self._options = options
        self._clock = clock
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="objq worker")
        self._ending: Ending | None = None
        self._requests = StopRequests(clock)

    def run(self) -> int:
        """Work until a signal or the end of the burst; return the code to exit with.

        After a signal the process is to end: signals go on being taken as told above, and threads
        that jobs left have until the end of the grace.
        """
        before = {number: signal.signal(number, self._on_signal) for number in SIGNALS}
        try:
            with shared_streams():
                self._thread.start()
                self._thread.join()
        finally:
            if self._requests.first_at is None:
                for number, handler in before.items():
                    signal.signal(number, handler)
        code = 0 if self._ending is Ending.CLEAN else 1
        if not self._executor.idle:
            exit_at_once(code)  # a thread that nobody waits for any more would keep the process
        self._executor.stop()
        signalled_at = self._requests.first_at
        until = None if signalled_at is None else signalled_at + self._grace_s
        limit_exit(code, self._clock, until=until, grace_s=self._grace_s)
        return code

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        is_first = self._requests.first_at is None
        if self._requests.heard():
            exit_at_once(128 + number)
        if is_first:
            with contextlib.suppress(RuntimeError):  # the loop has just ended by itself
                self._loop.call_soon_threadsafe(self._drain, signal.Signals(number).name)

    def _drain(self, why: str) -> None:
        logger.info(
            "%s: taking no more jobs, %d are held; once more to end at once",
            why,
            len(self._worker.holdings),
            extra={"event": "worker_draining", "worker": self.name},
        )
        self._worker.drain()

    # --- in the thread of the loop ---------------------------------------------------------------

    def _serve(self) -> None:
        try:
            self._loop.run_until_complete(self._work())
        except BaseException:
            logger.critical("The worker broke down", exc_info=True, extra={"event": "worker_broke"})
        finally:
            self._loop.close()

    async def _work(self) -> None:
        logger.info(
            "Worker %s takes jobs from %s, %d at a time",
            self.name,
            ", ".join(self._options.queues),
            self._options.concurrency,
            extra={"event": "worker_started", "worker": self.name},
        )
        try:
            self._ending = await self._worker.run()
            level = logging.ERROR if self._ending is Ending.UNANSWERED else logging.INFO
            logger.log(
                level,
                "Worker %s has ended: %s",
                self.name,
                self._ending.value,
                extra={"event": "worker_ended", "worker": self.name, "ending": self._ending.name},
            )
            if self._ending is Ending.HANDED_BACK:
                exit_at_once(0)  # what still runs here may start elsewhere any moment
        finally:
            await self._session.close()


def worker_name(ids: Ids) -> str:
    """Return `host:pid:random`, at most MAX_NAME characters."""
    tail = f":{os.getpid()}:{ids.token()[:8]}"
    return socket.gethostname()[: MAX_NAME - len(tail)] + tail
