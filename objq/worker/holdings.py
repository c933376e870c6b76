"""What a worker holds: granted jobs from their grant to the answered report of their outcome.

    waiting ──start──▶ running ──outcome──▶ ended ──answered──▶ (gone)
       │                  └──interrupted──┐
       ├──not wanted, stuck──▶ stopped ◀──┘ ──released──▶ (gone)
       └──lost, drained──▶ (gone)

The start rule of promise S2 lives here. A grant is *confirmed* as of the moment at which the
request was sent whose answer said that the token is live: first the claim, later each heartbeat. A
waiting job may start only while that moment is less than half the heartbeat timeout ago, so that a
worker that was paused or cut off never starts what may have gone to somebody else. A running or
ended job stays among the tokens of the heartbeats until its report is answered.

A suspect, that is a job whose last claim expired unstarted, may be what killed its worker. The
broker grants it alone (S10), and here it runs alone: it starts when all else is reported, and
nothing starts beside it, so that it takes no other job with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from objq.core.ops import Grant, Token
from objq.worker.seam import Control


class Stage(Enum):
    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"
    STOPPED = "stopped"


BEGUN = (Stage.RUNNING, Stage.ENDED)


@dataclass(slots=True, eq=False)
class Held:
    """One granted job. Times are seconds of the monotonic clock."""

    grant: Grant
    confirmed_at: float
    taken_at: float
    stage: Stage = Stage.WAITING
    started_at: float = 0.0
    control: Control = field(default_factory=Control)

    @property
    def suspect(self) -> bool:
        """Whether the last worker that held the job fell silent before it was known to start it."""
        return self.grant.alone


class Holdings:
    """The jobs that are held, by token, in the order of their grants."""

    def __init__(self) -> None:
        self._held: dict[Token, Held] = {}

    def __len__(self) -> int:
        return len(self._held)

    def add(self, grants: Iterable[Grant], *, sent_at: float, now: float) -> list[Held]:
        """Take in what a claim sent at `sent_at` was granted; return what was not held before."""
        fresh = []
        for grant in grants:
            if grant.token in self._held:
                continue
            held = Held(grant, confirmed_at=sent_at, taken_at=now)
            held.control.cancel_requested = grant.cancel_requested
            self._held[grant.token] = held
            fresh.append(held)
        return fresh

    def get(self, token: Token) -> Held | None:
        return self._held.get(token)

    def drop(self, token: Token) -> None:
        self._held.pop(token, None)

    def confirm(self, tokens: Iterable[Token], sent_at: float) -> None:
        """A heartbeat sent at `sent_at` was answered: these tokens were live after that."""
        for token in tokens:
            held = self._held.get(token)
            if held is not None:
                held.confirmed_at = max(held.confirmed_at, sent_at)

    def startable(self, now: float, window_s: float) -> Held | None:
        """Return the first waiting job that may start now, if any."""
        if any(held.suspect for held in self.at(*BEGUN)):
            return None
        for held in self.at(Stage.WAITING):
            if held.suspect and self.at(*BEGUN):
                return None
            if now - held.confirmed_at < window_s:
                return held
        return None

    def holds_suspect(self) -> bool:
        return any(held.suspect for held in self._held.values())

    def waiting_since(self, moment: float) -> list[Held]:
        """Return the jobs that were there before `moment` and still wait for a slot."""
        return [held for held in self.at(Stage.WAITING) if held.taken_at < moment]

    def at(self, *stages: Stage) -> list[Held]:
        return [held for held in self._held.values() if held.stage in stages]

    def tokens(self) -> tuple[Token, ...]:
        """Return every token that must not expire."""
        return tuple(t for t, held in self._held.items() if not held.control.claim_lost)

    def started(self) -> tuple[Token, ...]:
        """Return those of `tokens` whose job has begun."""
        return tuple(
            t
            for t, held in self._held.items()
            if held.stage in BEGUN and not held.control.claim_lost
        )
