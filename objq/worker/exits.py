"""How the process of a worker ends, and how the children end that its jobs fork."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
import traceback
from typing import Final

from objq.clock import Clock
from objq.stopping import exit_at_once
from objq.worker.calls import logger

LEAST_EXIT_S: Final = 1.0
"""Time for exit handlers to run where the grace is already over."""


# --- threads that jobs leave ---------------------------------------------------------------------


def limit_exit(code: int, clock: Clock, *, until: float | None, grace_s: float) -> None:
    """Let the process end with `code` by `until` (monotonic), once its main thread has ended.

    Python waits at the end for every thread that is no daemon, so for one that a task left behind
    too. Without `until`, they have `grace_s` from then on. Log lines are flushed; exit handlers
    (`atexit`) that Python has not come to do not run: they count on those threads having ended, and
    one that waits for such a thread would keep the process after all.
    """

    def wait() -> None:
        threading.main_thread().join()
        now = clock.monotonic()
        time.sleep(max(LEAST_EXIT_S, (now + grace_s if until is None else until) - now))
        try:
            _tell_who_stays()
            logging.shutdown()
        finally:
            exit_at_once(code)

    threading.Thread(target=wait, name="objq exit", daemon=True).start()


def _tell_who_stays() -> None:
    main = threading.main_thread()
    names = [
        thread.name for thread in threading.enumerate() if not (thread.daemon or thread is main)
    ]
    logger.warning(
        "Ends at once, without what would still keep the process: %s",
        f"threads that jobs left ({', '.join(names)})" if names else "exit handlers",
        extra={"event": "threads_left", "threads": names},
    )


# --- forked children -----------------------------------------------------------------------------


def exit_if_forked(parent: int, error: BaseException | None = None) -> None:
    """End this process if it is not `parent` but a child that a job there has forked.

    `error` is what the job's code ended with in the child. The child shares the worker's sockets
    and knows the job's token: going on behind the job's code, it would report for the worker. It
    ends with the status that Python would give, without exit handlers, which are the worker's.
    """
    if os.getpid() == parent:
        return
    try:
        status = _status_of(error)
    except BaseException:
        status = 1
    exit_at_once(status)


def _status_of(error: BaseException | None) -> int:
    """Return the status that Python ends with after `error`, and print what it prints then."""
    reason = error.code if isinstance(error, SystemExit) else error
    if reason is None:
        return 0
    if isinstance(reason, int):
        return reason & 0xFF
    if isinstance(reason, BaseException):
        traceback.print_exception(reason)
    else:
        sys.stderr.write(f"{reason}\n")
    return 1
