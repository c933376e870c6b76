"""Answers that are a moment old, for whoever asks the same: each question is asked once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

T = TypeVar("T")

FRESH_S: Final = 1.0

MAX_ANSWERS: Final = 256


class Answers:
    """`fresh_s`: how old an answer may be that is given to the next who asks."""

    def __init__(self, now: Callable[[], float] = time.monotonic, fresh_s: float = FRESH_S) -> None:
        self._now = now
        self._fresh_s = fresh_s
        self._lock = threading.Lock()
        self._known: dict[object, tuple[Future[Any], float]] = {}
        """By question: the answer, perhaps yet to come, and when it was asked."""

    def once(self, question: object, ask: Callable[[], T]) -> T:
        """Return what `ask` returns or raises, now or when it was last called for this question.

        While it is being asked, all others wait for that answer.
        """
        with self._lock:
            future, asked_at = self._known.get(question, (None, 0.0))
            is_mine = future is None or (future.done() and self._now() - asked_at > self._fresh_s)
            if future is None or is_mine:
                self._make_room()
                future = Future[Any]()
                self._known[question] = future, self._now()
        if is_mine:
            try:
                future.set_result(ask())
            except BaseException as error:
                future.set_exception(error)
        answer: T = future.result()
        return answer

    def expire(self) -> None:
        """Give none of these to whoever asks from now on."""
        with self._lock:
            self._known.clear()

    def _make_room(self) -> None:
        if len(self._known) < MAX_ANSWERS:
            return
        oldest = sorted(self._known, key=lambda question: self._known[question][1])
        for question in oldest[: MAX_ANSWERS // 2]:
            del self._known[question]
