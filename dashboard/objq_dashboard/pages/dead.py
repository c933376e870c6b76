"""Dead jobs, by task and error, and one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from django.utils.translation import gettext as _

from objq.core import ops
from objq_dashboard.page import Cell, Page, Row
from objq_dashboard.pages.jobs import arguments, listed
from objq_dashboard.pages.parts import (
    Query,
    answered,
    error_text,
    job_cell,
    link,
    shorten,
    when,
)
from objq_dashboard.source.searching import FILTERS
from objq_dashboard.wording import NOTHING, number

if TYPE_CHECKING:
    from objq.core.ops import JobSummary, Statistics
    from objq_dashboard.source.source import Source

GROUPED: Final = 1_000
"""The newest dead jobs, which are counted by task and error."""

PAGE: Final = ops.MAX_PAGE
MOST_GROUPS: Final = 50


@dataclass(slots=True)
class Group:
    """Dead jobs of one task and kind of error; `newest` is the one that died last."""

    task: str
    error: str
    newest: JobSummary
    count: int = 0


@answered
def build(source: Source, query: Query, stats: Statistics) -> dict[str, Any]:
    dead = sum(queue.dead for queue in stats.queues.values())
    groups, counted = source.derived("dead groups", _version(stats), lambda: by_error(source))
    texts = {"grouped": Cell(text=how_grouped(dead, counted, len(groups)))}
    tables = {
        "groups": tuple(group_row(source, group, query) for group in groups[:MOST_GROUPS]),
        "queues": tuple(Row(key=name, cells=()) for name in sorted(stats.queues)),
    }
    jobs, around = listed(source, query, "dead/", states=("dead",))
    if jobs is not None:
        tables["dead"] = tuple({job.id: row(source, job) for job in jobs}.values())
    return {"texts": texts | around, "tables": tables}


def choices(query: Query, page: Page) -> dict[str, Any]:
    return {
        "queues": [row.key for row in page.tables.get("queues", ())],
        "filtered": any(query.get(key) for key in FILTERS),
    }


def by_error(source: Source) -> tuple[list[Group], int]:
    """Return the groups of the newest dead jobs, largest first, and how many those are."""
    groups: dict[tuple[str, str], Group] = {}
    counted, cursor = 0, None
    while counted < GROUPED:
        page = source.list(ops.Filter(states=("dead",)), cursor, PAGE)
        for job in page.jobs:
            error = job.error.type if job.error is not None else job.reason or ""
            group = groups.setdefault((job.task, error), Group(job.task, error, job))
            group.count += 1
        counted += len(page.jobs)
        cursor = page.cursor
        if cursor is None:
            break
    return sorted(groups.values(), key=lambda group: -group.count), counted


def _version(stats: Statistics) -> object:
    """Return what is another one whenever dead jobs have come or gone."""
    names = ("dead", "retried", "deleted")
    counts = (
        (name, queue.dead, *(queue.totals.get(each, 0) for each in names))
        for name, queue in stats.queues.items()
    )
    return (stats.document, stats.epoch, *counts)


def how_grouped(dead: int, counted: int, groups: int) -> str:
    said = []
    if dead > counted:
        said.append(
            _("Counted are the newest %(counted)s of %(dead)s dead jobs.")
            % {"counted": number(counted), "dead": number(dead)}
        )
    if groups > MOST_GROUPS:
        said.append(
            _("Shown are the largest %(shown)s of %(groups)s groups.")
            % {"shown": number(MOST_GROUPS), "groups": number(groups)}
        )
    return " ".join(said)


def group_row(source: Source, group: Group, query: Query) -> Row:
    wanted = {"task": group.task, "error": group.error}
    shown = all(query.get(key, "") == value for key, value in wanted.items())
    name = group.error.rpartition(".")[2] if group.newest.error is not None else group.error
    return Row(
        key=f"{group.task}\n{group.error}",
        mark="chosen" if shown else "",
        cells=(
            Cell(text=group.task, href=link(source, "dead/", **wanted)),
            Cell(text=shorten(name, 80) or NOTHING, title=group.error),
            Cell(text=number(group.count)),
            when(group.newest.finished_at),
            error_text(group.newest),
        ),
    )


def row(source: Source, job: JobSummary) -> Row:
    return Row(
        key=job.id,
        cells=(
            job_cell(source, job.id),
            Cell(text=job.task),
            Cell(text=job.queue),
            arguments(job),
            error_text(job),
            Cell(text=f"{number(job.attempts)}/{number(job.max_attempts)}"),
            when(job.finished_at),
        ),
    )
