"""The rules of how a claim ends: complete, fail, release, expire (promises S5, S6, S10, S13).

Each ended claim stays in its job's history with token and outcome. So the repeat of an outcome that
was applied is told the same, and any other use of a token that is not live is `claim_lost`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Final, Literal, NamedTuple, cast

import msgspec
from msgspec import UNSET, Raw, UnsetType

from objq.core import ops
from objq.core.document import ERRORS_SHARE, UNBURNT_HISTORY, Document
from objq.core.job import Job
from objq.core.jsontext import check_json
from objq.core.ops import Attempt, ItemOutcome, JobError, JobView
from objq.core.outcomes import each_token
from objq.errors import ClaimLost

BACKOFF_BASE_S: Final = 2.0
BACKOFF_MOST_S: Final = 3600.0

CRAMPED_ERROR_BYTES: Final = 128
CRAMPED_HISTORY: Final = 2
"""What is kept of an error, and of a history, while the document is full (S13)."""

MAX_ERROR_TYPE_BYTES: Final = 256

_encode_text: Final[Callable[[str], bytes]] = msgspec.json.Encoder().encode

EndedAs = Literal["succeeded", "failed", "expired", "released"]


def complete(document: Document, op: ops.Complete, now: int) -> ops.Outcomes:
    return each_token(
        op.items, lambda item: item.token, lambda item: _complete_one(document, item, now)
    )


def _complete_one(document: Document, item: ops.Completion, now: int) -> ItemOutcome:
    job = document.claims.get(item.token)
    if job is None:
        return _repeated(document, item.token, "succeeded")
    result, dropped = _kept_result(document, item.result)
    view = job.view()
    ended = document.finish(
        job,
        now,
        state="succeeded",
        attempts=view.attempt,
        history=_history(document, view, now, "succeeded"),
        result=result,
        result_dropped=dropped,
    )
    document.totals_of(job.queue).succeeded += 1
    return ItemOutcome(id=job.id, token=item.token, state=ended.state)


def _kept_result(document: Document, result: Raw) -> tuple[Raw | UnsetType, str | None]:
    most = document.settings.max_result_bytes
    size = len(bytes(result))
    if size > most:
        return UNSET, f"the result has {size} bytes, more than MAX_RESULT_BYTES ({most})"
    check_json(bytes(result), "result")
    return result, None


def fail(document: Document, op: ops.Fail, now: int) -> ops.Outcomes:
    return each_token(
        op.items, lambda item: item.token, lambda item: _fail_one(document, item, now)
    )


def _fail_one(document: Document, item: ops.Failure, now: int) -> ItemOutcome:
    job = document.claims.get(item.token)
    if job is None:
        return _repeated(document, item.token, "failed")
    view = job.view()
    attempts = view.attempt
    most = CRAMPED_ERROR_BYTES if _is_cramped(document) else document.settings.max_error_bytes
    error = shorten_error(item.error, most)
    document.totals_of(job.queue).failed += 1
    if job.cancel_requested:
        return _end_cancelled(document, job, now, "failed", error)
    history = _history(document, view, now, "failed", error)
    if attempts >= view.max_attempts or item.retry_after is None:
        reason = "failed and asked for no further attempt"
        if attempts >= view.max_attempts:
            reason = f"failed {attempts} of {view.max_attempts} attempts"
        return _bury(document, job, now, reason, attempts, history, item.token)
    pause_s = default_backoff_s(attempts) if item.retry_after is UNSET else item.retry_after
    pause_ms = int(pause_s * 1000)
    document.change(
        job,
        state="scheduled" if pause_ms else "ready",
        run_after=now + pause_ms if pause_ms else None,
        attempts=attempts,
        claim=None,
        history=history,
    )
    return ItemOutcome(id=job.id, token=item.token, state=job.state)


def release(document: Document, op: ops.Release, now: int) -> ops.Outcomes:
    return each_token(op.tokens, str, lambda token: _release_one(document, token, now))


def _release_one(document: Document, token: str, now: int) -> ItemOutcome:
    job = document.claims.get(token)
    if job is None:
        return _repeated(document, token, "released")
    if job.cancel_requested:
        return _end_cancelled(document, job, now, "released")
    view = job.view()
    claim = cast(ops.Claim, view.claim)
    document.change(
        job,
        state="ready",
        claim=None,
        attempts=view.attempts - (claim.started_at is not None),
        alone=claim.alone,  # handing it back has not cleared it of the suspicion
        history=_history(document, view, now, "released"),
    )
    return ItemOutcome(id=job.id, token=token, state=job.state)


class Expired(NamedTuple):
    """A claim that ended because its holder fell silent."""

    job: str
    worker: str


def expire(document: Document, tokens: Iterable[str], now: int) -> list[Expired]:
    """End claims whose holders fell silent for the heartbeat timeout; return those that were live.

    The caller, and nobody else, knows that they did (S5). A started attempt is burnt, and at the
    limit the job is dead ("worker lost"); an unstarted one is not, and the job is next granted
    alone.
    """
    live = [job for token in tokens if (job := document.claims.get(token)) is not None]
    return [_expire_one(document, job, now) for job in live]


def _expire_one(document: Document, job: Job, now: int) -> Expired:
    document.totals_of(job.queue).expired += 1
    view = job.view()
    claim = cast(ops.Claim, view.claim)
    expired = Expired(job.id, claim.worker)
    if job.cancel_requested:
        _end_cancelled(document, job, now, "expired")
        return expired
    started = claim.started_at is not None
    error = JobError(
        type="objq.errors.WorkerLost",
        message=f"worker lost: {claim.worker or 'unnamed'} fell silent",
    )
    history = _history(document, view, now, "expired", error if started else None)
    if started and view.attempts >= view.max_attempts:
        _bury(document, job, now, "worker lost", view.attempts, history, claim.token)
        return expired
    document.change(
        job, state="ready", claim=None, alone=claim.alone or not started, history=history
    )
    return expired


def _bury(
    document: Document,
    job: Job,
    now: int,
    reason: str,
    attempts: int,
    history: tuple[Attempt, ...],
    token: str,
) -> ItemOutcome:
    document.finish(job, now, state="dead", reason=reason, attempts=attempts, history=history)
    document.totals_of(job.queue).dead += 1
    return ItemOutcome(id=job.id, token=token, state="dead")


def _end_cancelled(
    document: Document,
    job: Job,
    now: int,
    outcome: EndedAs,
    error: JobError | None = None,
) -> ItemOutcome:
    """End a job whose cancellation was requested; its attempt keeps how it ended itself."""
    view = job.view()
    claim = cast(ops.Claim, view.claim)
    document.finish(
        job,
        now,
        state="cancelled",
        reason="cancelled while it ran",
        history=_history(document, view, now, outcome, error),
    )
    document.totals_of(job.queue).cancelled += 1
    return ItemOutcome(id=job.id, token=claim.token, state="cancelled")


def _repeated(document: Document, token: str, same: EndedAs) -> ItemOutcome:
    """Answer for a token that is not live: as before if this very outcome was applied (S6)."""
    job = document.ended.get(token)
    if job is not None:
        for attempt in job.view().history:
            if attempt.token == token and attempt.outcome == same:
                return ItemOutcome(id=job.id, token=token, state=job.state)
    raise ClaimLost(
        "This claim is no longer live: its job was given to another worker, or has ended."
    )


def _history(
    document: Document,
    view: JobView,
    now: int,
    outcome: EndedAs,
    error: JobError | None = None,
) -> tuple[Attempt, ...]:
    claim = cast(ops.Claim, view.claim)
    stamp = document.stamp(now)
    started_at = claim.started_at
    if started_at is None and outcome in ("succeeded", "failed"):
        started_at = claim.claimed_at  # it has run: the report is the first word of its start
    attempt = Attempt(
        token=claim.token,
        claim=claim.id,
        worker=claim.worker,
        claimed_at=claim.claimed_at,
        started_at=started_at,
        ended_at=stamp,
        outcome=outcome,
        error=error,
    )
    most = CRAMPED_HISTORY if _is_cramped(document) else view.max_attempts + UNBURNT_HISTORY
    most_bytes = document.settings.max_bytes // ERRORS_SHARE
    return (*_with_short_errors(view.history, most_bytes - _error_bytes(error)), attempt)[-most:]


def _is_cramped(document: Document) -> bool:
    """Tell whether the waiting jobs fill the document, so that ended attempts keep less (S13)."""
    return document.waiting_bytes() + document.settings.max_error_bytes > document.room_bytes()


def _with_short_errors(history: tuple[Attempt, ...], most_bytes: int) -> tuple[Attempt, ...]:
    """Return the attempts with the oldest errors shortened, those that are beyond `most_bytes`."""
    kept: list[Attempt] = []
    for attempt in reversed(history):
        error = attempt.error
        most_bytes -= _error_bytes(error)
        if error is not None and most_bytes < 0:
            error = shorten_error(error, CRAMPED_ERROR_BYTES)
        kept.append(msgspec.structs.replace(attempt, error=error))
    return tuple(reversed(kept))


def _error_bytes(error: JobError | None) -> int:
    if error is None:
        return 0
    return sum(map(_size_of, (error.type, error.message, error.traceback)))


def shorten_error(error: JobError, most_bytes: int) -> JobError:
    """Return the error with message and traceback shortened in the middle (S13).

    `most_bytes` of JSON text are left of both together; of the type, `MAX_ERROR_TYPE_BYTES`.
    """
    kind = _storable(error.type)
    return JobError(
        type=kind[: _fitting(kind, MAX_ERROR_TYPE_BYTES)],
        message=_middle_out(_storable(error.message), most_bytes // 4),
        traceback=_middle_out(_storable(error.traceback), most_bytes - most_bytes // 4),
    )


def _middle_out(text: str, most_bytes: int) -> str:
    size_bytes = _size_of(text)
    if size_bytes <= most_bytes:
        return text
    mark = f"\n… {size_bytes - most_bytes} bytes left out …\n"
    if _size_of(mark) > most_bytes // 2:
        mark = "…"  # so little may be kept that it would say nothing else
    half = max(0, (most_bytes - _size_of(mark)) // 2)
    backwards = text[::-1][: _fitting(text[::-1], half)]
    return text[: _fitting(text, half)] + mark + backwards[::-1]


def _storable(text: str) -> str:
    """Return the text with lone surrogates, which no file can hold, written out."""
    return text.encode(errors="backslashreplace").decode()


def _fitting(text: str, most_bytes: int) -> int:
    """Return how many characters of the text have room in so many bytes of the file."""
    candidates = range(min(len(text), most_bytes) + 1)
    return bisect_right(candidates, most_bytes, key=lambda end: _size_of(text[:end])) - 1


def _size_of(text: str) -> int:
    """Return how many bytes the text takes in the file, where what JSON escapes is longer."""
    return len(_encode_text(text)) - 2


def default_backoff_s(attempts: int) -> float:
    """Return the pause after so many failed attempts: 2, 4, 8 … seconds, at most an hour."""
    return min(BACKOFF_BASE_S ** min(attempts, 32), BACKOFF_MOST_S)
