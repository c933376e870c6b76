"""How a worker ends, in this order:

1. No job starts any more and no claim is sent; what waits is released.
2. The claim that is under way is asked to end, and what it still brings is released. One that was
   never sent, since there is no broker, is given up at once.
3. Running jobs have until shortly before `grace_s` is over; their outcomes are reported.
4. Async jobs are interrupted, and whatever still runs is released.
5. Outcomes that are on their way have the rest of the grace to be answered: a job whose report is
   given up runs again.

Nothing of this burns an attempt. A thread cannot be stopped, so after (4) the process has to end at
once: the released job may already start elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from enum import Enum

from objq.clock import Clock
from objq.core.ops import DocumentSettings, Outcomes, Release, Token
from objq.errors import ObjqError
from objq.ids import Ids
from objq.worker.calls import Pulse, Trouble, logger, passing, repeats
from objq.worker.holdings import Held, Holdings, Stage
from objq.worker.seam import Caller

HAND_BACK_S = 5.0
"""The end of the grace period (a quarter of it, if that is less) that is kept for handing back."""

LEAST_HAND_BACK_S = 0.5
"""Time for handing back when there is no grace at all."""

INTERRUPT_S = 1.0
"""Time for async jobs to clean up after they were interrupted."""


class Ending(Enum):
    """How `Worker.run` ended, and so what the process must do."""

    CLEAN = "everything is answered"
    HANDED_BACK = "jobs that still run here were released: end this process at once"
    UNANSWERED = "some jobs were neither reported nor released: their claims will expire"


class Releases:
    """Hands jobs back (S10: no attempt burnt), repeating until it is answered."""

    def __init__(
        self,
        client: Caller,
        clock: Clock,
        ids: Ids,
        holdings: Holdings,
        *,
        settings: Callable[[], DocumentSettings],
        trouble: Trouble,
    ) -> None:
        self._client = client
        self._clock = clock
        self._ids = ids
        self._holdings = holdings
        self._settings = settings
        self._trouble = trouble

    async def release(self, jobs: Sequence[Held], until: float = float("inf")) -> None:
        """Release `jobs`, trying until `until` (monotonic seconds); those answered are dropped."""
        tokens = [held.grant.token for held in jobs]
        backoff = repeats(self._ids)
        while tokens:
            left_s = until - self._clock.monotonic()
            if left_s <= 0:
                return
            try:
                answer = await self._client.call(
                    Release(tokens=tuple(tokens)), min(left_s, self._settings().trust_s)
                )
            except ObjqError as error:
                if not passing(error):
                    logger.error(
                        "Release refused, the claims will expire (%s): %s",
                        error.code,
                        error.message,
                        extra={"event": "release_refused", "code": error.code},
                    )
                    for token in tokens:
                        self._holdings.drop(token)
                    return
                self._trouble.failed(error)
                await backoff.after_failure()
                continue
            self._trouble.answered()
            assert isinstance(answer, Outcomes)
            tokens = self._take(tokens, answer)
            if tokens:
                await backoff.after_failure()

    def _take(self, tokens: Sequence[Token], answer: Outcomes) -> list[Token]:
        again = []
        for token, outcome in zip(tokens, answer.items, strict=True):
            if outcome.error is not None and passing(outcome.error):
                again.append(token)
            else:
                self._holdings.drop(token)
        return again


class WindDown:
    """The steps above. `interrupting` is True from step 4 on."""

    def __init__(
        self,
        holdings: Holdings,
        releases: Releases,
        pulse: Pulse,
        clock: Clock,
        *,
        grace_s: float,
    ) -> None:
        self.interrupting = False
        self._holdings = holdings
        self._releases = releases
        self._pulse = pulse
        self._clock = clock
        self._grace_s = grace_s

    async def run(self, claiming: Sequence[asyncio.Task[None]], claim_limit_s: float) -> Ending:
        """Return when everything is handed back or answered, or when the time is over.

        `claiming` may still bring jobs, but is cancelled after `claim_limit_s`.
        """
        end_at = self._clock.monotonic() + self._grace_s
        give_up_at = end_at - min(HAND_BACK_S, self._grace_s / 4)
        # A claim that nobody answers may have been granted nothing: not worth the whole grace.
        limit = asyncio.get_running_loop().call_later(claim_limit_s, _cancel, claiming)
        try:
            if await self._finish(claiming, give_up_at):
                return Ending.CLEAN
        finally:
            limit.cancel()
            _cancel(claiming)
        end_at = max(end_at, self._clock.monotonic() + LEAST_HAND_BACK_S)
        released = await self._interrupt(end_at)
        await self._wait_while(end_at, Stage.ENDED)
        if self._holdings:
            return Ending.UNANSWERED
        return Ending.HANDED_BACK if released else Ending.CLEAN

    async def _finish(self, claiming: Sequence[asyncio.Task[None]], until: float) -> bool:
        """Steps 1 to 3; return whether nothing is left."""

        def nothing_left() -> bool:
            return not self._holdings and all(task.done() for task in claiming)

        while (left_s := until - self._clock.monotonic()) > 0:
            if waiting := self._holdings.at(Stage.WAITING):
                await self._releases.release(waiting, until)
            elif nothing_left():
                return True
            else:
                await self._pulse.wait(left_s)
        return nothing_left()

    async def _interrupt(self, end_at: float) -> bool:
        """Step 4; return whether anything was to be released."""
        self.interrupting = True
        for held in self._holdings.at(Stage.RUNNING):
            held.control.interrupt()
        now = self._clock.monotonic()
        await self._wait_while(now + min(INTERRUPT_S, (end_at - now) / 2), Stage.RUNNING)
        still = self._holdings.at(Stage.WAITING, Stage.RUNNING, Stage.STOPPED)
        await self._releases.release(still, end_at)
        return bool(still)

    async def _wait_while(self, until: float, stage: Stage) -> None:
        """Return when no job is at this stage any more, or at `until` (monotonic seconds)."""
        while self._holdings.at(stage) and (left_s := until - self._clock.monotonic()) > 0:
            await self._pulse.wait(left_s)


def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
