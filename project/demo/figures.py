"""What the queue itself says of the run. Django must be set up before this is imported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import objq
from project.jobs import span
from project.models import IndexJob

if TYPE_CHECKING:
    from objq.core.ops import JobView

BATCH: Final = 500
TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What each job took, in milliseconds.

    `starts_ms`: from the view's `.enqueue()` to the first line of the task.
    `waits_ms`: in the queue, from the commit that holds it to the one that grants it.
    """

    jobs: int
    commits: int
    starts_ms: tuple[float, ...]
    waits_ms: tuple[int, ...]
    failures: tuple[str, ...]


def ask() -> Figures:
    rows = list(IndexJob.objects.all())
    ids = [row.job for row in rows]
    client = objq.connect()
    views: list[JobView] = []
    for at in range(0, len(ids), BATCH):
        found = client.get(ids[at : at + BATCH], timeout_s=TIMEOUT_S)
        views += [view for view in found.jobs if view is not None]
    granted = [(view, span(view)[0]) for view in views]
    return Figures(
        jobs=len(ids),
        commits=client.stats(timeout_s=TIMEOUT_S).seq,
        starts_ms=tuple(
            1000 * (row.started_at - row.enqueued_at).total_seconds()
            for row in rows
            if row.started_at is not None
        ),
        waits_ms=tuple(at - view.pushed_at for view, at in granted if at is not None),
        failures=tuple(reason(view) for view in views if view.state == "dead"),
    )


def reason(view: JobView) -> str:
    errors = [attempt.error for attempt in view.history if attempt.error is not None]
    last = (
        f"{errors[-1].type}: {errors[-1].message}" if errors else view.reason or "no reason given"
    )
    return f"job {view.id}, {view.task}: {last}"
