"""What all requests of a worker share: when to repeat, how long to pause, what to log."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from objq.client.backoff import Backoff
from objq.core.ops import Problem
from objq.errors import (
    Forbidden,
    NotBroker,
    ObjqError,
    Overloaded,
    Rejected,
    Unauthorized,
    Unavailable,
    Unknown,
)
from objq.ids import Ids

logger = logging.getLogger("objq.worker")

LONGEST_PAUSE_S: Final = 5.0

PASSING: Final = frozenset(
    kind.code for kind in (Unavailable, Unknown, NotBroker, Overloaded, Unauthorized, Forbidden)
)
"""Missing permissions are among them: an operator can put them right while jobs run, and a worker
that gave up would lose their outcomes."""


def passing(refusal: ObjqError | Problem) -> bool:
    """Return whether the same may succeed later, so that a worker repeats the request or item."""
    return refusal.code in PASSING


def repeats(ids: Ids) -> Backoff:
    """Return the pauses between the repeats of one request."""
    return Backoff(ids, longest_s=LONGEST_PAUSE_S)


class Trouble:
    """Logs when calls begin to fail, when the reason changes, and when they work again.

    `calls`: of which kind they are. A broker may refuse one kind and answer another.
    """

    def __init__(self, calls: str) -> None:
        self._calls = calls
        self._last: str | None = None

    def failed(self, error: ObjqError) -> None:
        reason = f"{error.code}: {error.message}"
        if reason == self._last:
            return
        self._last = reason
        what, event = f"No answer from the broker to {self._calls}", "broker_unreachable"
        if isinstance(error, Rejected):
            what, event = f"The broker refuses {self._calls} for now", "broker_refuses"
        logger.warning(
            "%s, going on trying: %s", what, reason, extra={"event": event, "code": error.code}
        )

    def answered(self) -> None:
        if self._last is not None:
            self._last = None
            logger.info("The broker takes %s again", self._calls, extra={"event": "broker_back"})


class Pulse:
    """Wakes everybody who waits; whoever wakes looks at the state again."""

    def __init__(self) -> None:
        self._beat: asyncio.Future[None] | None = None

    def notify(self) -> None:
        beat, self._beat = self._beat, None
        if beat is not None and not beat.done():
            beat.set_result(None)

    async def wait(self, timeout_s: float | None = None) -> None:
        """Return at the next `notify`, or after `timeout_s` seconds."""
        if self._beat is None:
            self._beat = asyncio.get_running_loop().create_future()
        await asyncio.wait([self._beat], timeout=timeout_s)
