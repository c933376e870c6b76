"""The worker: claims jobs, runs them, keeps their claims alive and reports how they ended.

Everything here runs on one event loop and talks to two seams only: a client that carries requests
and an executor that runs jobs. Four things go on side by side:

* **claims**: one at a time, for as many jobs as there is room for; a claim keeps its id until it is
  answered, so that a lost reply costs nothing (S7);
* **heartbeats**, every sixth of the timeout, for every token that is held (S2);
* **reports** of outcomes, in batches, repeated until they are answered;
* the **jobs** themselves, at most one per slot. A job starts under the rule in `holdings`.

An unreachable broker stops none of this: running jobs go on with the tokens they have. If one of the
four dies of an error of its own, `run` raises it: a worker never goes on by halves.

How it ends, in this order: (1) no job starts any more, no claim is sent, what waits is released;
(2) the claim that is under way is asked to end, and what it still brings is released; (3) running
jobs have until shortly before `shutdown_grace_s`, and their outcomes are reported; (4) async jobs are
interrupted, and whatever still runs is released.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from objq.clock import Clock
from objq.core.ops import ClaimId, Completion, Failure, Outcomes, QueueName, Release, WorkerName
from objq.errors import ObjqError
from objq.ids import Ids
from objq.worker.beats import Beats
from objq.worker.calls import PASSING_CODES, Backoff, Pulse, Trouble, logger, passing
from objq.worker.claims import Claims, Taken
from objq.worker.holdings import Held, Holdings, Stage
from objq.worker.reports import Report, Reports
from objq.worker.seam import Caller, Executor, Outcome

MAX_UNREPORTED = 1000
"""Outcomes that wait for their answer before a worker stops claiming."""

BURST_LOOK_S = 1.0
"""How long a claim waits in a burst while jobs still run: their retries may come due."""

EMPTY_PAUSE_S = 0.1
"""Pause after an empty answer that came without the wait that was asked for."""

HAND_BACK_S = 5.0
"""The end of the grace period (a quarter of it, if that is less) that is kept for handing back."""

INTERRUPT_S = 1.0
"""Time for async jobs to clean up after they were interrupted."""


class Ending(Enum):
    """How `Worker.run` ended, and so what the process must do."""

    CLEAN = "everything is answered"
    HANDED_BACK = "jobs that still run here were released: end this process at once"
    UNANSWERED = "some jobs were neither reported nor released: their claims will expire"


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """`prefetch`: jobs held beyond those that run, so that a free slot need not wait for a commit."""

    name: WorkerName
    queues: tuple[QueueName, ...]
    slots: int
    prefetch: int
    shutdown_grace_s: float
    burst: bool = False


class Worker:
    """`beat_timeout_s` returns T, as the broker's settings have it now."""

    def __init__(
        self,
        client: Caller,
        executor: Executor,
        options: WorkerOptions,
        *,
        beat_timeout_s: Callable[[], float],
        clock: Clock,
        ids: Ids,
        claim_id: Callable[[], ClaimId] | None = None,
    ) -> None:
        self.options = options
        self.holdings = Holdings()
        self.draining = False
        self._client = client
        self._executor = executor
        self._beat_timeout_s = beat_timeout_s
        self._clock = clock
        self._ids = ids
        self._free_slots = options.slots
        self._side: set[asyncio.Task[None]] = set()
        self._handing_back = False
        self._pulse = Pulse()
        self._trouble = trouble = Trouble()
        self._claims = Claims(
            client,
            clock,
            ids,
            worker=options.name,
            queues=options.queues,
            beat_timeout_s=beat_timeout_s,
            claim_id=claim_id or ids.token,
            trouble=trouble,
        )
        self._beats = Beats(
            client,
            clock,
            self.holdings,
            beat_timeout_s=beat_timeout_s,
            confirmed=self._wake,
            unwanted=lambda held: self._spawn(self._release([held])),
            trouble=trouble,
        )
        self._completions = self._reports()
        self._failures = self._reports()

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
            ending = await self._wind_down(claiming)
            for task in self._side:
                task.cancel()
        return ending

    # --- claims ------------------------------------------------------------------------------------

    async def _claim_loop(self) -> None:
        try:
            while not self.draining:
                room = self._room()
                if room <= 0:
                    await self._pulse.wait()
                elif await self._claim_once(room) and self.options.burst:
                    return
        finally:
            self._pulse.notify()

    async def _claim_once(self, room: int) -> bool:
        """Claim once; return whether there is nothing left to do, here or in the queue."""
        idle = not self.holdings
        wait_s = self._beat_timeout_s() / 4
        if self.options.burst:
            wait_s = 0.0 if idle else min(wait_s, BURST_LOOK_S)
        asked_at = self._clock.monotonic()
        taken = await self._claims.take(room, wait_s)
        self._take_in(taken)
        if taken.jobs:
            return False
        if self._clock.monotonic() - asked_at < wait_s / 2 and not self.draining:
            await asyncio.sleep(self._ids.jitter(EMPTY_PAUSE_S))
        return idle

    def _room(self) -> int:
        usable = self._free_slots + len(self.holdings.at(Stage.RUNNING))
        unended = self.holdings.unended()
        if usable == 0 or len(self.holdings) - unended >= MAX_UNREPORTED:
            return 0  # every slot is kept by a job past its timeout, or nobody takes our outcomes
        return usable + self.options.prefetch - unended

    def _take_in(self, taken: Taken) -> None:
        for held in self.holdings.add(taken.jobs, taken.sent_at):
            if held.control.cancel_requested:
                self._spawn(self._release([held]))
        self._wake()

    # --- jobs --------------------------------------------------------------------------------------

    def _wake(self) -> None:
        """Something changed: start what may start, and let everybody look again."""
        now = self._clock.monotonic()
        while not self.draining and self._free_slots > 0:
            held = self.holdings.startable(now, self._beat_timeout_s() / 2)
            if held is None:
                break
            held.stage = Stage.RUNNING
            held.started_at = now
            self._free_slots -= 1
            self._spawn(self._run_job(held))
        self._pulse.notify()

    async def _run_job(self, held: Held) -> None:
        outcome = await self._executor.run(held.grant, held.control)
        if self._handing_back and isinstance(outcome.item, Failure):
            held.stage = Stage.STOPPED  # we stopped it ourselves: no attempt of the job's
        else:
            held.stage = Stage.ENDED
            self._log_end(held, outcome.item)
            self._report(outcome.item)
        self._pulse.notify()
        if outcome.lingering is not None:
            await self._linger(held, outcome)
        self._free_slots += 1
        self._wake()

    async def _linger(self, held: Held, outcome: Outcome) -> None:
        assert outcome.lingering is not None
        extra = {"job": held.grant.id, "task": held.grant.task}
        logger.warning(
            "Job %s (%s) is past its timeout and still keeps its thread, %d of %d are free",
            held.grant.id,
            held.grant.task,
            self._free_slots,
            self.options.slots,
            extra={"event": "thread_kept", **extra},
        )
        await asyncio.wait([asyncio.ensure_future(outcome.lingering)])
        logger.warning(
            "The thread of job %s is free again, %.1f s after the start",
            held.grant.id,
            self._clock.monotonic() - held.started_at,
            extra={"event": "thread_freed", **extra},
        )

    def _log_end(self, held: Held, item: Report) -> None:
        grant = held.grant
        duration_s = self._clock.monotonic() - held.started_at
        how = "succeeded" if isinstance(item, Completion) else f"failed ({item.error.type})"
        logger.info(
            "Job %s (%s) %s after %.3f s, attempt %d of %d",
            grant.id,
            grant.task,
            how,
            duration_s,
            grant.attempt,
            grant.max_attempts,
            extra={
                "event": "job_succeeded" if isinstance(item, Completion) else "job_failed",
                "job": grant.id,
                "task": grant.task,
                "queue": grant.queue,
                "attempt": grant.attempt,
                "duration_s": duration_s,
                "error": None if isinstance(item, Completion) else item.error.type,
                "worker": self.options.name,
            },
        )
