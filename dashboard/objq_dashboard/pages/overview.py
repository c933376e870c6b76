"""Does the queue move? Counts, ages, rates and the last hour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django.utils.translation import gettext as _

from objq_dashboard.page import Cell, Row
from objq_dashboard.pages.charts import charts, per_second, said
from objq_dashboard.pages.parts import (
    Query,
    answered,
    heartbeat,
    job_cell,
    known_workers,
    link,
    no_points,
    since,
)
from objq_dashboard.pages.workers import in_short
from objq_dashboard.source.rates import Seen, counted
from objq_dashboard.troubles import LONG_MS
from objq_dashboard.wording import NOTHING, age, number, rate, utc

if TYPE_CHECKING:
    from objq.core.ops import HistoryPoint, QueueStats, RecentHistory, Running, Statistics
    from objq_dashboard.source.source import Source

RATES: Final = ("pushed", "finished", "failed")


@answered
def build(source: Source, query: Query, stats: Statistics) -> dict[str, Any]:
    history = source.history()
    drawn = charts(history)
    return {
        "texts": figures(source, stats, history)
        | {
            "no_history": no_points(
                history, _("Only a broker remembers the hour in which it leads.")
            )
        }
        | {f"chart_{name}": Cell(text=said(chart)) for name, chart in drawn.items()},
        "tables": {
            "queues": tuple(
                queue_row(source, name, stats.queues[name]) for name in sorted(stats.queues)
            ),
            "running": tuple(
                running_row(source, job, stats.heartbeat_timeout_s) for job in stats.running
            ),
        },
        "charts": drawn,
    }


def figures(source: Source, stats: Statistics, history: RecentHistory | None) -> dict[str, Cell]:
    queues = stats.queues.values()
    oldest = [queue.oldest_ready_at for queue in queues if queue.oldest_ready_at is not None]
    workers = known_workers(source, stats)
    running = sum(queue.running for queue in queues)
    dead = sum(queue.dead for queue in queues)
    paused = sum(queue.paused for queue in queues)
    points = history.points[-1:] if history is not None else ()
    together = seen(source, stats)
    shown = len(stats.running)
    more = ""
    if running > shown:
        more = _("Shown are the %(shown)s of %(running)s that were heard of longest ago.")
    return {
        "oldest": oldest_cell(min(oldest, default=None), source.now_ms),
        "waiting": count(source, sum(queue.ready for queue in queues), "ready"),
        "running": count(source, running, "running"),
        "scheduled": count(source, sum(queue.scheduled for queue in queues), "scheduled"),
        "dead": Cell(
            text=number(dead),
            href=link(source, "dead/") if dead else "",
            mark="bad" if dead else "",
        ),
        "paused": Cell(text=number(paused), mark="warn" if paused else ""),
        "workers": Cell(
            text=_("known only to a broker") if workers is None else in_short(workers.workers),
            href=link(source, "workers/"),
        ),
        "more": Cell(text=more % {"shown": number(shown), "running": number(running)}),
        **{name: rate_cell(name, points, together) for name in RATES},
    }


def seen(source: Source, stats: Statistics) -> Seen | None:
    """Return the rates of all queues together, by the very figures of which each has its own."""
    found = [rates for name in stats.queues if (rates := source.rates(name)) is not None]
    if not found or len(found) < len(stats.queues):
        return None
    sums = {name: sum(each.per_second[name] for each in found) for name in RATES}
    return Seen(found[0].over_s, sums)


def rate_cell(name: str, points: tuple[HistoryPoint, ...], now: Seen | None) -> Cell:
    """Return what this site has seen lately or, as long as it has not looked, the broker's word."""
    if now is not None:
        per_second_now = now.per_second[name]
        title = _("of all queues, in the last %(age)s, in which this site has looked on")
        mark = "warn" if name == "failed" and per_second_now else ""
        return Cell(text=rate(per_second_now), title=title % {"age": age(now.over_s)}, mark=mark)
    if not points:
        return Cell(text=NOTHING, title=_("Known when a broker has led for a while."))
    point = points[-1]
    return Cell(
        text=rate(per_second(name, point) or 0.0),
        title=_("in the %(age)s before %(time)s")
        % {"age": age(point.seconds), "time": utc(point.at)},
        mark="warn" if name == "failed" and point.failed else "",
    )


def oldest_cell(at_ms: int | None, now_ms: int) -> Cell:
    if at_ms is None:
        return Cell(text=_("none waits"))
    waits_ms = now_ms - at_ms
    mark = "warn" if waits_ms > LONG_MS else ""
    return Cell(text=age(waits_ms / 1000), title=utc(at_ms), mark=mark)


def count(source: Source, value: int, state: str, queue: str = "") -> Cell:
    href = link(source, "jobs/", state=state, queue=queue) if value else ""
    return Cell(text=number(value), href=href)


def queue_row(source: Source, name: str, stats: QueueStats) -> Row:
    dead = Cell(
        text=number(stats.dead),
        href=link(source, "dead/", queue=name) if stats.dead else "",
        mark="bad" if stats.dead else "",
    )
    rates = source.rates(name)
    return Row(
        key=name,
        cells=(
            Cell(text=name, href=link(source, "jobs/", queue=name)),
            Cell(text=_("paused"), mark="warn") if stats.paused else Cell(text=_("open")),
            Cell(text=NOTHING)
            if stats.oldest_ready_at is None
            else oldest_cell(stats.oldest_ready_at, source.now_ms),
            count(source, stats.ready, "ready", name),
            count(source, stats.running, "running", name),
            count(source, stats.scheduled, "scheduled", name),
            dead,
            *(queue_rate(each, rates, stats) for each in RATES),
        ),
    )


def queue_rate(name: str, rates: Seen | None, stats: QueueStats) -> Cell:
    """Return a rate of the last seconds, and as its title how many there were ever."""
    title = _("%(count)s since the document was made") % {"count": number(counted(stats)[name])}
    if rates is None:
        return Cell(text=NOTHING, title=title)
    per_second_now = rates.per_second[name]
    mark = "warn" if name == "failed" and per_second_now else ""
    return Cell(text=rate(per_second_now), title=title, mark=mark)


def running_row(source: Source, job: Running, timeout_s: float) -> Row:
    return Row(
        key=job.id,
        cells=(
            job_cell(source, job.id, job.task),
            Cell(text=job.queue),
            Cell(text=job.worker or NOTHING),
            Cell(text=number(job.attempt)),
            since(job.claimed_at, source.now_ms),
            Cell(text=_("started") if job.started else _("claimed")),
            heartbeat(source, job.heard_ago_s, timeout_s),
        ),
    )
