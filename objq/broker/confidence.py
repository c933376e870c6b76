"""May anything be answered now, and does silence prove anything? (promises S2, S4, S5, S14)

A leader is sure of its lead only as of the last store access that confirmed it. It answers nothing
when that access began more than half a heartbeat timeout ago, when it was paused and has not read
the document since, or when the document must not be built upon. After a pause or such an outage
nobody's heartbeat was answered, so every claim gets a full timeout before its silence counts."""

from __future__ import annotations

from objq.broker.commit import Committer
from objq.broker.leases import Leases
from objq.clock import Clock
from objq.core.document import Document
from objq.errors import NotBroker, ObjqError, Unavailable


class Confidence:
    """How sure the leader `broker_id` may be of its lead. `trust_s`: see `DocumentSettings`."""

    def __init__(
        self, broker_id: str, trust_s: float, committer: Committer, leases: Leases, clock: Clock
    ) -> None:
        self.ended = False
        """The leadership is over: nothing is answered any more."""
        self._broker_id = broker_id
        self._trust_s = trust_s
        self._committer = committer
        self._leases = leases
        self._clock = clock
        self._serve_after = float("-inf")
        committer.on_confirmed = self._confirmed
        committer.on_adopt = self._adopted

    def refusal(self) -> ObjqError | None:
        """Return why nothing can be answered now, or None."""
        if self.ended:
            return NotBroker("This broker does not lead any more.")
        if self._committer.trouble is not None:
            return Unavailable(self._committer.trouble)
        if self.must_read:
            return Unavailable("This broker was paused and has to read the document first.")
        if self._clock.monotonic() - self._committer.confirmed_at > self._trust_s:
            return Unavailable("This broker cannot reach the store.")
        return None

    @property
    def must_read(self) -> bool:
        """Tell whether the document was not read since the process was paused."""
        return self._committer.confirmed_at < self._serve_after

    def pause(self, now: float) -> None:
        """Note that this process was paused until `now` (monotonic seconds)."""
        self._serve_after = now
        self._leases.restart(now)

    def end(self) -> None:
        self.ended = True
        self._committer.unhook()

    def _confirmed(self, before: float, now: float) -> None:
        if now - before > self._trust_s or before < self._serve_after <= now:
            self._leases.restart(self._clock.monotonic())

    def _adopted(self, document: Document) -> None:
        self._leases.keep(document.claims, self._clock.monotonic())
        if document.broker is None or document.broker.id != self._broker_id:
            self.ended = True  # nobody is served from here on; the next batch raises Deposed
