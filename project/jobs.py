"""What the site knows of its jobs: pages from the database, states from the queue."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from django.core.exceptions import ImproperlyConfigured

import objq
from objq.errors import ObjqError
from project.models import IndexJob, Page

if TYPE_CHECKING:
    from objq.core.ops import JobView

LATEST: Final = 15
TIMEOUT_S: Final = 2.0

LABELS: Final = {
    "scheduled": "scheduled",
    "ready": "ready",
    "running": "running",
    "succeeded": "succeeded",
    "dead": "dead",
    "cancelled": "cancelled",
    "missing": "not in the queue",
    "unknown": "unknown",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """`pushed`, `running` and `failed` are None when the queue cannot be asked; `why` says so."""

    pages: int
    indexed: int
    pushed: int | None = None
    running: int | None = None
    failed: int | None = None
    why: str = ""


def counts() -> Counts:
    # Two counts from two indexes; one pass over the table would read every page's text.
    pages = Page.objects.count()
    indexed = Page.objects.filter(indexed_at__isnull=False).count()
    try:
        queues = objq.connect().stats(timeout_s=TIMEOUT_S).queues.values()
    except (ObjqError, ImproperlyConfigured) as error:
        return Counts(pages=pages, indexed=indexed, why=str(error))
    return Counts(
        pages=pages,
        indexed=indexed,
        pushed=sum(queue.totals.get("pushed", 0) for queue in queues),
        running=sum(queue.running for queue in queues),
        failed=sum(queue.dead for queue in queues),
    )


def latest(*, ask: bool = True, limit: int = LATEST) -> list[dict[str, Any]]:
    """Return the newest jobs of the site, newest first, ready for JSON.

    Without `ask` the queue is not asked, and their states are unknown.
    """
    rows = list(IndexJob.objects.select_related("page").defer("page__body")[:limit])
    if not rows:
        return []
    views: dict[str, JobView] = {}
    absent = "unknown"
    if ask:
        with suppress(ObjqError, ImproperlyConfigured):
            found = objq.connect().get([row.job for row in rows], timeout_s=TIMEOUT_S)
            views = {view.id: view for view in found.jobs if view is not None}
            absent = "missing"
    return [describe(row, views.get(row.job), absent) for row in rows]


def describe(row: IndexJob, view: JobView | None, absent: str) -> dict[str, Any]:
    state = absent if view is None else view.state
    waited = took = ""
    if row.started_at is not None:
        waited = milliseconds(round(1000 * (row.started_at - row.enqueued_at).total_seconds()))
    if view is not None:
        begun, ended = span(view)
        took = "" if begun is None or ended is None else milliseconds(ended - begun)
    return {
        "id": row.job,
        "title": row.page.title,
        "url": row.page.get_absolute_url(),
        "state": state,
        "label": LABELS[state],
        "pushed": row.enqueued_at.isoformat(),
        "waited": waited,
        "took": took,
    }


def span(view: JobView) -> tuple[int | None, int | None]:
    """Return when a worker took the job first and began it, and when the job ended."""
    begun = [attempt.claimed_at for attempt in view.history if attempt.started_at is not None]
    if view.claim is not None:
        begun.append(view.claim.claimed_at)
    return (min(begun) if begun else None), view.finished_at


def milliseconds(value: int) -> str:
    value = max(value, 0)
    return f"{value} ms" if value < 1000 else f"{value / 1000:.1f} s"


def snapshot() -> dict[str, Any]:
    """Return all that the status page shows."""
    counted = counts()
    # A queue that has not answered once is not waited for again.
    return {"counts": asdict(counted), "jobs": latest(ask=not counted.why)}
