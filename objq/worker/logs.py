"""One line per job end, with a stable name for machines in `event` (logger `objq.worker`)."""

from __future__ import annotations

from objq.core.ops import Completion, Grant
from objq.worker.calls import logger
from objq.worker.seam import Report


def log_end(grant: Grant, item: Report, duration_s: float, worker: str) -> None:
    error = None if isinstance(item, Completion) else item.error.type
    logger.info(
        "Job %s (%s) %s after %.3f s, attempt %d of %d",
        grant.id,
        grant.task,
        "succeeded" if error is None else f"failed with {error}",
        duration_s,
        grant.attempt,
        grant.max_attempts,
        extra={
            "event": "job_succeeded" if error is None else "job_failed",
            "job": grant.id,
            "task": grant.task,
            "queue": grant.queue,
            "attempt": grant.attempt,
            "duration_s": duration_s,
            "error": error,
            "worker": worker,
        },
    )


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
