"""What pages ask: a broker through the client or, where none answers, the document itself.

A `Source` is for one page that is built once. What has been answered to any of them in the last
second is not asked again, and what is being asked is waited for, so that a hundred open pages cost
about as much as one. `expire` and `refresh` are for those who know that something has changed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from time import monotonic, time_ns
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from django.core.signals import setting_changed

import objq
from objq.core import ops
from objq.errors import DocumentError, ObjqError, Rejected, Unsupported
from objq_dashboard.source.answers import Answers
from objq_dashboard.source.lookup import looked_up
from objq_dashboard.source.reading import ReadDocument
from objq_dashboard.source.silence import Silence

if TYPE_CHECKING:
    from objq.client.reading import DocumentReader, Reading
    from objq_dashboard.source.rates import Seen

T = TypeVar("T")

TIMEOUT_S: Final = 2.0
"""How long the broker may take to answer, and then the document to be read."""

HISTORY_S: Final = 5.0

QUICK_S: Final = 0.02
KEPT_TIMES: Final = 50
"""What took longer than that is kept for so many times as long: it takes 2 % of the time."""

MAX_KEPT: Final = 100


class Source:
    """One look at the queue of a backend. What the first question meets, the others keep to.

    Its methods raise ConfigurationError, DocumentError and Rejected, and what reading the document
    raises if neither it nor a broker answers.
    """

    def __init__(self, alias: str) -> None:
        self.alias = alias
        self.why: ObjqError | None = None
        """Why the document is read; None as long as a broker answers."""
        self.reading: Reading | None = None
        self.remembered: ops.RecentHistory | None = None
        """The history, if it was asked for."""
        self._shared = _shared(alias)

    @property
    def now_ms(self) -> int:
        return time_ns() // 1_000_000

    def pushed_since_silent(self, stats: ops.Statistics) -> int | None:
        """Return how many jobs were pushed since a broker told its figures; None if unknown.

        `stats`: the document's. Nearly all of them were written directly: of those that the broker
        committed in its last moments it told nobody here.
        """
        return None if self.why is None else self._shared.silence.pushed_since(stats)

    def stats(self) -> ops.Statistics:
        def ask() -> ops.Statistics:
            stats = objq.connect(self.alias).stats(timeout_s=TIMEOUT_S)
            self._shared.silence.told(stats)
            return stats

        return self._ask("stats", ask, lambda reader: reader.read().statistics())

    def list(self, wanted: ops.Filter, cursor: str | None = None, limit: int = 50) -> ops.Listed:
        op = ops.ListJobs(filter=wanted, page=ops.Page(cursor=cursor, limit=limit))

        def ask() -> ops.Listed:
            client = objq.connect(self.alias)
            return client.list(wanted, cursor=cursor, limit=limit, timeout_s=TIMEOUT_S)

        return self._ask(op, ask, lambda reader: reader.list(op))

    def get(self, ids: Sequence[str]) -> tuple[ops.JobView | None, ...]:
        """Return the jobs, None for each that there is not."""
        wanted = tuple(ids)

        def ask() -> tuple[ops.JobView | None, ...]:
            return looked_up(objq.connect(self.alias), wanted, TIMEOUT_S)

        if not wanted:
            return ()
        return self._ask(wanted, ask, lambda reader: reader.read().document.views(wanted))

    def workers(self) -> ops.AllWorkers | None:
        """Return None if no broker answers: the document does not know who is connected."""

        def ask() -> ops.AllWorkers:
            return objq.connect(self.alias).workers(timeout_s=TIMEOUT_S)

        return self._ask_broker("workers", ask)

    def history(self) -> ops.RecentHistory | None:
        """Return None if no broker answers: only the one that leads remembers it.

        It may be `HISTORY_S` old: it is large, and has a new point every ten seconds.
        """

        def ask() -> ops.RecentHistory:
            return objq.connect(self.alias).history(timeout_s=TIMEOUT_S)

        self.remembered = self._ask_broker("history", ask, self._shared.histories)
        return self.remembered

    def rates(self, queue: str) -> Seen | None:
        """Return the rates of a queue as seen by this process.

        None until it has looked for a while, and where no broker answers.
        """
        return None if self.why is not None else self._shared.silence.rates.of(queue)

    def derived(self, name: str, version: object, make: Callable[[], T]) -> T:
        """Return what `make` makes of many answers, made once for each version of them."""
        known = self._shared.derived.get(name)
        if known is not None and known[0] == version:
            found: T = known[1]
            return found
        made = make()
        self._shared.derived[name] = version, made
        return made

    def kept(self, question: object, make: Callable[[], T]) -> T:
        """Return what `make` makes; what takes long is made anew the more rarely.

        A search through all jobs would else be made by every look, every second.
        """
        known = self._shared.kept.get(question)
        now = monotonic()
        if known is not None and now < known[0]:
            found: T = known[1]
            return found
        made = make()
        took_s = monotonic() - now
        if took_s > QUICK_S:
            if len(self._shared.kept) >= MAX_KEPT:
                self._shared.kept.clear()
            self._shared.kept[question] = now + took_s * KEPT_TIMES, made
        return made

    def header(self) -> dict[str, Any]:
        """Return the header of the document, as it stands in the store just now."""
        header = self._read("header", lambda reader: reader.header())
        found: dict[str, Any] = msgspec.to_builtins(header)
        return found

    def _ask(self, key: object, ask: Callable[[], T], look: Callable[[DocumentReader], T]) -> T:
        answer = self._ask_broker(key, ask)
        return self._read(key, look) if answer is None else answer

    def _ask_broker(
        self, key: object, ask: Callable[[], T], answers: Answers | None = None
    ) -> T | None:
        """Return None if nobody can answer who is not the document."""
        answers = answers or self._shared.answers
        if self.why is None:
            try:
                return answers.once(key, lambda: self._shared.silence.ask(ask))
            except Unsupported:  # a process without a broker, which remembers nothing of the kind
                return None
            except (objq.ConfigurationError, DocumentError, Rejected):
                raise
            except ObjqError as error:
                self.why = error
        return None

    def _read(self, key: object, look: Callable[[DocumentReader], T]) -> T:
        shared = self._shared
        found = shared.answers.once(("read", key), lambda: shared.document.look(look, TIMEOUT_S))
        self.reading = shared.document.reading
        return found


class _Shared:
    """What all sources of one backend have in common."""

    def __init__(self, alias: str) -> None:
        self.answers = Answers()
        self.histories = Answers(fresh_s=HISTORY_S)
        self.silence = Silence(alias, TIMEOUT_S)
        self.document = ReadDocument(alias)
        self.derived: dict[str, tuple[object, Any]] = {}
        self.kept: dict[object, tuple[float, Any]] = {}


_lock: Final = threading.Lock()
_by_alias: Final[dict[tuple[int, str], _Shared]] = {}


def _shared(alias: str) -> _Shared:
    key = (os.getpid(), alias)  # a forked child has none of its parent's threads
    with _lock:
        if key not in _by_alias:
            _by_alias[key] = _Shared(alias)
        return _by_alias[key]


def expire(alias: str) -> None:
    """Let everything be asked anew but long searches: the queue is known to have changed."""
    _shared(alias).answers.expire()


def refresh(alias: str) -> None:
    """Let everything be asked anew: somebody here has changed the queue, and will look at it."""
    shared = _shared(alias)
    shared.answers.expire()
    shared.histories.expire()
    shared.kept.clear()


def forget() -> None:
    """Begin anew altogether, as after a change of settings."""
    with _lock:
        for shared in _by_alias.values():
            shared.document.close()
        _by_alias.clear()


def _on_setting_changed(*, setting: str, **_: Any) -> None:
    if setting in ("TASKS", "STORAGES"):
        forget()


setting_changed.connect(_on_setting_changed, dispatch_uid="objq_dashboard.source")
