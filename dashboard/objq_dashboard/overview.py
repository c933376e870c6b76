"""What the overview shows, as it is shown: sentences and cells of text, ready for page and JSON.

All wording, formatting and judging happens here, once; the template and the script only place
what they are given. Everything is read through objq's client.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlsplit

from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from msgspec import structs

import objq
from objq.client.reading import read_document
from objq.errors import ConfigurationError, DocumentError, NoDocument, ObjqError
from objq_dashboard.wording import NOTHING, age, moment, number, size, utc

if TYPE_CHECKING:
    from objq.core.ops import QueueStats, Running, Statistics

TIMEOUT_S: Final = 2.0
"""How long the broker may take to answer, and then the document to be read."""

_reads: Final = ThreadPoolExecutor(1, thread_name_prefix="objq dashboard")
"""Reads the document: one at a time, however many look on, and none is waited for too long."""

START_BROKER: Final = "python manage.py runbroker"

Level = Literal["good", "warn", "bad"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """One plain sentence on whether the queue moves; if not, what to do, and what to run."""

    level: Level
    sentence: str
    advice: str = ""
    command: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell: its text, the exact value as a title, and a mark: `good`, `warn`, `bad`."""

    text: str
    title: str = ""
    mark: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of a table. `key` stays the same for the same thing, so that it is patched in place."""

    key: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """`known`: the queue was asked and answered; else the tables are empty and not shown."""

    health: Health
    known: bool = False
    broker: tuple[Row, ...] = ()
    queues: tuple[Row, ...] = ()
    running: tuple[Row, ...] = ()


def read(alias: str) -> Overview:
    """Ask the queue of a backend; never raises for a queue that cannot be asked, but says why."""
    try:
        stats = objq.connect(alias).stats(timeout_s=TIMEOUT_S)
    except (ConfigurationError, DocumentError) as error:
        return Overview(health=unreadable(error))
    except ObjqError as error:
        return without_broker(alias, error)
    now_ms = time.time_ns() // 1_000_000
    return tables(stats, judge(stats, now_ms), now_ms)


def without_broker(alias: str, error: ObjqError) -> Overview:
    """Return what the document says, as far as it can be read in time, and why it is asked."""
    health = unreadable(error)
    try:
        reading = _reads.submit(read_document, alias).result(TIMEOUT_S)
    except (ObjqError, TimeoutError):
        return Overview(health=health)
    sentence = _("No broker answers. These are the figures of the document, written %(age)s ago.")
    health = replace(health, sentence=sentence % {"age": age(reading.age_s)})
    stats = structs.replace(reading.statistics(), broker=None)  # it leads no more, or is cut off
    return tables(stats, health, reading.wall_ms)


def tables(stats: Statistics, health: Health, now_ms: int) -> Overview:
    return Overview(
        known=True,
        health=health,
        broker=broker_rows(stats, now_ms),
        queues=tuple(queue_row(name, stats.queues[name], now_ms) for name in sorted(stats.queues)),
        running=tuple(running_row(job, now_ms, stats.heartbeat_timeout_s) for job in stats.running),
    )


def unreadable(error: ObjqError) -> Health:
    if isinstance(error, NoDocument):
        return Health(
            level="bad",
            sentence=_("There is no queue yet."),
            advice=_("The first broker creates it. Start one:"),
            command=START_BROKER,
        )
    if isinstance(error, DocumentError):
        return Health(level="bad", sentence=_("The queue is not in order."), advice=str(error))
    if isinstance(error, ConfigurationError):
        return Health(level="bad", sentence=_("The settings cannot work."), advice=str(error))
    return Health(
        level="bad",
        sentence=_("No broker answers."),
        advice=_("%(error)s If none is running, start one:") % {"error": str(error)},
        command=START_BROKER,
    )


def judge(stats: Statistics, now_ms: int) -> Health:
    """Return the sentence for a queue that answered."""
    if stats.broker is None:
        return Health(
            level="warn",
            sentence=_("No broker leads."),
            advice=_("Jobs are pushed directly and wait until one does. Start one:"),
            command=START_BROKER,
        )
    leads = _("Broker %(address)s leads since %(since)s, last commit %(age)s ago.") % {
        "address": address(stats.broker.url),
        "since": moment(stats.broker.since),
        "age": age((now_ms - stats.at) / 1000),
    }
    timeout_s = stats.heartbeat_timeout_s
    stale = sum(is_stale(job, timeout_s) for job in stats.running)
    if stale:
        advice = ngettext(
            "%(count)s job has a stale heartbeat; it goes to the next worker at %(timeout)s.",
            "%(count)s jobs have stale heartbeats; each goes to the next worker at %(timeout)s.",
            stale,
        ) % {"count": number(stale), "timeout": age(timeout_s)}
        return Health(level="warn", sentence=leads, advice=advice)
    return Health(level="good", sentence=leads)


def broker_rows(stats: Statistics, now_ms: int) -> tuple[Row, ...]:
    rows = [
        fact(
            "commit",
            _("Commit"),
            number(stats.seq),
            _("%(age)s ago") % {"age": age((now_ms - stats.at) / 1000)},
        ),
        fact("epoch", _("Epoch"), number(stats.epoch)),
        fact("size", _("Size of the document"), size(stats.size_bytes), number(stats.size_bytes)),
        fact("document", _("Document"), stats.document),
    ]
    if stats.broker is not None:
        broker = stats.broker
        rows[:0] = [
            fact("url", _("Address"), address(broker.url), broker.url),
            fact("since", _("Leads since"), moment(broker.since), utc(broker.since)),
            fact("version", _("Version"), broker.version),
            fact("id", _("Broker"), broker.id),
        ]
    return tuple(rows)


def fact(key: str, label: str, text: str, title: str = "") -> Row:
    return Row(key=key, cells=(Cell(text=label), Cell(text=text, title=title)))


def queue_row(name: str, stats: QueueStats, now_ms: int) -> Row:
    oldest_at = stats.oldest_ready_at
    return Row(
        key=name,
        cells=(
            Cell(text=name),
            Cell(text=_("paused"), mark="warn") if stats.paused else Cell(text=_("open")),
            Cell(text=NOTHING)
            if oldest_at is None
            else Cell(text=age((now_ms - oldest_at) / 1000), title=utc(oldest_at)),
            Cell(text=number(stats.ready)),
            Cell(text=number(stats.running)),
            Cell(text=number(stats.scheduled)),
            Cell(text=number(stats.dead), mark="bad" if stats.dead else ""),
            Cell(text=number(stats.totals.get("pushed", 0))),
            Cell(text=number(stats.totals.get("succeeded", 0))),
        ),
    )


def running_row(job: Running, now_ms: int, timeout_s: float) -> Row:
    stale = is_stale(job, timeout_s)
    return Row(
        key=job.id,
        cells=(
            Cell(text=job.task, title=job.id),
            Cell(text=job.queue),
            Cell(text=job.worker),
            Cell(text=number(job.attempt)),
            Cell(text=age((now_ms - job.claimed_at) / 1000), title=utc(job.claimed_at)),
            Cell(text=_("started") if job.started else _("claimed")),
            Cell(
                text=NOTHING if job.heard_ago_s is None else age(job.heard_ago_s),
                title=_("stale") if stale else "",
                mark="bad" if stale else "good",
            ),
        ),
    )


def is_stale(job: Running, timeout_s: float) -> bool:
    """Heartbeats go every sixth of the timeout; after half of it three are missing."""
    return job.heard_ago_s is not None and job.heard_ago_s > timeout_s / 2


def address(url: str) -> str:
    return urlsplit(url).netloc or url
