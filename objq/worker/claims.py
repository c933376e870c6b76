"""Taking jobs: one claim at a time, under one id until it is answered (S7)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from msgspec import structs

from objq.client.backoff import Backoff
from objq.clock import Clock
from objq.core.ops import (
    MAX_GRANTS,
    Answer,
    ClaimId,
    DocumentSettings,
    Grant,
    Granted,
    QueueName,
    TakeClaim,
    WorkerName,
)
from objq.errors import ExpiredId, ObjqError, Unknown
from objq.ids import Ids
from objq.worker.calls import Trouble, logger, passing, repeats
from objq.worker.seam import Caller

HURRY_WAIT_S = 0.01
"""Wait of the repeat that takes the place of a waiting claim when the worker ends."""

REFUSED_PAUSE_S = 5.0
"""Before a claim is sent again that was refused for what it says: only the operator can help."""


class Taken(NamedTuple):
    """What a claim brought, and when (monotonic seconds) the request was sent that brought it."""

    jobs: tuple[Grant, ...]
    sent_at: float


class Claims:
    """`in_doubt(claim)`: whether a call under way may have sent it."""

    def __init__(
        self,
        client: Caller,
        clock: Clock,
        ids: Ids,
        *,
        worker: WorkerName,
        queues: tuple[QueueName, ...],
        settings: Callable[[], DocumentSettings],
        claim_id: Callable[[], ClaimId],
        in_doubt: Callable[[ClaimId], bool],
        trouble: Trouble,
    ) -> None:
        self._client = client
        self._clock = clock
        self._ids = ids
        self._worker = worker
        self._queues = queues
        self._settings = settings
        self._claim_id = claim_id
        self._in_doubt = in_doubt
        self._trouble = trouble
        self._open: TakeClaim | None = None
        """The claim that is not yet answered."""
        self._doubt = False
        """An earlier call may have sent it."""

    @property
    def unsent(self) -> bool:
        """Whether there is a claim that nobody can have been granted anything for."""
        return self._open is not None and not self.may_be_granted

    @property
    def may_be_granted(self) -> bool:
        """Whether a claim that was sent is not answered, so that jobs may be held under it."""
        return self._open is not None and (self._doubt or self._in_doubt(self._open.claim))

    async def take(self, room: int, wait_s: float) -> Taken:
        """Claim up to `room` jobs, waiting `wait_s` seconds for one; repeat until answered."""
        self._open = TakeClaim(
            claim=self._claim_id(),
            queues=self._queues,
            max=min(room, MAX_GRANTS),
            wait=min(wait_s, self._settings().claim_wait_s),
            worker=self._worker,
        )
        self._doubt = False
        backoff = repeats(self._ids)
        while True:
            sent_at = self._clock.monotonic()
            try:
                jobs = await self._send(self._open)
            except ObjqError as error:
                await self._pause_after(error, backoff)
                continue
            self._trouble.answered()
            self._open = None
            return Taken(jobs, sent_at)

    async def hurry(self) -> Taken | None:
        """Send the claim that waits once more, hardly to wait; return what it brings, if anything.

        A broker ends a wait when the same claim comes to wait again, so that `take` returns at
        once. What both bring are the same jobs, with the same tokens.
        """
        backoff = repeats(self._ids)
        while self._open is not None:
            sent_at = self._clock.monotonic()
            try:
                jobs = await self._send(structs.replace(self._open, wait=HURRY_WAIT_S))
            except ObjqError as error:
                if not passing(error):
                    break
                await backoff.after_failure(error.retry_after_s)
                continue
            return Taken(jobs, sent_at)
        return None

    async def _send(self, op: TakeClaim) -> tuple[Grant, ...]:
        # On a slow store an answer takes two writes, and a repeat would wait for both anew. Whether
        # what comes late may still be started is for the holdings to say (S2).
        patience_s = op.wait + self._settings().heartbeat_timeout_s
        answer: Answer = await self._client.call(op, patience_s)
        assert isinstance(answer, Granted)
        return answer.jobs

    async def _pause_after(self, error: ObjqError, backoff: Backoff) -> None:
        assert self._open is not None
        if isinstance(error, ExpiredId):
            # Refused for its age alone, and so never granted anything: begin anew.
            self._open = structs.replace(self._open, claim=self._claim_id())
            self._doubt = False
            return
        self._doubt = self._doubt or isinstance(error, Unknown)
        if passing(error):
            self._trouble.failed(error)
            await backoff.after_failure(error.retry_after_s)
            return
        logger.error(
            "The broker refuses to give work (%s): %s",
            error.code,
            error.message,
            extra={"event": "claim_refused", "code": error.code},
        )
        await asyncio.sleep(max(REFUSED_PAUSE_S, error.retry_after_s or 0.0))
