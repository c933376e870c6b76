"""What all requests of a worker share: when to repeat, how long to pause, what to log."""

from __future__ import annotations

import asyncio
import logging

from objq.errors import DocumentError, Forbidden, ObjqError, Overloaded, Rejected, Unauthorized
from objq.ids import Ids

logger = logging.getLogger("objq.worker")

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0

PASSING_CODES = frozenset({"unavailable", "unknown", "not_broker", "overloaded"})
"""Codes of an item's outcome that say: the same again, later."""


def passing(error: ObjqError) -> bool:
    """Return whether the same request may succeed later, so that a worker repeats it.

    Missing permissions count: an operator can put them right while jobs run, and a worker that
    gave up would lose their outcomes.
    """
    if isinstance(error, Overloaded | Unauthorized | Forbidden | DocumentError):
        return True
    return not isinstance(error, Rejected)


class Backoff:
    """Pauses between repeats: doubling, jittered, bounded; never shorter than the answer asks."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        self._next_s = FIRST_PAUSE_S

    async def pause(self, at_least_s: float | None = None) -> None:
        pause_s = self._ids.jitter(self._next_s)
        self._next_s = min(self._next_s * 2, LONGEST_PAUSE_S)
        await asyncio.sleep(max(pause_s, at_least_s or 0.0))

    def reset(self) -> None:
        self._next_s = FIRST_PAUSE_S


class Trouble:
    """Logs when calls begin to fail, when the reason changes, and when they work again."""

    def __init__(self) -> None:
        self._last: str | None = None

    def failed(self, error: ObjqError) -> None:
        reason = f"{error.code}: {error.message}"
        if reason == self._last:
            return
        self._last = reason
        logger.warning(
            "No answer from the broker, going on trying: %s",
            reason,
            extra={"event": "broker_unreachable", "code": error.code},
        )

    def answered(self) -> None:
        if self._last is not None:
            self._last = None
            logger.info("The broker answers again", extra={"event": "broker_back"})


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
