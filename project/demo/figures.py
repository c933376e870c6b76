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
    """`starts_ms`: for every job, from its push to the commit that gave it to a worker."""

    jobs: int
    commits: int
    starts_ms: tuple[int, ...]
    failures: tuple[str, ...]


def ask() -> Figures:
    ids = list(IndexJob.objects.values_list("job", flat=True))
    client = objq.connect()
    views: list[JobView] = []
    for at in range(0, len(ids), BATCH):
        found = client.get(ids[at : at + BATCH], timeout_s=TIMEOUT_S)
        views += [view for view in found.jobs if view is not None]
    began = [(view, span(view)[0]) for view in views]
    return Figures(
        jobs=len(ids),
        commits=client.stats(timeout_s=TIMEOUT_S).seq,
        starts_ms=tuple(at - view.pushed_at for view, at in began if at is not None),
        failures=tuple(reason(view) for view in views if view.state == "dead"),
    )


def reason(view: JobView) -> str:
    errors = [attempt.error for attempt in view.history if attempt.error is not None]
    last = (
        f"{errors[-1].type}: {errors[-1].message}" if errors else view.reason or "no reason given"
    )
    return f"job {view.id}, {view.task}: {last}"
