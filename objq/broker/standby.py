"""Stand by until this process may lead: look, ask the leader, decide, act.

`objq.broker.election` decides. Here is the I/O around it: the recorded leader's `/readyz` is asked
four times a second, and the header is read from the store every BROKER_TTL/4, or in each round once
something is wrong. Both tell which versions there are, and an older one is never built upon (S14).
What was decided about a header just read is done by CAS on that very version. Whoever loses the
race looks again. While the leader hands over, the rounds are short.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from objq.broker.commit import Committer, Superseded
from objq.broker.election import Action, Decision, Election, ProbeResult
from objq.clock import Clock
from objq.core.document import Document, Header
from objq.core.leading import challenge, take_over
from objq.core.ops import BrokerInfo, Challenge, DocumentSettings
from objq.errors import DocumentError
from objq.ids import Ids
from objq.store.base import StoreError, TooLarge

logger = logging.getLogger("objq.broker")

ASK_EVERY_S: Final = 0.25
HAND_OVER_S: Final = 0.05
"""The time between two rounds while the leader stops."""

LOSER_WAITS_S: Final = 0.2

CHECK_EVERY_S: Final = 10.0
"""The time between two attempts of a standby to reach itself, until it has."""

Probe = Callable[[str, bytes], Awaitable[ProbeResult]]
"""Ask the broker at a URL what it says of itself; the bytes say who asks, as JSON."""


class Lead(NamedTuple):
    """The confirmed take-over. `wait_s`: the heartbeat timeout that held before it (S5).

    `why`: why this process might lead, for people.
    """

    document: Document
    wait_s: float
    why: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """What this process would lead as. `is_bound_here` tells it of a recorded URL."""

    url: str
    version: str
    settings: DocumentSettings
    is_bound_here: Callable[[str], bool]


class Standby:
    """Waits for the lead.

    `check_self`: the own address has to be reached from here before it leads. `introduction()`:
    what a broker that is asked is told of this one. `on_standing_by()` is called whenever it was
    seen who leads, and that this process does not yet; `on_header` with each header that was read.
    """

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
        introduction: Callable[[], bytes] = bytes,
        on_standing_by: Callable[[], None] = lambda: None,
        on_header: Callable[[Header], None] = lambda header: None,
    ) -> None:
        self.problem: str | None = None
        """Why this process could not lead, for people."""
        self._committer = committer
        self._election = election
        self._candidate = candidate
        self._clock = clock
        self._ids = ids
        self._probe = probe
        self._introduction = introduction
        self._check_self = check_self
        self._check_at = float("-inf")
        self._on_standing_by = on_standing_by
        self._on_header = on_header
        self._notice_s = candidate.settings.notice_s
        self._header: Header | None = None
        self._look_at = float("-inf")
        self._fresh = False
        """The header was read in this round."""
        self._handing_over = False
        """The leader was stopping when it was asked last."""
        self._said = ""
        self._standing_by = False
        self._taking_over = False
        self._tried = False
        self._stopping = False

    async def run(self) -> Lead:
        """Return when this process leads. Raises Closed when the committer is closed."""
        self._committer.drop()
        self.problem = None
        self._standing_by = True
        while True:
            if await self._look():
                lead = await self._decide()
                if lead is not None:
                    self._standing_by = False
                    return lead
            if self._stopping:
                self._committer.close()
            ask_every_s = HAND_OVER_S if self._handing_over else ASK_EVERY_S
            await self._committer.reader.sleep(min(ask_every_s, self._notice_s / 2))

    def stop(self) -> bool:
        """Stand by no longer: `run` raises Closed, or still returns a take-over under way.

        Return True if no write is under way, so that `run` may as well be cancelled.
        """
        self._stopping = True
        idle = self._standing_by and not self._committer.writing
        if idle:
            self._committer.close()
        return idle

    @property
    def may_lead(self) -> bool:
        """Tell whether a take-over is under way of which nobody knows yet whether it is in."""
        return self._taking_over and self._committer.writing

    async def _look(self) -> bool:
        """Read the header if it is time to; return False if nothing can be decided now."""
        self._fresh = self._clock.monotonic() >= self._look_at
        if not self._fresh:
            return True
        try:
            self._header = await self._committer.read_header()
        except StoreError as error:
            await self._committer.reader.back_off(error)
            return False
        except DocumentError as error:
            self._say(logging.WARNING, f"Standing by. {error}", kind=type(error).__name__)
            return False
        self._look_at = self._clock.monotonic() + self._ids.jitter(self._notice_s)
        if self._header is not None:
            self._on_header(self._header)
        return True

    async def _decide(self) -> Lead | None:
        leader = self._header.broker if self._header else None
        probe = await self._ask(leader.url) if leader else None
        if probe is not None and probe.document is not None:
            self._committer.reader.hear(probe.document, probe.epoch, probe.seq)
        decision = self._judge(probe)
        if decision.action is not Action.WAIT and not self._fresh:
            # Since that header was read, the leader may have stepped down, another may lead, or an
            # old version may have been put back.
            self._look_at = float("-inf")
            if not await self._look():
                return None
            decision = self._judge(probe)
        return await self._act(decision)

    def _judge(self, probe: ProbeResult | None) -> Decision:
        header = self._header
        leader = header.broker if header else None
        bound_here = leader is not None and self._candidate.is_bound_here(leader.url)
        now = self._clock.monotonic()
        decision = self._election.decide(header, probe, bound_here=bound_here, now=now)
        self._say(logging.INFO, f"{decision.action.value.capitalize()}: {decision.why}.")
        self._handing_over = bool(leader and probe and probe.stopping and probe.broker == leader.id)
        if self._handing_over or not self._election.leader_in_order:
            self._look_at = float("-inf")
        return decision

    async def _act(self, decision: Decision) -> Lead | None:
        action = decision.action
        if action in (Action.WAIT, Action.CHALLENGE):
            self._on_standing_by()
        if action is Action.WAIT:
            await self._check_in_time()
            return None
        header = self._header
        self._taking_over = action is not Action.CHALLENGE
        try:
            if action is Action.CHALLENGE:
                await self._challenge(header)
                self.problem = None
            elif await self._reaches_itself():
                return (await self._lead(header))._replace(why=decision.why)
        except Superseded as error:
            logger.info("%s Standing by.", error, extra={"event": "take_over_lost"})
            await self._committer.reader.sleep(self._ids.jitter(LOSER_WAITS_S))
        except TooLarge as error:
            self._complain(
                f"The store takes no document of this size ({error}): raise the limit of the store "
                "or of a proxy before it."
            )
            await self._committer.reader.sleep(self._committer.pace.fail(error))
        finally:
            self._taking_over = False
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
                raise Superseded("The document has moved on.")
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
                raise Superseded("The document has moved on.")
            challenge(document, question)
            return True

        await self._committer.transact(change, leading=False)
        logger.warning(
            "Challenged the leader at %s.", header.broker and header.broker.url,
            extra={"event": "challenged"},
        )  # fmt: skip

    async def _ask(self, url: str) -> ProbeResult:
        return await self._probe(url, self._introduction())

    async def _check_in_time(self) -> None:
        """Find out now and then, and not only when this process is needed, that it cannot lead."""
        now = self._clock.monotonic()
        if self._check_self and now >= self._check_at:
            self._check_at = now + CHECK_EVERY_S
            await self._reaches_itself()

    async def _reaches_itself(self) -> bool:
        if not self._check_self:
            return True
        url = self._candidate.url
        result = await self._ask(url)
        self._check_self = result.broker != self._election.broker_id
        if not self._check_self:
            self.problem = None
            return True
        found = (
            f"it meets broker {result.broker}" if result.broker else f"it is {result.reach.value}"
        )
        self._complain(
            f"This broker does not reach itself at {url} ({found}), so nobody else would; "
            "advertise an address that leads to it with --advertise."
        )
        return False

    def _info(self) -> BrokerInfo:
        return BrokerInfo(
            id=self._election.broker_id,
            url=self._candidate.url,
            since=self._clock.wall_ms(),
            version=self._candidate.version,
        )

    def _complain(self, problem: str) -> None:
        """Tell why this process cannot lead, once for as long as it stays the reason."""
        if problem != self.problem:
            logger.error("%s", problem, extra={"event": "cannot_lead"})
        self.problem = problem

    def _say(self, level: int, text: str, *, kind: str | None = None) -> None:
        """Log a text that is not of the kind that was logged last: by default, another text."""
        kind = kind or text
        if kind != self._said:
            logger.log(level, text, extra={"event": "standing_by"})
        self._said = kind


def _state(version: Document | Header) -> tuple[str, int, str | None, str | None]:
    """Return what makes a version the one that was decided about: who leads, and the challenge."""
    broker, question = version.broker, version.challenge
    document = version.id if isinstance(version, Document) else version.document
    leader, asked = broker.id if broker else None, question.id if question else None
    return document, version.epoch, leader, asked
