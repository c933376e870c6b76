"""What several pages have in common: their frame, and cells that look alike everywhere."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from objq.errors import ObjqError
from objq.overview import is_silent
from objq_dashboard import health
from objq_dashboard.page import Cell, Page, Row
from objq_dashboard.source.searching import FILTERS
from objq_dashboard.wording import NOTHING, age, moment, utc

if TYPE_CHECKING:
    from objq.core.ops import AllWorkers, JobSummary, RecentHistory, Statistics
    from objq_dashboard.source.searching import Found
    from objq_dashboard.source.source import Source

Query = Mapping[str, str]

STATES: Final = {
    "ready": gettext_lazy("ready"),
    "scheduled": gettext_lazy("scheduled"),
    "running": gettext_lazy("running"),
    "succeeded": gettext_lazy("succeeded"),
    "dead": gettext_lazy("dead"),
    "cancelled": gettext_lazy("cancelled"),
}


def answered(
    build: Callable[[Source, Query, Statistics], dict[str, Any]],
) -> Callable[[Source, Query], Page]:
    """Make a page's builder of one that is given the statistics and returns texts, tables …"""

    @functools.wraps(build)
    def page(source: Source, query: Query) -> Page:
        try:
            stats = source.stats()
            parts = build(source, query, stats)
            if source.why is not None and source.reading is None:
                stats = source.stats()  # the broker fell silent in between
            said = health.judge(source, stats)
        except ObjqError as error:
            return Page(health=health.unreadable(source.alias, source.why or error))
        return Page(health=said, known=True, note=note(source), **parts)

    return page


def known_workers(source: Source, stats: Statistics) -> AllWorkers | None:
    """Return who is connected; None where no broker leads or answers, since only one knows."""
    return None if stats.broker is None else source.workers()


def note(source: Source) -> str:
    reading = source.reading
    if source.why is None or reading is None:
        return ""
    said = _("These are the figures of the document itself, as it was written %(age)s ago.")
    return said % {"age": age((source.now_ms - reading.document.at) / 1000)}


def no_points(history: RecentHistory | None, unknown: str) -> Cell:
    """Return why there is nothing of the last hour: `unknown` where no broker tells of it."""
    if history is None:
        return Cell(text=unknown)
    if history.points:
        return Cell(text="")
    said = _("The broker makes a point every %(age)s; there is none yet.")
    return Cell(text=said % {"age": age(history.every_s)})


def link(source: Source, path: str, **query: str) -> str:
    given = {key: value for key, value in query.items() if value}
    return f"{path}?{urlencode({'backend': source.alias, **given})}"


def pager(source: Source, path: str, query: Query, found: Found | None) -> dict[str, Cell]:
    """Return the links to the first and to the next page of a list."""
    kept = {key: query[key] for key in ("state", *FILTERS) if query.get(key)}
    first = _("First page") if query.get("cursor") else ""
    onward = Cell(text="")
    if found is not None and found.cursor is not None:
        text = _("Search on") if found.partial else _("Next page")
        onward = Cell(text=text, href=link(source, path, **kept, cursor=found.cursor))
    return {"first": Cell(text=first, href=link(source, path, **kept)), "next": onward}


def job_cell(source: Source, job_id: str, text: str = "") -> Cell:
    path = f"jobs/{quote(job_id, safe='')}/"
    return Cell(text=text or short(job_id), title=job_id, href=link(source, path))


def short(job_id: str) -> str:
    """Return the end of an id: the beginning of a time-ordered one is a time."""
    return job_id if len(job_id) <= 12 else f"…{job_id[-8:]}"


def shorten(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def fact(key: str, label: str, text: str, title: str = "", mark: str = "", href: str = "") -> Row:
    return Row(
        key=key, cells=(Cell(text=label), Cell(text=text, title=title, mark=mark, href=href))
    )


def when(at_ms: int | None) -> Cell:
    return Cell(text=NOTHING) if at_ms is None else Cell(text=moment(at_ms), title=utc(at_ms))


def since(at_ms: int | None, now_ms: int) -> Cell:
    if at_ms is None:
        return Cell(text=NOTHING)
    return Cell(text=age((now_ms - at_ms) / 1000), title=utc(at_ms))


def heartbeat(source: Source, heard_ago_s: float | None, timeout_s: float) -> Cell:
    """Return how long ago a holder was heard, and what is to be thought of that.

    Where the document is read nothing is: heartbeats go to a broker, and none listens.
    """
    if heard_ago_s is None:
        return Cell(text=NOTHING)
    if source.why is not None:
        return Cell(text=age(heard_ago_s), title=_("as the document tells; no broker listens"))
    if is_silent(heard_ago_s, timeout_s):
        return Cell(text=_("%(age)s, stale") % {"age": age(heard_ago_s)}, mark="bad")
    return Cell(text=age(heard_ago_s), mark="good")


def state_cell(state: str, *, cancel_requested: bool = False) -> Cell:
    if cancel_requested and state == "running":
        title = _("A sync task that does not look at its context runs to its end.")
        return Cell(text=_("to be cancelled"), title=title, mark="warn")
    return Cell(text=str(STATES.get(state, state)), mark="bad" if state == "dead" else "")


def error_text(job: JobSummary, most: int = 100) -> Cell:
    """Return why a job is dead: the error of its last attempt, or the reason."""
    error = job.error
    if error is None:
        return Cell(text=job.reason or NOTHING)
    name = error.type.rpartition(".")[2]
    first = error.message.strip().partition("\n")[0]
    text = f"{name}: {first}" if first else name
    return Cell(text=shorten(text, most), title=f"{error.type}: {error.message}")
