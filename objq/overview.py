"""What `objq_stats` shows: a broker's statistics, or the document's where no broker answers.

And what everybody makes of them who looks at a queue: whether somebody takes what is ready, and
whether those who would are heard of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from objq import conf
from objq.client.reading import DocumentReader, document_reader
from objq.client.registry import connect
from objq.core.ops import (
    AllWorkers,
    DocumentSettings,
    QueueStats,
    Running,
    Statistics,
    WorkerView,
)
from objq.durations import in_words
from objq.errors import ConfigurationError, ObjqError

ANSWER_TIMEOUT_S: Final = 3.0
"""How long a broker has to answer before the document is read instead."""

RUNNING_SHOWN: Final = 10


class Overview(NamedTuple):
    """`why`: why these are the document's own figures and not a broker's, or None."""

    statistics: Statistics
    why: str | None
    wall_ms: int


class Source:
    """Where the figures of one backend come from; ask as often as you like, then close."""

    def __init__(
        self,
        alias: str,
        wall_ms: Callable[[], int],
        *,
        ask: Callable[[], Statistics] | None = None,
        reader: DocumentReader | None = None,
    ) -> None:
        """Raises ConfigurationError. `ask` and `reader` stand in for the client and the store."""
        self._options = conf.options_for(alias)
        self._ask = ask or (lambda: connect(alias).stats(timeout_s=ANSWER_TIMEOUT_S))
        self._reader = reader or document_reader(alias)
        self._wall_ms = wall_ms

    def look(self) -> Overview:
        """Return the figures as of now; raises what reading the document raises."""
        why = 'MODE is "direct".' if self._options.mode == "direct" else self._nobody()
        if why is None:
            try:
                return Overview(self._ask(), None, self._wall_ms())
            except ConfigurationError:
                raise
            except ObjqError as error:
                why = error.message
        return Overview(self._reader.read().statistics(), why, self._wall_ms())

    def close(self) -> None:
        self._reader.close()

    def _nobody(self) -> str | None:
        """Return why nobody need be asked, or None if somebody may answer."""
        if self._options.broker_url is not None:
            return None  # it is for processes that may not read the document
        return "No broker is recorded." if self._reader.header().broker is None else None


class Takers(NamedTuple):
    """The connected workers that take from a queue: those that are heard of, and the silent."""

    heard: list[WorkerView]
    silent: list[WorkerView]

    @property
    def slots(self) -> int:
        """How many jobs those run at a time that are heard of: of the others nobody knows."""
        return sum(each.slots for each in self.heard)

    @property
    def are_busy(self) -> bool:
        """Tell whether those that are heard of hold as many jobs as they run, or more."""
        return sum(each.holds for each in self.heard) >= self.slots


def takers(queue: str, workers: AllWorkers, timeout_s: float) -> Takers | None:
    """Return who takes from a queue; None where not all workers are told of.

    `timeout_s`: the heartbeat timeout of the document.
    """
    if workers.total > len(workers.workers):
        return None
    found = Takers([], [])
    for each in workers.workers:
        if each.connected and queue in each.queues:
            silent = is_silent(each.heard_ago_s, timeout_s)
            (found.silent if silent else found.heard).append(each)
    return found


def is_silent(heard_ago_s: float | None, timeout_s: float) -> bool:
    """Tell whether a worker was not heard for so long that it may not even start a job now (S2)."""
    trust_s = DocumentSettings(heartbeat_timeout_s=timeout_s).trust_s
    return heard_ago_s is not None and heard_ago_s > trust_s


def untaken(stats: Statistics, workers: AllWorkers) -> list[str]:
    """Return the queues with ready jobs, not paused, from which no connected worker takes."""
    timeout_s = stats.heartbeat_timeout_s
    return [
        name
        for name, queue in sorted(stats.queues.items())
        if queue.ready and not queue.paused and takers(name, workers, timeout_s) == Takers([], [])
    ]


def as_json(overview: Overview) -> str:
    """Return the figures as one line of JSON; `source` is "broker" or "document"."""
    figures: dict[str, Any] = msgspec.to_builtins(overview.statistics)
    origin = {"source": "broker" if overview.why is None else "document", "why": overview.why}
    return msgspec.json.encode(origin | figures).decode()


def as_text(overview: Overview) -> str:
    """Return the figures for people."""
    found, now = overview.statistics, overview.wall_ms
    lines = [*_heading(overview), "", *_table(_queue_rows(found.queues, now))]
    if found.running:
        lines += ["", *_table(_running_rows(found.running[:RUNNING_SHOWN], now))]
        more = sum(queue.running for queue in found.queues.values()) - RUNNING_SHOWN
        if more > 0:
            lines.append(f"… and {more:,} more that were heard of later.")
    return "\n".join(lines)


def _heading(overview: Overview) -> Iterator[str]:
    found, now = overview.statistics, overview.wall_ms
    broker = found.broker
    if overview.why is not None:
        yield f"Read from queue.json itself. {overview.why}"
    if broker is not None:
        verb = "leads" if overview.why is None else "is recorded as leader"
        yield f"{broker.url} {verb}, since {_ago(broker.since, now)}."
    yield (
        f"Document {found.document}, epoch {found.epoch}, seq {found.seq:,}, last commit "
        f"{_ago(found.at, now)} ago, jobs of {found.size_bytes:,} bytes."
    )


def _queue_rows(queues: dict[str, QueueStats], now: int) -> Iterator[Sequence[str]]:
    yield "queue", "ready", "scheduled", "running", "dead", "finished", "oldest ready"
    for name, queue in queues.items():
        counts = (queue.ready, queue.scheduled, queue.running, queue.dead, queue.finished)
        oldest = "" if queue.oldest_ready_at is None else _ago(queue.oldest_ready_at, now)
        label = f"{name} (paused)" if queue.paused else name
        yield label, *(f"{count:,}" for count in counts), oldest


def _running_rows(running: Sequence[Running], now: int) -> Iterator[Sequence[str]]:
    yield "running", "queue", "worker", "attempt", "for", "heard ago", "id"
    for job in running:
        heard = "" if job.heard_ago_s is None else in_words(job.heard_ago_s)
        for_ = _ago(job.claimed_at, now) if job.started else "not started"
        yield job.task, job.queue, job.worker, str(job.attempt), for_, heard, job.id


def _ago(at_ms: int, now_ms: int) -> str:
    return in_words(max(0, now_ms - at_ms) / 1000)


def _table(rows: Iterator[Sequence[str]]) -> list[str]:
    """Return the rows in columns: numbers to the right, everything else to the left."""
    table = list(rows)
    if len(table) == 1:
        return ["No queue has had a job yet."]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    numeric = [all(_is_number(row[at]) for row in table[1:]) for at in range(len(widths))]
    lines = (
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        )
        for row in table
    )
    return [line.rstrip() for line in lines]


def _is_number(cell: str) -> bool:
    return cell.replace(",", "").isdigit()
