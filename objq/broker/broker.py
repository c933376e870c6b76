"""One broker process: stand by, lead, and after a lost leadership stand by again, until stopped.

    starting → standby → leading → (deposed) → standby …
                  └─────────┴── stop ──→ stopping → stopped

Every leadership has an id of its own. A deposed broker never commits again under the old one: it
answers what waits with Unknown, has its sockets closed and stands by under a new id (S4). Stopping
flushes what is here, then clears the recorded broker by CAS, so that a standby needs no timeout.

A side task watches this process's clock. A gap means that the process was paused: sockets are
closed unread and the document is read before anybody is served again. If the side task itself
dies, the broker stops loudly."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from typing import Any, Literal

import objq
from objq.broker.addresses import is_bound_here
from objq.broker.answering import refuse
from objq.broker.batch import Deposed
from objq.broker.commit import Closed, Committer
from objq.broker.company import Company
from objq.broker.election import Election
from objq.broker.gauges import Gauges
from objq.broker.leader import Leader
from objq.broker.measures import Measures
from objq.broker.pause import PauseWatch
from objq.broker.readiness import describe
from objq.broker.roster import Roster
from objq.broker.standby import Candidate, Probe, Standby
from objq.broker.stats import CommitStats
from objq.broker.watchers import Watcher
from objq.clock import Clock
from objq.core import ops
from objq.core.leading import step_down
from objq.errors import NotBroker, Unavailable
from objq.ids import Ids
from objq.options import Options
from objq.store.base import AsyncStore, TooLarge

logger = logging.getLogger("objq.broker")

State = Literal["starting", "standby", "leading", "stopping", "stopped"]


class Broker:
    """A broker. `advertise`: the URL under which others reach it. `bound`: its listening address.

    `probe` asks a broker's `/readyz`. `skip_self_check`: why this broker need not reach itself at
    its advertised URL before it leads (nobody would connect to it), or None to check. `process`:
    where it runs, for people.
    """

    def __init__(
        self,
        store: AsyncStore,
        options: Options,
        *,
        clock: Clock,
        ids: Ids,
        advertise: str,
        bound: tuple[str, int] | None,
        probe: Probe,
        skip_self_check: str | None = None,
        process: ops.Process | None = None,
    ) -> None:
        self.on_reset: list[Callable[[], None]] = []
        """Called when all sockets have to be closed unread: after a pause, and when deposed."""
        self.on_state: list[Callable[[], None]] = []
        """Called when this broker leads, stands by (and knows for whom), or stops."""
        self.state: State = "starting"
        self.roster = Roster(clock)
        """The workers that are connected to this process."""
        self.company = Company(clock, process)
        """Who leads, who would, and who has led."""
        self._advertise = advertise
        self._options = options
        self._clock = clock
        self._ids = ids
        self._settings = settings = options.document_settings()
        self._committer = Committer(store, clock, ids, poll_s=settings.notice_s)
        self._election = Election(ids.token(), settings.broker_ttl_s, ids)
        candidate = Candidate(
            url=advertise,
            version=objq.__version__,
            settings=settings,
            is_bound_here=lambda url: is_bound_here(url, bound),
        )
        self._standby = Standby(
            self._committer,
            self._election,
            candidate,
            clock,
            ids,
            probe,
            check_self=skip_self_check is None,
            introduction=self.introduction,
            on_standing_by=self._tell_state,
            on_header=self.company.saw,
        )
        self._told: tuple[State, str] = (self.state, self.id)
        self._leader: Leader | None = None
        self._main: asyncio.Task[None] | None = None
        self._finished = asyncio.Event()
        self._stopping = asyncio.Event()
        self._gave_up = False
        self._pauses = PauseWatch(clock, settings.pause_s)
        self._committer.reader.working = self._pauses.working

    # --- what servers and consumers use ----------------------------------------------------------

    @property
    def id(self) -> str:
        """The id under which this process leads, or would."""
        return self._election.broker_id

    @property
    def document(self) -> str | None:
        """The id of the document, once it was seen."""
        seen = self._committer.seen
        return seen.document if seen else None

    @property
    def leading(self) -> bool:
        return self._leader is not None and not self._leader.ended

    @property
    def stats(self) -> CommitStats:
        return self._committer.stats

    @property
    def measures(self) -> Measures:
        return self._committer.measures

    def gauges(self) -> Gauges | None:
        """Return what a leader has in hand; None if this process does not lead."""
        return self._leader.gauges() if self._leader is not None and self.leading else None

    def submit(self, op: ops.Asked) -> asyncio.Future[ops.Answer]:
        """Return a future of the answer, or of an ObjqError; cancel it when nobody waits."""
        paused = self._notice_pause()
        if self._leader is not None and not paused:
            return self._leader.submit(op)
        return self._refused(paused=paused)

    def watch(self, watcher: Watcher) -> asyncio.Future[ops.Answer]:
        """Return a future of a snapshot; from that version on, `watcher` is told of deltas.

        That ends with `unwatch`, and with the leadership, when all sockets are closed.
        """
        paused = self._notice_pause()
        if self._leader is not None and not paused:
            return self._leader.watch(watcher)
        return self._refused(paused=paused)

    def unwatch(self, watcher: Watcher) -> None:
        """Tell a watcher no more; one that does not watch is no error."""
        if self._leader is not None:
            self._leader.unwatch(watcher)

    def _refused(self, *, paused: bool) -> asyncio.Future[ops.Answer]:
        future: asyncio.Future[ops.Answer] = asyncio.get_running_loop().create_future()
        refuse(future, Unavailable("This broker was paused.") if paused else self._not_broker())
        return future

    def welcome(self, role: str) -> ops.Welcome:
        """Return the answer to `hello`. Raises NotBroker when not leading, and Unavailable (S2)."""
        if self._notice_pause():
            raise Unavailable("This broker was paused.")
        leader, seen = self._leader, self._committer.seen
        if leader is None or seen is None or leader.ended:
            raise self._not_broker()
        refusal = leader.refusal()
        if refusal is not None:
            raise refusal
        return ops.Welcome(
            document=seen.document,
            broker=self.id,
            epoch=seen.epoch,
            seq=seen.seq,
            role=role,
            version=objq.__version__,
            settings=self._settings,
        )

    def introduction(self) -> bytes:
        """Return what this broker says of itself when it asks another one."""
        return self.company.introduction(
            ops.BrokerInfo(id=self.id, url=self._advertise, since=0, version=objq.__version__)
        )

    def readiness(self) -> dict[str, Any]:
        """Return what `/readyz` says. `store_ok`: the store was reached within BROKER_TTL."""
        readiness = describe(self._committer, self._clock, self._options.broker_ttl_s)
        own = self._leader.problem if self._leader is not None else self._standby.problem
        problem = readiness["problem"] or own
        lead = {
            "broker": self.id,
            "url": self._advertise,
            "state": self.state,
            "leading": self.leading,
        }
        return lead | readiness | {"problem": problem}

    # --- running ---------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run until stopped. Raises whatever a part of the broker died of."""
        if self._main is not None or self._stopping.is_set():
            return
        self._main = asyncio.create_task(self._stand_by_and_lead(), name="objq broker loop")
        watch = asyncio.create_task(self._watch(), name="objq broker watch")
        try:
            await asyncio.wait({self._main, watch}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended = await self._wind_up({self._main, watch})
        for task in ended:
            if (error := task.exception()) is not None:
                logger.critical("%s died.", task.get_name(), extra={"event": "task_died"})
                raise error

    async def stop(self) -> bool:
        """Stop gracefully, within SHUTDOWN_GRACE: answer what is here, then clear the broker.

        Return False if the store did not let it, or not in time: the document may name this broker
        still, what waited was answered with Unknown, and a call of the store may go on in its
        thread.
        """
        if self._main is None:
            self._stopping.set()
            self.state = "stopped"
            return True
        if not self._stopping.is_set():
            self._stopping.set()
            self._become("stopping")
            if self._standby.stop():
                self._main.cancel()  # a read that hangs is not waited for
            if self._leader is not None:
                self._leader.drain()
        try:
            await asyncio.wait_for(self._finished.wait(), self._options.shutdown_grace_s)
        except TimeoutError:
            logger.error(
                "Could not finish within SHUTDOWN_GRACE (%g s): %s.",
                self._options.shutdown_grace_s,
                self._what_is_unfinished(),
                extra={"event": "grace_over"},
            )
            self._gave_up = True
            self._committer.close()
            self._main.cancel()
            await self._finished.wait()
        return not self._gave_up

    def _what_is_unfinished(self) -> str:
        if self._leader is not None or self._standby.may_lead:
            return "this broker has not stepped down, and what waited for it has an unknown outcome"
        return "the store has not answered the last write of this standby"

    async def _stand_by_and_lead(self) -> None:
        with contextlib.suppress(Closed):
            while not self._stopping.is_set():
                self._become("standby")
                lead = await self._standby.run()
                self.company.saw(lead.document, lead.why)
                self._leader = Leader(
                    self._committer,
                    lead.document,
                    self._settings,
                    self._clock,
                    self._ids,
                    wait_s=lead.wait_s,
                    notice_pause=self._notice_pause,
                    roster=self.roster,
                    company=self.company,
                )
                self.measures.take_overs += 1
                logger.info("Leading in epoch %s.", lead.document.epoch, extra={"event": "leading"})
                self._become("leading")
                if self._stopping.is_set():
                    self._leader.drain()
                try:
                    await self._leader.run()
                except Deposed as error:
                    self._be_deposed(error)
                else:
                    await self._step_down()

    def _become(self, state: State) -> None:
        if self.state != "stopped":
            self.state = "stopping" if self._stopping.is_set() else state
        if self.state != "standby":
            self._tell_state()

    def _tell_state(self) -> None:
        now = (self.state, self.id)
        if now != self._told:
            self._told = now
            for tell in self.on_state:
                tell()

    async def _step_down(self) -> None:
        assert self._leader is not None
        self._leader.end(NotBroker("This broker has stopped."))
        broker_id = self.id
        try:
            await self._committer.transact(lambda document: step_down(document, broker_id))
        except TooLarge as error:
            self._gave_up = True
            logger.error("Could not step down (%s).", error, extra={"event": "document_too_large"})
        else:
            logger.info("Stepped down.", extra={"event": "stepped_down"})

    def _be_deposed(self, error: Deposed) -> None:
        assert self._leader is not None
        logger.warning("Deposed. %s", error, extra={"event": "deposed"})
        leader, self._leader = self._leader, None
        leader.end()
        self._election.lose(self._ids.token())
        self._reset_sockets()

    async def _wind_up(self, tasks: set[asyncio.Task[None]]) -> Iterable[asyncio.Task[None]]:
        ended = [task for task in tasks if task.done() and not task.cancelled()]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        if self._leader is not None:
            self._leader.end()
        self._committer.close()
        self.state = "stopped"
        self._finished.set()
        return ended

    # --- pauses ----------------------------------------------------------------------------------

    async def _watch(self) -> None:
        while True:
            self._notice_pause()
            if self._leader is not None:
                self._leader.check()
            await asyncio.sleep(self._pauses.tick_s)

    def _notice_pause(self) -> bool:
        paused_s = self._pauses.paused_s()
        if not paused_s:
            return False
        logger.warning("This process was paused for %.1f s.", paused_s, extra={"event": "paused"})
        if self._leader is not None:
            self._leader.pause(self._clock.monotonic())
        else:
            self._election.forget()
        self._reset_sockets()
        return True

    def _reset_sockets(self) -> None:
        for reset in self.on_reset:
            reset()

    def _not_broker(self) -> NotBroker:
        seen = self._committer.seen
        named = seen.broker if seen else None
        url = named.url if named and named.id != self.id else None
        return NotBroker("This process does not lead.", url=url)
