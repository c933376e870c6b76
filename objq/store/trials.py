"""How a probe's trials are written, and how what they leave is removed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from objq.store.base import (
    Ambiguous,
    Denied,
    Expect,
    Store,
    StoreError,
    Tag,
    Throttled,
    Unavailable,
)

logger = logging.getLogger("objq.store")

THROTTLE_ATTEMPTS: Final = 10
THROTTLE_WAIT_S: Final = 0.2
UNAVAILABLE_ATTEMPTS: Final = 3
UNAVAILABLE_WAIT_S: Final = 0.1

T = TypeVar("T")


class Pace:
    """Keeps to the store's pace, slows down when asked to, and looks past a short outage."""

    def __init__(self, pace_s: float) -> None:
        self._pace_s = pace_s
        self._last = float("-inf")

    def write(self, trial: Store, data: bytes, expect: Expect) -> Tag:
        """Write what has to succeed. What has to be refused needs no waiting."""
        self.wait()
        return self.call(lambda: trial.write(data, expect))

    def wait(self) -> None:
        time.sleep(max(0.0, self._last + self._pace_s - time.monotonic()))
        self._last = time.monotonic()

    def call(self, call: Callable[[], T]) -> T:
        """Call what changes nothing when it fails with Throttled or Unavailable, and again then."""
        for attempt in range(1, THROTTLE_ATTEMPTS):
            try:
                return call()
            except Throttled as exc:
                time.sleep(exc.retry_after_s or THROTTLE_WAIT_S * attempt)
            except Unavailable:
                if attempt >= UNAVAILABLE_ATTEMPTS:
                    raise
                time.sleep(UNAVAILABLE_WAIT_S)
        return call()


class Litter:
    """What probes have written and not removed yet. There is never more than one probe's."""

    def __init__(self) -> None:
        self._left: dict[Store, StoreError | None] = {}

    def note(self, trial: Store) -> None:
        self._left[trial] = None

    def forget(self, trial: Store) -> None:
        del self._left[trial]

    def clear(self) -> StoreError | None:
        """Remove all of it; return what it met if some is left, to be tried again later."""
        problem: StoreError | None = None
        for trial in list(self._left):
            try:
                Pace(0.0).call(partial(_delete, trial))
            except Denied as exc:  # which is no reason to use the store less
                logger.warning("%s could not be removed: %s", trial.name, exc)
            except StoreError as exc:
                problem = self._left[trial] = exc
                continue
            self.forget(trial)
        return problem

    def complain(self) -> None:
        """Log what is left."""
        for trial, problem in self._left.items():
            logger.warning("%s could not be removed: %s", trial.name, problem)


def _delete(trial: Store) -> None:
    try:
        trial.delete()
    except Ambiguous as exc:  # to delete it twice is no harm
        raise Unavailable(str(exc)) from exc
