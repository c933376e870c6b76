"""Asking a broker that may be silent: once one is, nobody waits for it again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

import objq
from objq.errors import ConfigurationError, DocumentError, NoDocument, ObjqError, Rejected
from objq_dashboard.source.mode import is_direct
from objq_dashboard.source.rates import Rates

if TYPE_CHECKING:
    from objq.core.ops import Statistics

T = TypeVar("T")

WAIT_AGAIN_AFTER_S: Final = 30.0
"""A silence that was met longer ago says nothing about now."""


class Silence:
    """Whether the broker of a backend is silent. Such a one is tried in the background.

    So is one that there is not yet: without a document a client waits in vain for its address.
    """

    def __init__(self, alias: str, timeout_s: float) -> None:
        self.last: Statistics | None = None
        """What a broker told last."""
        self.rates = Rates()
        self._alias = alias
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._silence: ObjqError | None = None
        self._silent_at = 0.0
        self._trying = False

    def ask(self, ask: Callable[[], T]) -> T:
        """Return what `ask` returns; raise at once what it raised lately, if that was silence."""
        silence = self._silence
        if silence is not None and time.monotonic() - self._silent_at < WAIT_AGAIN_AFTER_S:
            self._try()
            raise silence.with_traceback(None)  # or it would grow with every page
        try:
            answer = ask()
        except ObjqError as error:
            self._met(error)
            raise
        self._silence = None
        return answer

    def told(self, stats: Statistics) -> None:
        """Take note of figures of the broker."""
        self.last = stats
        self.rates.add(stats)

    def pushed_since(self, now: Statistics) -> int | None:
        """Return how many jobs were pushed since a broker told its figures; None if unknown."""
        if self.last is None or self.last.document != now.document:
            return None
        return max(0, _pushed(now) - _pushed(self.last))

    def _try(self) -> None:
        with self._lock:
            if self._trying:
                return
            self._trying = True
        threading.Thread(target=self._tried, name="objq dashboard", daemon=True).start()

    def _tried(self) -> None:
        try:
            self.told(objq.connect(self._alias).stats(timeout_s=self._timeout_s))
            self._silence = None
        except ObjqError as error:
            self._met(error)
        finally:
            self._trying = False

    def _met(self, error: ObjqError) -> None:
        if isinstance(error, NoDocument):
            is_silence = not is_direct(self._alias)  # there the document itself is asked
        else:
            is_silence = not isinstance(error, (ConfigurationError, DocumentError, Rejected))
        self._silence, self._silent_at = (error if is_silence else None), time.monotonic()


def _pushed(stats: Statistics) -> int:
    return sum(queue.totals.get("pushed", 0) for queue in stats.queues.values())
