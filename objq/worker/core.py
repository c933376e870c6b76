"""The worker: claims jobs, runs them, keeps their claims alive and reports how they ended.

Everything here runs on one event loop and talks to two seams only: a client that carries requests
and an executor that runs jobs. Four things go on side by side:

* **claims**: one at a time, for as many jobs as there is room for; a claim keeps its id until it is
  answered, so that a lost reply costs nothing (S7);
* **heartbeats**, every sixth of the timeout, for every token that is held (S2);
* **reports** of outcomes, in batches, repeated until they are answered;
* the **jobs** themselves, at most one per slot. A job starts under the rule in `holdings`.

An unreachable broker stops none of this: running jobs go on with the tokens they have. If one of
the four dies of an error of its own, `run` raises it: a worker never goes on by halves.

How it ends is told in `ending`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from objq.clock import Clock
from objq.core.ops import ClaimId, Completion, DocumentSettings, Failure, Token
from objq.ids import Ids
from objq.worker.appetite import STUCK_AFTER_S, Appetite, Ask
from objq.worker.beats import Beats
from objq.worker.calls import Pulse, Trouble, logger
from objq.worker.claims import Claims, Taken
from objq.worker.ending import Ending, Releases, WindDown
from objq.worker.holdings import Held, Holdings, Stage
from objq.worker.logs import log_end
from objq.worker.reports import Reports, fitted
from objq.worker.seam import Caller, Executor, Outcome, Report, WorkerOptions
from objq.worker.slots import Slots

MAX_UNREPORTED = 1000
"""Outcomes that wait for their answer before a worker stops claiming."""

BURST_LOOK_S = 1.0
"""How long a claim waits in a burst while jobs still run: their retries may come due."""

CLAIM_MARGIN_S = 1.0
"""Time, beyond its wait, that the last claim has to be answered when the worker ends."""

NOTICE_S = 0.5
"""The end of a worker tells what it waits for after so long."""

EMPTY_PAUSE_S = 0.1
"""Pause after an empty answer that came without the wait that was asked for."""


class Worker:
    """`settings` returns the document's settings, as the broker last told them.

    `claim_id` draws the id of a new claim. `in_doubt(claim)`: whether a call under way may have
    sent it; a client that cannot tell says yes.
    """

    def __init__(
        self,
        client: Caller,
        executor: Executor,
        options: WorkerOptions,
        *,
        settings: Callable[[], DocumentSettings],
        clock: Clock,
        ids: Ids,
        claim_id: Callable[[], ClaimId],
        in_doubt: Callable[[ClaimId], bool] = lambda claim: True,
    ) -> None:
        self.options = options
        self.holdings = Holdings()
        self.draining = False
        self._settings = settings
        self._clock = clock
        self._ids = ids
        self._side: set[asyncio.Task[None]] = set()
        self._pulse = Pulse()
        self._appetite = Appetite(options.prefetch)
        self._claims = Claims(
            client,
            clock,
            ids,
            worker=options.name,
            queues=options.queues,
            settings=settings,
            claim_id=claim_id,
            in_doubt=in_doubt,
            trouble=Trouble("claims"),
        )
        self._releases = Releases(
            client, clock, ids, self.holdings, settings=settings, trouble=Trouble("releases")
        )
        self._beats = Beats(
            client,
            clock,
            self.holdings,
            settings=settings,
            confirmed=self._wake,
            unwanted=self._release,
            trouble=Trouble("heartbeats"),
        )
        self._completions, self._failures = (
            Reports(
                client,
                ids,
                answer_within_s=lambda: settings().trust_s,
                settled=self._settled,
                instead=self._report,
                trouble=Trouble(kind),
            )
            for kind in ("results", "failures")
        )
        self._slots = Slots(
            options.slots,
            executor,
            self.holdings,
            clock,
            spawn=self._spawn,
            ended=self._ended,
            freed=self._wake,
        )
        self._ending = WindDown(
            self.holdings, self._releases, self._pulse, clock, grace_s=options.shutdown_grace_s
        )

    def drain(self) -> None:
        """Begin to end; `run` returns within `shutdown_grace_s`. May be called again."""
        self.draining = True
        self._pulse.notify()

    async def run(self) -> Ending:
        """Work until `drain` is called or, with `burst`, until there is nothing left to do."""
        async with asyncio.TaskGroup() as self._tasks:
            claiming = self._spawn(self._claim_loop())
            self._spawn(self._beats.run())
            self._spawn(self._completions.run())
            self._spawn(self._failures.run())
            while not self.draining and not claiming.done():
                await self._pulse.wait()
            self.draining = True
            if self._claims.unsent:  # there is no broker, and nothing to hear from one
                claiming.cancel()
                asking: tuple[asyncio.Task[None], ...] = (claiming,)
            else:
                asking = (claiming, self._spawn(self._hurry()))
            limit_s = self._settings().claim_wait_s + CLAIM_MARGIN_S
            notice = asyncio.get_running_loop().call_later(NOTICE_S, self._tell_of_claim, limit_s)
            ending = await self._ending.run(asking, limit_s)
            notice.cancel()
            for task in self._side:
                task.cancel()
        return ending

    # --- claims --------------------------------------------------------------------------------

    async def _claim_loop(self) -> None:
        try:
            while not self.draining:
                ask = self._next_ask()
                if ask is None:
                    await self._pulse.wait()
                elif await self._claim_once(ask) and self.options.burst:
                    return
        finally:
            self._pulse.notify()

    def _next_ask(self) -> Ask | None:
        unreported = len(self.holdings.at(Stage.ENDED))
        if unreported >= MAX_UNREPORTED or self.holdings.holds_suspect():
            return None
        wait_s = self._settings().claim_wait_s
        if self.options.burst:
            wait_s = min(wait_s, BURST_LOOK_S) if self.holdings else 0.0
        return self._appetite.next(
            free=self._slots.free,
            busy=len(self.holdings.at(Stage.RUNNING)),
            waiting=len(self.holdings.at(Stage.WAITING, Stage.STOPPED)),
            wait_s=wait_s,
        )

    async def _claim_once(self, ask: Ask) -> bool:
        """Claim once; return whether there is nothing left to do, here or in the queue."""
        idle = not self.holdings
        asked_at = self._clock.monotonic()
        taken = await self._claims.take(ask.max_jobs, ask.wait_s)
        self._appetite.answered(ask, len(taken.jobs))
        self._take_in(taken)
        if taken.jobs:
            return False
        if self._clock.monotonic() - asked_at < ask.wait_s / 2 and not self.draining:
            await asyncio.sleep(self._ids.jitter(EMPTY_PAUSE_S))
        return idle

    def _take_in(self, taken: Taken) -> None:
        now = self._clock.monotonic()
        for held in self.holdings.add(taken.jobs, sent_at=taken.sent_at, now=now):
            if held.control.cancel_requested:
                self._release(held)
        self._wake()

    async def _hurry(self) -> None:
        try:
            taken = await self._claims.hurry()
            if taken is not None:
                self._take_in(taken)
        finally:
            self._pulse.notify()

    def _release(self, *waiting: Held) -> None:
        """Hand back jobs that have not started; at the end of the worker, `ending` does."""
        if waiting and not self.draining:
            for held in waiting:
                held.stage = Stage.STOPPED
            self._spawn(self._hand_back(waiting))

    async def _hand_back(self, waiting: Sequence[Held]) -> None:
        await self._releases.release(waiting)
        self._wake()  # nothing may be held any more, and then no heartbeat wakes the claims either

    def _tell_of_claim(self, limit_s: float) -> None:
        if self._claims.may_be_granted:
            logger.info(
                "Waits up to %g s for the answer to a claim that was sent, to hand back the jobs "
                "that it may have been granted; unanswered, they expire",
                limit_s - NOTICE_S,
                extra={"event": "claim_awaited", "worker": self.options.name},
            )

    # --- jobs ----------------------------------------------------------------------------------

    def _wake(self) -> None:
        """Something changed: start what may start, and let everybody look again."""
        now = self._clock.monotonic()
        if not self.draining:
            self._slots.start(now, self._settings().trust_s)
            if self._slots.free == 0 or self.holdings.holds_suspect():
                self._release_stuck(now)
        self._pulse.notify()

    def _release_stuck(self, now: float) -> None:
        stuck = self.holdings.waiting_since(now - STUCK_AFTER_S)
        if stuck:
            self._appetite.stuck()
            self._release(*stuck)

    def _ended(self, held: Held, outcome: Outcome) -> None:
        if self._ending.interrupting and isinstance(outcome.item, Failure):
            held.stage = Stage.STOPPED  # we stopped it ourselves: no attempt of the job's
        else:
            held.stage = Stage.ENDED
            duration_s = self._clock.monotonic() - held.started_at
            self._appetite.ended(duration_s)
            log_end(held, outcome.item, duration_s, self.options.name)
            self._report(outcome.item)
        self._pulse.notify()

    def _report(self, item: Report) -> None:
        if isinstance(item, Completion):
            self._completions.add(fitted(item, self._settings().max_result_bytes))
        else:
            self._failures.add(item)

    def _settled(self, token: Token) -> None:
        self.holdings.drop(token)
        self._pulse.notify()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._tasks.create_task(work)
        self._side.add(task)
        task.add_done_callback(self._side.discard)
        return task
