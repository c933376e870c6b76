"""Overviews of the document: counts per queue, and the jobs that run. No job's text is read for it,
but that of the few running ones that are told of."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

import msgspec

from objq.core.document import Document, Totals
from objq.core.ops import QueueStats, Running, Statistics


def statistics(
    document: Document, heard_ago_s: Callable[[str], float | None], most: int = 100
) -> Statistics:
    """Return counts per queue, and the running jobs that were heard of longest ago."""
    return Statistics(
        document=document.id,
        seq=document.seq,
        epoch=document.epoch,
        at=document.at,
        broker=document.broker,
        size_bytes=sum(document.bytes.values()),
        heartbeat_timeout_s=document.settings.heartbeat_timeout_s,
        queues=queue_stats(document),
        running=tuple(_running(document, heard_ago_s, most)),
    )


def queue_stats(document: Document) -> dict[str, QueueStats]:
    """Return the counts of every queue, by name."""
    names = document.totals.keys() | document.counts.keys() | document.queues.keys()
    return {name: _of_queue(document, name) for name in sorted(names)}


def _of_queue(document: Document, name: str) -> QueueStats:
    counts = document.counts.get(name, {})
    ready = document.ready.get(name)
    return QueueStats(
        ready=counts.get("ready", 0),
        scheduled=counts.get("scheduled", 0),
        running=counts.get("running", 0),
        dead=counts.get("dead", 0),
        finished=counts.get("succeeded", 0) + counts.get("cancelled", 0),
        paused=document.is_paused(name),
        oldest_ready_at=ready.oldest_since() if ready else None,
        totals=msgspec.to_builtins(document.totals.get(name, Totals())),
    )


def _running(
    document: Document, heard_ago_s: Callable[[str], float | None], most: int
) -> Iterator[Running]:
    held = ((heard_ago_s(token) or 0.0, token) for token in document.claims)
    for ago_s, token in heapq.nlargest(most, held):
        yield document.claims[token].running(ago_s)
