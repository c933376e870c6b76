"""Heartbeats: every sixth of the timeout, for all tokens that are held (S2).

Each goes out on time whether or not the one before was answered, since the broker counts what it
hears. An answer confirms the tokens as of the sending, so that waiting jobs may start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from objq.clock import Clock
from objq.core.ops import Beaten, DocumentSettings, Heartbeat, Token
from objq.errors import ObjqError
from objq.worker.calls import Trouble, logger
from objq.worker.holdings import Held, Holdings, Stage
from objq.worker.seam import Caller

BEATS_UNDER_WAY = 4
"""Unanswered heartbeats at a time: their answers are of no use after half the timeout."""


class Beats:
    """`confirmed()` is called after each answer, `unwanted(held)` for a waiting job to release."""

    def __init__(
        self,
        client: Caller,
        clock: Clock,
        holdings: Holdings,
        *,
        settings: Callable[[], DocumentSettings],
        confirmed: Callable[[], None],
        unwanted: Callable[[Held], None],
        trouble: Trouble,
    ) -> None:
        self._client = client
        self._clock = clock
        self._holdings = holdings
        self._settings = settings
        self._confirmed = confirmed
        self._unwanted = unwanted
        self._trouble = trouble

    async def run(self) -> None:
        """Beat for ever."""
        async with asyncio.TaskGroup() as under_way:
            beating: set[asyncio.Task[None]] = set()
            while True:
                if self._holdings.tokens() and len(beating) < BEATS_UNDER_WAY:
                    beat = under_way.create_task(self._beat())
                    beating.add(beat)
                    beat.add_done_callback(beating.discard)
                await asyncio.sleep(self._settings().beat_every_s)

    async def _beat(self) -> None:
        beat = Heartbeat(tokens=self._holdings.tokens(), started=self._holdings.started())
        sent_at = self._clock.monotonic()
        try:
            answer = await self._client.call(beat, self._settings().trust_s)
        except ObjqError as error:
            self._trouble.failed(error)  # the next one is under way in any case
            return
        self._trouble.answered()
        assert isinstance(answer, Beaten)
        lost = frozenset(answer.lost)
        for token in answer.lost:
            self._lose(token)
        for token in answer.cancel:
            self._cancel(token)
        self._holdings.confirm((t for t in beat.tokens if t not in lost), sent_at)
        self._confirmed()

    def _lose(self, token: Token) -> None:
        held = self._holdings.get(token)
        if held is None or held.stage in (Stage.ENDED, Stage.STOPPED):
            return  # its outcome was taken, or its report will say what became of it
        extra = {"event": "claim_lost", "job": held.grant.id, "task": held.grant.task}
        if held.stage is Stage.WAITING:
            logger.info("Job %s went elsewhere before it began", held.grant.id, extra=extra)
            self._holdings.drop(token)
            return
        if not held.control.claim_lost:
            logger.warning(
                "Job %s (%s) was given to somebody else or has ended; it goes on here, but its "
                "outcome will be refused",
                held.grant.id,
                held.grant.task,
                extra=extra,
            )
            held.control.lose()

    def _cancel(self, token: Token) -> None:
        held = self._holdings.get(token)
        if held is None or held.control.cancel_requested:
            return
        held.control.request_cancel()
        if held.stage is Stage.WAITING:
            self._unwanted(held)
