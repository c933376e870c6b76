"""How a rule answers for each item of a request, and once for a request however often it comes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from objq.core import ops
from objq.core.document import Document
from objq.core.ops import ItemOutcome, JobState, Problem
from objq.core.requests import refused_items
from objq.errors import NotBroker, ObjqError, Rejected

Item = TypeVar("Item")


def problem_of(error: ObjqError) -> Problem:
    """Return an error as it stands in an outcome and on the wire."""
    return Problem(
        code=error.code,
        message=error.message,
        retry_after=error.retry_after_s,
        final=isinstance(error, Rejected) and error.final,
        url=error.url if isinstance(error, NotBroker) else None,
    )


def each_token(
    items: Iterable[Item], token: Callable[[Item], str], rule: Callable[[Item], ItemOutcome]
) -> ops.Outcomes:
    """Apply `rule` to every item; one that is refused gets its error and harms no neighbour."""
    outcomes = []
    for item in items:
        try:
            outcomes.append(rule(item))
        except Rejected as error:
            outcomes.append(ItemOutcome(token=token(item), error=problem_of(error)))
    return ops.Outcomes(items=tuple(outcomes))


def once(
    document: Document,
    op: ops.Push | ops.JobsRequest,
    items: Iterable[tuple[str, Callable[[], JobState | None]]],
    now: int,
) -> ops.Outcomes:
    """Run the steps of a request that has one effect however often it arrives (S7).

    `items`: for each item its job id and the step that applies it. A repeat runs no step: it is
    told per job what is there. Raises Invalid, ExpiredId or Overloaded for the whole request.
    """
    kept = document.find_request(op.request)
    if kept is not None:
        before = refused_items(kept, op.request)
        return ops.Outcomes(
            items=tuple(
                _as_before(document, job_id, before.get(at)) for at, (job_id, _) in enumerate(items)
            )
        )
    outcomes: list[ItemOutcome] = []
    refused: dict[int, str] = {}
    for at, (job_id, step) in enumerate(items):
        try:
            outcomes.append(ItemOutcome(id=job_id, state=step()))
        except Rejected as error:
            refused[at] = error.code
            outcomes.append(ItemOutcome(id=job_id, error=problem_of(error)))
    # A request of which nothing was applied is recorded only if an earlier copy of it may still be
    # under way (`repeat`): then the refusal holds for that copy too, and is final (S12).
    if len(refused) < len(outcomes) or op.repeat:
        document.requests.record(op.request, document.stamp(now), refused)
        document.dirty = True
        outcomes = [_as_final(outcome) for outcome in outcomes]
    return ops.Outcomes(items=tuple(outcomes))


def _as_before(document: Document, job_id: str, refused: str | None) -> ItemOutcome:
    if refused is not None:
        message = "This request was refused before."
        return ItemOutcome(id=job_id, error=Problem(code=refused, message=message, final=True))
    job = document.find(job_id)
    return ItemOutcome(id=job_id, state=job.state if job else None)


def _as_final(outcome: ItemOutcome) -> ItemOutcome:
    if outcome.error is None:
        return outcome
    error = msgspec.structs.replace(outcome.error, final=True)
    return msgspec.structs.replace(outcome, error=error)
