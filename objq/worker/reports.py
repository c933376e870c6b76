"""Outcomes on their way to the broker.

Everything that ended while a report was under way goes into the next one. A report is repeated
until it is answered (S12); `claim_lost` is an answer (S6). An outcome that is refused for what it
contains becomes a failure that says so, since a job must never hang on its own report.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from msgspec import Raw, json

from objq.core.ops import (
    MAX_RECORD_BYTES,
    Complete,
    Completion,
    Fail,
    Failure,
    ItemOutcome,
    JobError,
    Outcomes,
    Problem,
    Token,
)
from objq.errors import ClaimLost, ObjqError
from objq.ids import Ids
from objq.worker.calls import Pulse, Trouble, logger, passing, repeats
from objq.worker.seam import Caller, Report

MAX_REPORT_ITEMS = 1000
MAX_REPORT_BYTES = 256 * 1024
"""Of results and errors in one request (one item may be larger): a frame is limited to 1 MiB."""


class Reports:
    """Sends outcomes of one kind, one request at a time.

    `settled(token)` is called once for each outcome, when it needs no further report.
    `instead(failure)` takes the failure that replaces an outcome which was refused.
    """

    def __init__(
        self,
        client: Caller,
        ids: Ids,
        *,
        answer_within_s: Callable[[], float],
        settled: Callable[[Token], None],
        instead: Callable[[Failure], None],
        trouble: Trouble,
    ) -> None:
        self._client = client
        self._ids = ids
        self._answer_within_s = answer_within_s
        self._settled = settled
        self._instead = instead
        self._trouble = trouble
        self._waiting: deque[Report] = deque()
        self._pulse = Pulse()

    def add(self, item: Report) -> None:
        self._waiting.append(item)
        self._pulse.notify()

    async def run(self) -> None:
        """Report for ever what is added."""
        while True:
            while not self._waiting:
                await self._pulse.wait()
            await self._deliver(self._batch())

    def _batch(self) -> list[Report]:
        batch: list[Report] = []
        size_bytes = 0
        while self._waiting and len(batch) < MAX_REPORT_ITEMS:
            size_bytes += report_bytes(self._waiting[0])
            if batch and size_bytes > MAX_REPORT_BYTES:
                break
            batch.append(self._waiting.popleft())
        return batch

    async def _deliver(self, batch: Sequence[Report]) -> None:
        backoff = repeats(self._ids)
        while batch:
            try:
                answer = await self._client.call(_request(batch), self._answer_within_s())
            except ObjqError as error:
                if passing(error):
                    self._trouble.failed(error)
                    await backoff.after_failure(error.retry_after_s)
                    continue
                await self._refused(batch, error)
                return
            self._trouble.answered()
            assert isinstance(answer, Outcomes)
            batch = self._take(batch, answer.items)
            if batch:
                await backoff.after_failure()

    async def _refused(self, batch: Sequence[Report], error: ObjqError) -> None:
        """The whole request was refused: find the item that is to blame, by halves."""
        if len(batch) == 1:
            self._settle(batch[0], Problem(code=error.code, message=error.message))
            return
        middle = len(batch) // 2
        await self._deliver(batch[:middle])
        await self._deliver(batch[middle:])

    def _take(self, batch: Sequence[Report], answers: Sequence[ItemOutcome]) -> list[Report]:
        """Settle what was answered; return what has to be sent again."""
        again = list(batch[len(answers) :])
        for item, answer in zip(batch, answers, strict=False):
            if answer.error is not None and passing(answer.error):
                again.append(item)
            else:
                self._settle(item, answer.error)
        return again

    def _settle(self, item: Report, problem: Problem | None) -> None:
        if problem is None:
            self._settled(item.token)
            return
        extra = {"event": "outcome_refused", "token": item.token, "code": problem.code}
        if problem.code == ClaimLost.code:
            extra["event"] = "claim_lost"
            logger.warning(
                "Outcome not taken, the job is no longer ours: %s", problem.message, extra=extra
            )
            self._settled(item.token)
            return
        logger.error("Outcome refused (%s): %s", problem.code, problem.message, extra=extra)
        replacement = _replacement(item, problem)
        if replacement is None:  # nothing simpler left to say; the claim will expire
            self._settled(item.token)
        else:
            self._instead(replacement)


def fitted(item: Completion, max_result_bytes: int) -> Completion:
    """Return the completion with a stand-in for a result that is too large to be sent at all.

    The stand-in is itself over `MAX_RESULT_BYTES`, so that the document leaves it out and says so,
    as it does with any result over that limit (S13): the job has succeeded.
    """
    size_bytes = len(memoryview(item.result))
    if size_bytes <= MAX_RECORD_BYTES:
        return item
    logger.warning(
        "A result of %d bytes is not kept: MAX_RESULT_BYTES is %d",
        size_bytes,
        max_result_bytes,
        extra={"event": "result_left_out", "token": item.token, "size_bytes": size_bytes},
    )
    return Completion(token=item.token, result=Raw(b'"%b"' % (b"." * max_result_bytes)))


def report_bytes(item: Report) -> int:
    """Return about how many bytes an outcome takes in a frame."""
    if isinstance(item, Completion):
        return 64 + len(memoryview(item.result))
    return 128 + len(json.encode(item.error))  # much of a text may take more than one byte each


def _request(batch: Sequence[Report]) -> Complete | Fail:
    completions = tuple(item for item in batch if isinstance(item, Completion))
    if completions:
        return Complete(items=completions)
    return Fail(items=tuple(item for item in batch if isinstance(item, Failure)))


def _replacement(item: Report, problem: Problem) -> Failure | None:
    plain = f"The outcome was refused ({problem.code}): {problem.message}"
    if isinstance(item, Completion):
        error = JobError(type="objq.errors.Invalid", message=plain)
        return Failure(token=item.token, error=error)
    if item.error.type == "objq.errors.Rejected":
        return None
    return Failure(
        token=item.token,
        error=JobError(type="objq.errors.Rejected", message=plain),
        retry_after=item.retry_after,
    )
