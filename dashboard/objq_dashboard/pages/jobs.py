"""Jobs page by page, by state, queue, task, error and text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from msgspec import UNSET, structs

from objq.core import ops
from objq.errors import Invalid
from objq_dashboard import masking
from objq_dashboard.page import Cell, Page, Row
from objq_dashboard.pages.parts import (
    STATES,
    Query,
    answered,
    error_text,
    heartbeat,
    job_cell,
    pager,
    shorten,
    state_cell,
    when,
)
from objq_dashboard.source import searching
from objq_dashboard.wording import NOTHING, age, number, utc

if TYPE_CHECKING:
    from objq.core.ops import JobSummary, Statistics
    from objq_dashboard.source.searching import Found
    from objq_dashboard.source.source import Source

PER_PAGE = 50
MOST_ARGUMENTS = 120
"""Characters of a job's arguments that a row shows; its title has more."""


@answered
def build(source: Source, query: Query, stats: Statistics) -> dict[str, Any]:
    texts = counts(source, query, stats)
    tables = {"queues": tuple(Row(key=name, cells=()) for name in sorted(stats.queues))}
    jobs, around = listed(source, query, "jobs/")
    if jobs is not None:
        rows = {job.id: row(source, job, stats.heartbeat_timeout_s) for job in jobs}
        tables["jobs"] = tuple(rows.values())
    return {"texts": texts | around, "tables": tables}


def listed(
    source: Source, query: Query, path: str, **fixed: Any
) -> tuple[tuple[JobSummary, ...] | None, dict[str, Cell]]:
    """Return the jobs of a page that lists them, and the texts around: what was found, where to go.

    `fixed`: of the filter, whatever the query says. There are no jobs, not even none, if no job can
    meet the filter; a text says why.
    """
    try:
        filters = structs.replace(searching.wanted(query), **fixed)
        cursor = query.get("cursor") or None
        found = searching.page_of(source, filters, cursor, PER_PAGE)
    except Invalid as error:
        said = Cell(text=error.message, mark="warn")
        return None, {"found": said, **pager(source, path, query, None)}
    return found.jobs, {"found": Cell(text=how_many(found)), **pager(source, path, query, found)}


def choices(query: Query, page: Page) -> dict[str, Any]:
    kept = {key: value for key, value in query.items() if key not in ("state", "cursor", "job")}
    return {
        "states": [
            {
                "title": title,
                "href": f"?{urlencode({**kept, 'state': state} if state else kept)}",
                "current": query.get("state", "") == state,
                "text": f"count_{state or 'all'}",
                "cell": page.texts.get(f"count_{state or 'all'}"),
            }
            for state, title in (("", _("all")), *{**STATES, "ready": _("waiting")}.items())
        ],
        "queues": [row.key for row in page.tables.get("queues", ())],
        "filtered": any(query.get(key) for key in searching.FILTERS),
    }


def counts(source: Source, query: Query, stats: Statistics) -> dict[str, Cell]:
    """Return how many jobs there are in each state, in the queue that is looked at."""
    only = query.get("queue")
    queues = [queue for name, queue in stats.queues.items() if only in (None, "", name)]
    found = {
        state: sum(getattr(queue, state) for queue in queues)
        for state in ("ready", "scheduled", "running", "dead")
    }
    found["all"] = sum(found.values()) + sum(queue.finished for queue in queues)
    # The statistics tell of both together; a list knows how many there are without looking.
    finished: tuple[ops.JobState, ...] = ("succeeded", "cancelled")
    for state in finished:
        filters = ops.Filter(states=(state,), queues=(only,) if only in stats.queues else ())
        found[state] = (source.list(filters, None, 1).total or 0) if queues else 0
    return {f"count_{state}": Cell(text=number(count)) for state, count in found.items()}


def how_many(found: Found) -> str:
    """Return what the search has found, if that is not plain to see."""
    if not found.partial:
        return ""
    said = ngettext(
        "%(count)s job found among %(scanned)s that were looked at; there may be more.",
        "%(count)s jobs found among %(scanned)s that were looked at; there may be more.",
        len(found.jobs),
    )
    return said % {"count": number(len(found.jobs)), "scanned": number(found.scanned)}


def row(source: Source, job: JobSummary, timeout_s: float) -> Row:
    return Row(
        key=job.id,
        cells=(
            job_cell(source, job.id),
            Cell(text=job.task),
            Cell(text=job.queue),
            state_cell(job.state, cancel_requested=job.cancel_requested),
            arguments(job),
            Cell(text=f"{number(job.attempts)}/{number(job.max_attempts)}"),
            when(job.pushed_at),
            standing(source, job, timeout_s),
        ),
    )


def standing(source: Source, job: JobSummary, timeout_s: float) -> Cell:
    """Return what is to be said of a job in its state."""
    now_ms = source.now_ms
    if job.state == "running" and job.worker is not None:
        since_ms = job.started_at or job.claimed_at or now_ms
        text = _("%(worker)s, for %(age)s") % {
            "worker": job.worker or NOTHING,
            "age": age((now_ms - since_ms) / 1000),
        }
        beat = heartbeat(source, job.heard_ago_s, timeout_s)
        if job.heard_ago_s is not None:
            text = _("%(what)s, last heartbeat %(age)s") % {"what": text, "age": beat.text}
        return Cell(text=text, title=utc(since_ms), mark=beat.mark)
    if job.state == "scheduled" and job.run_after is not None:
        due = _("due in %(age)s") % {"age": age((job.run_after - now_ms) / 1000)}
        return Cell(text=due, title=utc(job.run_after))
    if job.state == "ready":
        since_ms = job.ready_since or job.pushed_at
        return Cell(text=_("waits for %(age)s") % {"age": age((now_ms - since_ms) / 1000)})
    if job.state == "dead":
        return error_text(job)
    if job.finished_at is not None:
        done = _("%(age)s ago") % {"age": age((now_ms - job.finished_at) / 1000)}
        return Cell(text=done, title=utc(job.finished_at))
    return Cell(text=NOTHING)


def arguments(job: JobSummary) -> Cell:
    """Return the arguments as one would write them in a call, as far as they are short."""
    if job.args is UNSET or job.kwargs is UNSET:
        return Cell(text=_("too long for a row"))
    mask = masking.mask_for(job.task)
    text = masking.as_call(mask.args(bytes(job.args)).text, mask.kwargs(bytes(job.kwargs)).text)
    if len(text) <= MOST_ARGUMENTS:
        return Cell(text=text or NOTHING)
    return Cell(text=shorten(text, MOST_ARGUMENTS), title=text)
