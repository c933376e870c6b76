"""What a broker says at `/metrics`, for Prometheus (docs/metrics.md).

The broker counts in plain numbers and they are only put into families when somebody asks, so that
no request pays for it. Each broker has a registry of its own; nothing is global.

Labels are bounded: `queue` by `MAX_QUEUES`, all others by the words of the wire and of the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from objq.broker.measures import Histogram
from objq.core import ops
from objq.core.document import Document
from objq.core.statistics import queue_stats
from objq.server.seam import Broker
from objq.server.sockets import Sockets

UNREADABLE: Final = "unreadable"
"""Stands for the op of a message in which none could be read."""

COMMITS: Final = {
    "commits": ("objq_commits", "Confirmed writes of the document."),
    "attempts": ("objq_commit_attempts", "Writes that were tried."),
    "conflicts": ("objq_commit_conflicts", "Writes that met a version of somebody else's."),
    "ambiguous": ("objq_commit_ambiguous", "Writes that may or may not have been applied."),
    "throttled": ("objq_store_throttled", "Times that the store asked to be used less."),
    "failures": ("objq_store_failures", "Store accesses that failed, throttling included."),
    "reads": ("objq_store_reads", "Reads of the document or of its header."),
    "lost_commits": ("objq_commits_lost", "Confirmed writes that have vanished: not a real CAS."),
}
"""Counter and its help, by the field of `CommitStats`."""


class Text(NamedTuple):
    """What a route answers if it is not JSON."""

    body: bytes
    content_type: str


class Metrics(Collector):
    def __init__(self, broker: Broker, sockets: Sockets) -> None:
        self._broker = broker
        self._sockets = sockets
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def text(self) -> Text:
        return Text(generate_latest(self._registry), CONTENT_TYPE_LATEST)

    def describe(self) -> Iterable[Metric]:
        return ()  # else the registry would collect once just to learn the names

    def collect(self) -> Iterator[Metric]:
        yield from self._commits()
        yield from self._times()
        yield _requests(self._sockets.requests)
        gauges = self._broker.gauges()
        yield _gauge("objq_leading", "1 if this process leads.", gauges is not None)
        yield _gauge("objq_sockets", "Open websockets.", len(self._sockets))
        yield _gauge("objq_workers", "Connected workers.", len(self._sockets.broker.roster))
        if gauges is None:
            return
        yield _gauge("objq_watchers", "Sockets that watch.", gauges.watchers)
        yield _gauge("objq_waiting_claims", "Claims that wait for a job.", gauges.waiting_claims)
        yield _gauge(
            "objq_waiting_requests", "Requests that wait for a commit.", gauges.waiting_requests
        )
        yield _gauge("objq_document_bytes", "Size of the object.", gauges.size_bytes)
        if gauges.document is not None:
            yield from _jobs(gauges.document, gauges.wall_ms)

    def _commits(self) -> Iterator[Metric]:
        stats, measures = self._broker.stats, self._broker.measures
        for field, (name, text) in COMMITS.items():
            yield _counter(name, text, getattr(stats, field))
        yield _counter("objq_take_overs", "Times that this process took over.", measures.take_overs)
        yield _counter("objq_claims_expired", "Claims whose holders fell silent.", measures.expired)
        dropped = CounterMetricFamily(
            "objq_dropped_records",
            "Records and names of queues that were dropped.",
            labels=["list"],
        )
        for where in ("dead", "finished", "queues"):
            dropped.add_metric([where], measures.dropped[where])
        yield dropped

    def _times(self) -> Iterator[Metric]:
        measures = self._broker.measures
        yield _histogram("objq_commit_duration_seconds", "Time of a write.", measures.commit_s)
        yield _histogram("objq_commit_size_bytes", "Size of a write.", measures.commit_bytes)
        yield _histogram(
            "objq_batch_requests", "Requests that one commit holds.", measures.batch_requests
        )
        yield _histogram(
            "objq_job_wait_seconds",
            "From when a job was ready for the first time to its claim.",
            measures.wait_s,
        )
        yield _histogram(
            "objq_job_run_seconds",
            "From the start of an attempt to the commit of its outcome.",
            measures.run_s,
        )


def _requests(counted: Counter[tuple[type, str]]) -> Metric:
    family = CounterMetricFamily(
        "objq_requests", "Requests by op and outcome (ok, or an error code).",
        labels=["op", "outcome"],
    )  # fmt: skip
    named: Counter[tuple[str, str]] = Counter()
    for (kind, outcome), count in counted.items():
        name = str(kind.__struct_config__.tag) if issubclass(kind, ops.Op) else UNREADABLE
        named[name, outcome] += count
    for (name, outcome), count in sorted(named.items()):
        family.add_metric([name, outcome], count)
    return family


def _jobs(document: Document, wall_ms: int) -> Iterator[Metric]:
    jobs = GaugeMetricFamily("objq_jobs", "Jobs.", labels=["queue", "state"])
    oldest = GaugeMetricFamily(
        "objq_oldest_ready_seconds", "How long the next job has been ready; 0 if none is.",
        labels=["queue"],
    )  # fmt: skip
    paused = GaugeMetricFamily("objq_queue_paused", "1 if the queue is paused.", labels=["queue"])
    events = CounterMetricFamily(
        "objq_job_events", "What became of jobs since the document was made (its totals).",
        labels=["queue", "event"],
    )  # fmt: skip
    for name, queue in queue_stats(document).items():
        for state, count in document.counts.get(name, {}).items():
            jobs.add_metric([name, state], count)
        since = queue.oldest_ready_at
        oldest.add_metric([name], 0.0 if since is None else max(0, wall_ms - since) / 1000)
        paused.add_metric([name], queue.paused)
        for event, count in queue.totals.items():
            events.add_metric([name, event], count)
    yield from (jobs, oldest, paused, events)
    yield _gauge("objq_document_seq", "Commits of the document.", document.seq)
    yield _gauge("objq_document_epoch", "Leaderships of the document.", document.epoch)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=value)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _histogram(name: str, text: str, counted: Histogram) -> Metric:
    buckets, so_far = [], 0
    for bound, count in zip((*counted.bounds, float("inf")), counted.counts, strict=True):
        so_far += count
        buckets.append(("+Inf" if bound == float("inf") else str(bound), float(so_far)))
    return HistogramMetricFamily(name, text, buckets=buckets, sum_value=counted.total)
