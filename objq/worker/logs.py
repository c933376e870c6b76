"""One record per job end, with a stable name for machines in `event` (logger `objq.worker`).

It is a line, and below it the traceback of an attempt that failed: an error where the job is dead
now, a warning where it is tried again.
"""

from __future__ import annotations

import logging
from typing import Final

from msgspec import UNSET

from objq.core.ending import default_backoff_s
from objq.core.ops import Completion, Failure, Grant, JobError
from objq.worker.calls import logger
from objq.worker.holdings import Held
from objq.worker.seam import Report

MESSAGE_LENGTH: Final = 300
"""Of an exception's text in a log line; the whole of it stands in the queue."""


def log_end(held: Held, item: Report, duration_s: float, worker: str) -> None:
    grant = held.grant
    extra = {
        "event": "job_succeeded",
        "job": grant.id,
        "task": grant.task,
        "queue": grant.queue,
        "attempt": grant.attempt,
        "duration_s": duration_s,
        "error": None,
        "worker": worker,
    }
    if isinstance(item, Completion):
        logger.info(
            "Job %s (%s) succeeded after %.3f s, attempt %d of %d",
            grant.id,
            grant.task,
            duration_s,
            grant.attempt,
            grant.max_attempts,
            extra=extra,
        )
        return
    if held.control.cancel_requested:
        logger.info(
            "Job %s (%s) was cancelled after %.3f s, attempt %d of %d: %s",
            grant.id,
            grant.task,
            duration_s,
            grant.attempt,
            grant.max_attempts,
            _in_a_line(item.error),
            extra=extra | {"event": "job_cancelled", "error": item.error.type},
        )
        return
    logger.log(
        logging.ERROR if _is_last(grant, item) else logging.WARNING,
        "Job %s (%s) failed after %.3f s, attempt %d of %d: %s. %s%s",
        grant.id,
        grant.task,
        duration_s,
        grant.attempt,
        grant.max_attempts,
        _in_a_line(item.error),
        _what_follows(grant, item),
        f"\n{item.error.traceback.rstrip()}" if item.error.traceback else "",
        extra=extra | {"event": "job_failed", "error": item.error.type},
    )


def _is_last(grant: Grant, item: Failure) -> bool:
    return item.retry_after is None or grant.attempt >= grant.max_attempts


def _what_follows(grant: Grant, item: Failure) -> str:
    """Return what the queue will do with the job, as far as the worker knows."""
    if _is_last(grant, item):
        return "The job is dead"
    pause_s = item.retry_after
    if pause_s is UNSET:
        pause_s = default_backoff_s(grant.attempt)
    return f"Next attempt in {pause_s:g} s"


def _in_a_line(error: JobError) -> str:
    name = error.type.removeprefix("builtins.")
    message = " ".join(error.message.split())
    if len(message) > MESSAGE_LENGTH:
        message = f"{message[:MESSAGE_LENGTH]}…"
    return f"{name}: {message}".rstrip(" .:")


def log_thread_kept(grant: Grant, free: int, slots: int) -> None:
    logger.warning(
        "Job %s (%s) is past its timeout and still keeps its thread: %d of %d are free",
        grant.id,
        grant.task,
        free,
        slots,
        extra={"event": "thread_kept", "job": grant.id, "task": grant.task, "free": free},
    )


def log_thread_freed(grant: Grant, duration_s: float) -> None:
    logger.warning(
        "Job %s (%s), long timed out, has left its thread %.1f s after its start",
        grant.id,
        grant.task,
        duration_s,
        extra={
            "event": "thread_freed",
            "job": grant.id,
            "task": grant.task,
            "duration_s": duration_s,
        },
    )
