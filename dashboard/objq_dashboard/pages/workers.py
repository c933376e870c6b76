"""Who works, and on what."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from objq.commandline import command
from objq_dashboard.page import Cell, Row
from objq_dashboard.pages.parts import (
    Query,
    answered,
    heartbeat,
    job_cell,
    known_workers,
    since,
)
from objq_dashboard.wording import NOTHING, age, number, utc

if TYPE_CHECKING:
    from objq.core.ops import Running, Statistics, WorkerView
    from objq_dashboard.source.source import Source


@answered
def build(source: Source, query: Query, stats: Statistics) -> dict[str, Any]:
    found = known_workers(source, stats)
    if found is None:
        rows = tuple(of_document(source, stats))
        more = _("Who is connected only a broker knows, and none answers; these hold jobs.")
        if source.why is None:
            more = _("Who is connected only a broker knows, and none leads; these hold jobs.")
        texts = {
            "more": Cell(text=more if rows else ""),
            "total": Cell(text=""),
            "none": Cell(text=_("Workers are known only to a broker; no job is held just now.")),
            "start": Cell(text=""),
        }
        return {"texts": texts, "tables": {"workers": rows}}
    rows = tuple(row(source, each, stats) for each in found.workers)
    more = ""
    if found.total > len(rows):
        more = _("%(shown)s of %(total)s are shown.") % {
            "shown": number(len(rows)),
            "total": number(found.total),
        }
    return {
        "texts": {
            "more": Cell(text=more),
            "total": Cell(text=in_short(found.workers)),
            "none": Cell(text=_("No worker is known. Start one:")),
            "start": Cell(text=command(source.alias, "objq_worker")),
        },
        "tables": {"workers": rows},
    }


def in_short(workers: tuple[WorkerView, ...]) -> str:
    """Return how many are connected, and how many of their slots are in use."""
    connected = [each for each in workers if each.connected]
    if not connected:
        return _("no worker")
    said = ngettext("%(count)s worker", "%(count)s workers", len(connected))
    slots = _("%(used)s of %(slots)s slots in use") % {
        # A worker of short jobs holds some that wait for a slot.
        "used": number(sum(min(each.holds, each.slots) for each in connected)),
        "slots": number(sum(each.slots for each in connected)),
    }
    return f"{said % {'count': number(len(connected))}}, {slots}"


def row(source: Source, worker: WorkerView, stats: Statistics) -> Row:
    state = Cell(text=_("connected"))
    if not worker.connected:
        title = _("Its jobs go to other workers when nothing is heard of it for %(age)s.")
        state = Cell(
            text=_("not connected"),
            title=title % {"age": age(stats.heartbeat_timeout_s)},
            mark="bad" if worker.holds else "warn",
        )
    full = worker.connected and worker.holds >= worker.slots
    return Row(
        key=worker.name,
        cells=(
            Cell(text=worker.name or NOTHING, title=worker.client),
            state,
            Cell(text=worker.host or NOTHING),
            Cell(text=worker.version or NOTHING),
            Cell(text=", ".join(worker.queues) or NOTHING),
            Cell(
                text=f"{number(min(worker.holds, worker.slots))}/{number(worker.slots)}"
                if worker.connected
                else number(worker.holds),
                title=slots_title(worker) if full else "",
                mark="warn" if full else "",
            ),
            runs(source, worker.running, worker.holds),
            since(worker.connected_at, source.now_ms),
            heartbeat(source, worker.heard_ago_s, stats.heartbeat_timeout_s),
        ),
    )


def slots_title(worker: WorkerView) -> str:
    """Return what is to be said of a worker whose slots are all in use."""
    ahead = worker.holds - worker.slots
    if ahead <= 0:
        return _("all in use")
    said = ngettext(
        "all in use; %(count)s more job is held ahead",
        "all in use; %(count)s more jobs are held ahead",
        ahead,
    )
    return said % {"count": number(ahead)}


def runs(source: Source, running: tuple[Running, ...], holds: int) -> Cell:
    """Return what a worker runs: a link to the one job, or the first and a list of all."""
    if not running:
        return Cell(text=NOTHING)
    first = running[0]
    if holds == 1:
        return job_cell(source, first.id, first.task)
    lines = [
        f"{each.task}  {each.id}  {age((source.now_ms - each.claimed_at) / 1000)}"
        for each in running
    ]
    if holds > len(running):
        lines.append(_("… and %(count)s more") % {"count": number(holds - len(running))})
    others = ngettext("and %(count)s other", "and %(count)s others", holds - 1)
    text = f"{first.task} {others % {'count': number(holds - 1)}}"
    return Cell(text=text, title=utc(first.claimed_at), detail="\n".join(lines))


def of_document(source: Source, stats: Statistics) -> list[Row]:
    """Return what the document knows of workers: who holds the jobs that it tells of."""
    held: dict[str, list[Running]] = defaultdict(list)
    for job in stats.running:
        held[job.worker].append(job)
    return [
        Row(
            key=name,
            cells=(
                Cell(text=name or NOTHING),
                Cell(text=_("unknown")),
                *[Cell(text=NOTHING)] * 3,
                Cell(text=number(len(jobs))),
                runs(source, tuple(jobs), len(jobs)),
                Cell(text=NOTHING),
                heartbeat(source, min_heard(jobs), stats.heartbeat_timeout_s),
            ),
        )
        for name, jobs in sorted(held.items())
    ]


def min_heard(jobs: list[Running]) -> float | None:
    return min((job.heard_ago_s for job in jobs if job.heard_ago_s is not None), default=None)
