"""Stand by until this process may lead: look, ask the leader, decide, act.

`objq.broker.election` decides. Here is the I/O around it: the header is read from the store, the
recorded leader's `/readyz` is asked every half second without touching the store, and what was
decided is done by CAS on the very version it was decided about. Whoever loses the race looks again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from objq.broker.commit import Committer, Superseded
from objq.broker.election import Action, Election, ProbeResult
from objq.clock import Clock
from objq.core.document import Document, Header
from objq.core.leading import challenge, take_over
from objq.core.ops import BrokerInfo, Challenge, DocumentSettings
from objq.errors import DocumentError
from objq.ids import Ids
from objq.store.base import StoreError, TooLarge

log = logging.getLogger("objq.broker")

ASK_EVERY_S: Final = 0.5
LOSER_WAITS_S: Final = 0.2
CHALLENGE_RUNS: Final = 3
"""Conflicts after which a challenge is given up for now: somebody commits all the time."""

Probe = Callable[[str], Awaitable[ProbeResult]]


class Lead(NamedTuple):
    """The confirmed take-over. `wait_s`: the heartbeat timeout that held before it (S5)."""

    document: Document
    wait_s: float


@dataclass(frozen=True, slots=True)
class Candidate:
    """What this process would lead as. `is_bound_here` tells it of a recorded URL."""

    url: str
    version: str
    settings: DocumentSettings
    is_bound_here: Callable[[str], bool]


class Standby:
    """Waits for the lead. `check_self`: first the own address has to be reached from here."""

    def __init__(
        self,
        committer: Committer,
        election: Election,
        candidate: Candidate,
        clock: Clock,
        ids: Ids,
        probe: Probe,
        *,
        check_self: bool,
    ) -> None:
        self.problem: str | None = None
        """Why this process could not lead, for people."""
        self._committer = committer
        self._election = election
        self._candidate = candidate
        self._clock = clock
        self._ids = ids
        self._probe = probe
        self._check_self = check_self
        self._ttl_s = candidate.settings.broker_ttl_s
        self._header: Header | None = None
        self._look_at = float("-inf")
        self._said = ""
        self._standing_by = False
        self._acting = False
        self._tried = False
        self._stopping = False

    async def run(self) -> Lead:
        """Return when this process leads. Raises Closed when the committer is closed."""
        self._committer.drop()
        self._standing_by = True
        while True:
            if await self._look():
                lead = await self._decide()
                if lead is not None:
                    self._standing_by = False
                    return lead
            if self._stopping:
                self._committer.close()
            await self._committer.reader.sleep(min(ASK_EVERY_S, self._ttl_s / 8))

    def stop(self) -> None:
        """Stand by no longer: `run` raises Closed, or still returns a take-over under way."""
        self._stopping = True
        if self._standing_by and not self._acting:
            self._committer.close()

    async def _look(self) -> bool:
        """Read the header if it is time to; return False if nothing can be decided now."""
        if self._clock.monotonic() < self._look_at:
            return True
        try:
            self._header = await self._committer.read_header()
        except StoreError as error:
            await self._committer.reader.back_off(error)
            return False
        except DocumentError as error:
            self._say(logging.WARNING, f"standing by: {error}")
            return False
        return True

    async def _decide(self) -> Lead | None:
        header = self._header
        leader = header.broker if header else None
        probe = await self._probe(leader.url) if leader else None
        bound_here = leader is not None and self._candidate.is_bound_here(leader.url)
        now = self._clock.monotonic()
        decision = self._election.decide(header, probe, bound_here=bound_here, now=now)
        self._say(logging.INFO, f"{decision.action.value}: {decision.why}")
        content = self._election.leader_in_order
        self._look_at = now + self._ids.jitter(self._ttl_s / 4) if content else float("-inf")
        if decision.action is Action.WAIT:
            return None
        self._acting = True
        try:
            if decision.action is Action.CHALLENGE:
                await self._challenge(header)
            elif await self._reaches_itself():
                return await self._lead(header)
        except Superseded as error:
            log.info("%s; standing by", error, extra={"event": "take_over_lost"})
            await self._committer.reader.sleep(self._ids.jitter(LOSER_WAITS_S))
        except TooLarge as error:
            self._say(logging.ERROR, f"the store refuses a document of this size: {error}")
        finally:
            self._acting = False
        return None

    async def _lead(self, header: Header | None) -> Lead:
        recorded = header.broker.id if header and header.broker else None
        if self._tried and recorded != self._election.broker_id:
            # An attempt of which no answer came may have led, until somebody else did (S4).
            self._election.broker_id = self._ids.token()
        self._tried = True
        settings = self._candidate.settings
        if header is None:
            document = await self._committer.create(self._first_version)
            return Lead(document, settings.heartbeat_timeout_s)
        before_s = settings.heartbeat_timeout_s

        def change(document: Document) -> bool:
            nonlocal before_s
            if document.broker and document.broker.id == self._election.broker_id:
                return False  # an earlier attempt was applied, and somebody wrote on top of it
            # Direct pushes may have come on top, but a commit of the leader would show: it removes
            # the challenge, and another leader has another epoch.
            if _state(document) != _state(header):
                raise Superseded("the document has moved on")
            before_s = document.settings.heartbeat_timeout_s
            take_over(document, self._info(), settings)
            return True

        return Lead(await self._committer.transact(change), before_s)

    def _first_version(self) -> Document:
        settings = self._candidate.settings
        document = Document.new(self._ids.token(), settings, self._clock.wall_ms())
        take_over(document, self._info(), settings)
        return document

    async def _challenge(self, header: Header | None) -> None:
        assert header is not None
        question = Challenge(
            id=self._ids.token(), by=self._election.broker_id, at=self._clock.wall_ms()
        )

        def change(document: Document) -> bool:
            if document.challenge is not None and document.challenge.id == question.id:
                return False
            same_leader = (
                document.broker and header.broker and document.broker.id == header.broker.id
            )
            if not same_leader or document.challenge is not None:
                raise Superseded("the document has moved on")
            challenge(document, question)
            return True

        await self._committer.transact(change, leading=False)
        log.warning(
            "challenged the leader at %s", header.broker and header.broker.url,
            extra={"event": "challenged"},
        )  # fmt: skip

    async def _reaches_itself(self) -> bool:
        if not self._check_self:
            return True
        url = self._candidate.url
        result = await self._probe(url)
        self._check_self = result.broker != self._election.broker_id
        if not self._check_self:
            self.problem = None
            return True
        found = (
            f"it meets broker {result.broker}" if result.broker else f"it is {result.reach.value}"
        )
        self.problem = (
            f"this broker does not reach itself at {url} ({found}), so nobody else would; "
            "advertise an address that leads to it with --advertise"
        )
        self._say(logging.ERROR, self.problem)
        return False

    def _info(self) -> BrokerInfo:
        return BrokerInfo(
            id=self._election.broker_id,
            url=self._candidate.url,
            since=self._clock.wall_ms(),
            version=self._candidate.version,
        )

    def _say(self, level: int, text: str) -> None:
        if text != self._said:
            log.log(level, text, extra={"event": "standing_by"})
        self._said = text


def _state(version: Document | Header) -> tuple[str, int, str | None, str | None]:
    """Return what makes a version the one that was decided about: who leads, and the challenge."""
    broker, question = version.broker, version.challenge
    document = version.id if isinstance(version, Document) else version.document
    leader, asked = broker.id if broker else None, question.id if question else None
    return document, version.epoch, leader, asked
