"""Who may lead, decided from what a standby sees (design §3 'Take-over'). No I/O, no clock.

Each round the standby reads the header and asks the recorded leader's `/readyz`; `decide` says what
that permits:

============================================================  ===================================
there is no document, and never was one                       create it
nobody is recorded as leader                                  take over this version
the leader answers, leads, and has reached the store lately   wait
the leader's own port, reached in this epoch, now refuses,    the leader's process is dead: take
or this very process has bound the recorded host and port     over this version
a challenge stands for BROKER_TTL since it was first seen     take over this version
anything else, for a while                                    write a challenge
============================================================  ===================================

Any commit of the leader removes a challenge, so a leader that makes progress is never taken over,
whether or not it can be reached from here. Challenges that were answered back off. A broker that
was deposed while alive proves by that that it judged wrongly before: it only challenges from then
on, and two brokers that cannot see each other do not take the lead from one another in turns.

A `wss://` port is a proxy's: it refuses whenever the proxy is started again, and the leader behind
it goes on committing. So that refusal is one thing more for which there is a challenge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeVar

from objq.broker.addresses import is_brokers_own
from objq.core.document import Header
from objq.ids import Ids

PATIENCE_SHARE: Final = 4
"""A leader has to be out of order for BROKER_TTL / this before it is challenged."""

MAX_BACKOFF_TTLS: Final = 16

T = TypeVar("T")


class Reach(Enum):
    """What came of asking an address: an answer, a refused connection, or nothing of use."""

    ANSWERED = "answered"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The answer of `/readyz`. `store_ok`: the store was reached within BROKER_TTL.

    `document`, `epoch` and `seq` are of the newest version that the broker has seen confirmed.
    """

    reach: Reach
    broker: str | None = None
    leading: bool = False
    store_ok: bool = False
    stopping: bool = False
    document: str | None = None
    epoch: int = 0
    seq: int = 0

    @classmethod
    def answered(cls, said: Mapping[str, Any]) -> ProbeResult:
        """Return what an answer tells. What it leaves out, or is of a wrong type, counts as no."""
        return cls(
            Reach.ANSWERED,
            broker=_typed(said.get("broker"), str),
            leading=said.get("leading") is True,
            store_ok=said.get("store_ok") is True,
            stopping=said.get("state") == "stopping",
            document=_typed(said.get("document"), str),
            epoch=_typed(said.get("epoch"), int) or 0,
            seq=_typed(said.get("seq"), int) or 0,
        )


def _typed(value: Any, wanted: type[T]) -> T | None:
    return value if isinstance(value, wanted) else None


class Action(Enum):
    WAIT = "wait"
    CREATE = "create"
    TAKE_OVER = "take over"
    CHALLENGE = "challenge"


@dataclass(frozen=True, slots=True)
class Decision:
    """`why` is for the log."""

    action: Action
    why: str


class Election:
    """What this process knows of the present leader. `broker_id`: the id it would lead by."""

    def __init__(self, broker_id: str, ttl_s: float, ids: Ids) -> None:
        self.broker_id = broker_id
        self.deposed = False
        """This process lost its leadership while it was alive."""
        self._ttl_s = ttl_s
        self._ids = ids
        self._term: tuple[str, int, str] | None = None
        self._reached = False
        self._failing_since: float | None = None
        self._challenge: str | None = None
        self._challenged_at = 0.0
        self._asked_seq: int | None = None
        """The version that was to be challenged last, until something is known of the challenge."""
        self._answered = 0
        self._not_before = float("-inf")

    def decide(
        self, header: Header | None, probe: ProbeResult | None, *, bound_here: bool, now: float
    ) -> Decision:
        """Return what may be done about the version with this header.

        `probe`: what the recorded leader answered, None if nobody is recorded. `bound_here`: this
        process has bound the recorded host and port. `now`: monotonic seconds.
        """
        if header is None:
            return Decision(Action.CREATE, "there is no document")
        if header.broker is None:
            return Decision(Action.TAKE_OVER, "nobody leads")
        if header.broker.id == self.broker_id:
            return Decision(Action.TAKE_OVER, "the take-over of this process was applied")
        self._note_term((header.document, header.epoch, header.broker.id))
        self._note_challenge(header, now)
        self._note_probe(header.broker.id, probe, now)
        if self._failing_since is None:
            return Decision(Action.WAIT, "the leader is in order")
        if not self.deposed and bound_here:
            return Decision(Action.TAKE_OVER, "the leader's address is bound by this process")
        refuses = self._reached and probe is not None and probe.reach is Reach.REFUSED
        if not self.deposed and refuses and is_brokers_own(header.broker.url):
            return Decision(Action.TAKE_OVER, "the leader's port, reached before, now refuses")
        return self._by_challenge(header.seq, now)

    @property
    def leader_in_order(self) -> bool:
        """Tell whether the last round found a leader with nothing wrong."""
        return self._term is not None and self._failing_since is None

    def lose(self, broker_id: str) -> None:
        """Note that this process was deposed while alive; `broker_id` is its new id (S4)."""
        self.deposed = True
        self.broker_id = broker_id
        self._term = None

    def forget(self) -> None:
        """Start over with all that was timed: this process was paused itself."""
        self._challenge = None
        self._asked_seq = None
        self._failing_since = None

    def _by_challenge(self, seq: int, now: float) -> Decision:
        if self._challenge is not None:
            if now - self._challenged_at >= self._ttl_s:
                return Decision(Action.TAKE_OVER, "a challenge was not answered")
            return Decision(Action.WAIT, "a challenge stands")
        assert self._failing_since is not None
        if now - self._failing_since < self._ttl_s / PATIENCE_SHARE:
            return Decision(Action.WAIT, "the leader is out of order, but not for long")
        if now < self._not_before:
            return Decision(Action.WAIT, "the leader answered the last challenge")
        self._asked_seq = seq
        return Decision(Action.CHALLENGE, "the leader is out of order")

    def _note_term(self, term: tuple[str, int, str]) -> None:
        if term != self._term:
            self._forget_term()
            self._term = term

    def _forget_term(self) -> None:
        self.forget()
        self._reached = False
        self._answered = 0
        self._not_before = float("-inf")

    def _note_challenge(self, header: Header, now: float) -> None:
        found = header.challenge.id if header.challenge else None
        # A busy leader answers before the challenge is seen: two versions on, there is none.
        asked_seq = self._asked_seq
        unseen = found is None and asked_seq is not None and header.seq >= asked_seq + 2
        if found == self._challenge and not unseen:
            return
        if self._challenge is not None or unseen:
            self._back_off(now)
        self._challenge = found
        self._challenged_at = now
        self._asked_seq = None

    def _back_off(self, now: float) -> None:
        """The leader made a commit, which removed a challenge."""
        longest_s = MAX_BACKOFF_TTLS * self._ttl_s
        if now > self._not_before + longest_s:
            self._answered = 0
        wait_s = min(longest_s, self._ttl_s * 2 ** min(self._answered, 16))
        self._not_before = now + self._ids.jitter(wait_s)
        self._answered += 1

    def _note_probe(self, leader: str, probe: ProbeResult | None, now: float) -> None:
        is_leader = probe is not None and probe.broker == leader
        self._reached = self._reached or is_leader
        if probe is not None and is_leader and probe.leading and probe.store_ok:
            self._failing_since = None
        elif self._failing_since is None:
            self._failing_since = now
