"""An operator: takes the object away, puts old versions in its place, adopts, ends brokers.

What is done to the object by hand is made up for some time later. Until then whoever has seen what
was there must not write (S14), and nothing is started, since a process that has seen nothing cannot
know. Whatever has meanwhile seen another document, or a version that is not of the one that counts,
has to be started anew, as the documentation has it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from objq.core.codec import decode_head
from objq.doctor.treatment import adopt_shown
from objq.errors import ForeignDocument, Unknown
from tests.sim.process import Process
from tests.sim.store import StoreClient, Version

if TYPE_CHECKING:
    from tests.sim.actors import Actor, BrokerActor
    from tests.sim.company import Brokers, Company
    from tests.sim.world import World

ADOPTS_WITHIN_S: Final = 300.0


class Operator:
    def __init__(self, world: World, company: Company) -> None:
        self.is_busy = False
        """The object is not what it should be."""
        self.lent: BrokerActor | None = None
        """A broker that was started only to end what no direct worker can."""
        self._world = world
        self._company = company
        self._rng = random.Random(f"{world.seed}/operator")
        self._last: Version | None = None
        """What counts, while something else is there."""
        self._adopts = False
        """The older version is what counts from now on."""
        self._doctors = 0

    # --- the object -------------------------------------------------------------------------------

    def start(self) -> None:
        if self._company.hand == "keeps off":
            return
        for _ in range(self._rng.choice((1, 1, 2))):
            self._world.later(self._world.faults_s * self._rng.uniform(0.15, 0.9), self._act)

    def finish(self) -> None:
        """Make up for everything now, and let time pass until it is done."""
        world = self._world
        if self._last is not None:
            self._make_up()
        if not self.is_busy:
            return
        limit_s = world.timeline.now + ADOPTS_WITHIN_S
        if not world.timeline.run(limit_s, lambda: not self.is_busy):
            world.history.problems.append("liveness: the doctor does not come to an end")
        world.healed_at = world.timeline.now

    def _act(self) -> None:
        world, rng, hand = self._world, self._rng, self._company.hand
        last = world.store.log[-1] if world.store.log else None
        if world.is_healing or self.is_busy or last is None or last.mark is None:
            return
        now = last.mark.seq
        older = [v for v in world.store.log[-30:] if v.mark is not None and v.mark.seq < now]
        if hand in ("restores", "adopts") and not older:
            return
        self.is_busy = True
        self._last = last
        self._adopts = hand == "adopts"
        seconds = (
            world.options.heartbeat_timeout_s * rng.choice((0.1, 0.3, 0.8, 1.5)) * rng.random()
        )
        world.mark_cut("*", seconds)
        if hand == "deletes":
            world.note("an operator deletes the object")
            world.store.put(None, None, None, "deletes")
        elif hand == "spoils":
            world.note("an operator spoils the object")
            world.store.put(self._spoilt(last), None, None, "spoils")
        else:
            old = rng.choice(older)
            world.note(f"an operator restores {old.tag}")
            world.store.put(old.data, None, None, "restores")
        world.undo(seconds, self._make_up)

    def _spoilt(self, last: Version) -> bytes:
        """Draw what is no document, or one of a newer schema."""
        assert last.data is not None
        newer = last.data.replace(b'"objq":1,', b'"objq":2,', 1)
        short = last.data[: self._rng.randrange(1, len(last.data) - 1)]
        return self._rng.choice((b"", b"{}", short, newer if newer != last.data else b"?"))

    def _make_up(self) -> None:
        """Put back what counts, or say that what is there counts from now on."""
        world, last = self._world, self._last
        if last is None:
            return
        self._last = None
        if self._adopts:
            self._adopt()
            return
        world.note("the operator puts back what was there")
        world.store.put(last.data, None, None, "puts back")
        self.is_busy = False
        for actor in world.actors:
            if actor.is_up and not self._may_go_on(actor, last):
                self._end(actor)
                world.later(self._rng.random(), world.restart, actor)

    def _may_go_on(self, actor: Actor, last: Version) -> bool:
        since = self._world.store.log[self._world.store.log.index(last) + 1 :]
        if any(v.kind == "write" and v.by is actor.process for v in since):
            return False  # it may not know yet that its write was applied
        assert last.mark is not None
        told = actor.client._discovery._known.header if hasattr(actor, "client") else None
        if told is not None and told.seq > last.mark.seq:
            return False  # by a broker that went on meanwhile
        known = actor.store.knows if hasattr(actor, "store") else None
        if known is None or known == last.mark:
            return True
        is_older = known.seq < last.mark.seq and known.epoch <= last.mark.epoch
        return known.document == last.mark.document and is_older

    def _end(self, actor: Actor) -> None:
        self._world.note(f"the operator ends {actor.name}")
        actor.kill()

    def _adopt(self) -> None:
        """Stop the brokers and workers, adopt what is there, and start everything anew."""
        world = self._world
        for actor in (*world.brokers, *world.workers):
            if actor.is_up:
                self._end(actor)
        self._doctors += 1
        seed, name = str(world.seed), f"doctor-1.{self._doctors}"
        process = Process(world.timeline, "10.0.doctor.1", name, seed)
        world.processes.append(process)
        process.start(self._treat(process), "adopts")

    async def _treat(self, process: Process) -> None:
        world = self._world
        store = StoreClient(world.store, process)
        shown = world.store.content
        assert shown is not None
        document_id = decode_head(shown.data).document
        clock, ids = process.clock, process.ids
        while True:
            now = world.store.content
            if now is not None and decode_head(now.data).document != document_id:
                break
            try:
                await adopt_shown(store, document_id, clock=clock, ids=ids)
            except (Unknown, ForeignDocument):
                await asyncio.sleep(1)
        world.note("the doctor has adopted what was restored")
        world.timeline.call_later(0, self._adopted)

    def _adopted(self) -> None:
        world = self._world
        self.is_busy = False
        for actor in (*world.clients, *world.watchers):
            if actor.is_up:
                world.later(self._rng.random(), self._end, actor)
        for actor in world.actors:
            world.later(1 + self._rng.random(), world.restart, actor)

    # --- brokers ----------------------------------------------------------------------------------

    def end_brokers(self, how: Brokers) -> None:
        """End all brokers for good; where the document names one that died, as the doctor says."""
        world = self._world
        timeout_s = world.options.heartbeat_timeout_s
        world.timeline.run(world.timeline.now + timeout_s * self._rng.random())
        for broker in world.brokers:
            broker.broken = True
            if not broker.is_up:
                continue
            if how == "killed" or broker.process.is_frozen or not hasattr(broker, "broker"):
                broker.kill()
            else:
                broker.stop()
        self._wait(lambda: not any(broker.is_up for broker in world.brokers))
        # A take-over may be on its way still, and name a broker that has died meanwhile.
        store = world.store
        world.timeline.run(max(world.timeline.now + store.timeout_s, store.last_arrival))
        document = world.document()
        if document is not None and document.broker is not None:
            self.lend_broker()
            self.end_lent_broker()

    def lend_broker(self) -> None:
        """Start a broker again, and wait until it leads."""
        world = self._world
        broker = self.lent = cast("BrokerActor", world.core["broker"])
        broker.broken = False
        world.restart(broker)
        self._wait(lambda: self._leads(broker))

    def end_lent_broker(self) -> None:
        """Stop the broker that was lent; it steps down, and nobody leads."""
        world, broker = self._world, self.lent
        assert broker is not None
        broker.broken = True
        broker.stop()
        self._wait(lambda: not broker.is_up)
        document = world.document()
        if document is None or document.broker is not None:
            world.history.problems.append(f"liveness: {broker.name} did not step down")

    def _leads(self, broker: BrokerActor) -> bool:
        document = self._world.document()
        return document is not None and document.broker is not None and broker.broker.leading

    def _wait(self, done: Callable[[], bool]) -> None:
        world = self._world
        limit_s = world.timeline.now + 12 * world.options.heartbeat_timeout_s
        if not world.timeline.run(limit_s, done):
            world.history.problems.append("liveness: brokers neither come nor go")
