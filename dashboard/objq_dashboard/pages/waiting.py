"""Why a job waits, in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from objq.core import ops
from objq.overview import takers
from objq_dashboard.pages.parts import known_workers
from objq_dashboard.source.mode import is_direct
from objq_dashboard.wording import age, moment, number

if TYPE_CHECKING:
    from objq.core.ops import JobView, Statistics
    from objq_dashboard.source.source import Source

MOST_AHEAD: Final = ops.MAX_PAGE
"""Waiting jobs of a queue that are counted one by one."""


def why_it_waits(source: Source, job: JobView, stats: Statistics) -> Iterator[str]:
    """Tell what a waiting job waits for, and what becomes of a running one's cancellation."""
    if job.state == "running":
        if job.cancel_requested:
            yield _("Its cancellation was asked for; it ends when its worker stops it.")
            yield _("A sync task that does not look at its context runs to its end.")
        return
    if job.state == "scheduled":
        yield _until(source, job)
    elif job.state == "ready":
        if source.why is not None or (stats.broker is None and not is_direct(source.alias)):
            yield _("It waits for a broker: none answers.")
        yield _behind(source, job, stats)
    else:
        return
    queue = stats.queues.get(job.queue)
    if queue is not None and queue.paused:
        yield _("Its queue “%(queue)s” is paused.") % {"queue": job.queue}
    elif job.state == "ready":
        yield from _workers(source, job, stats)
    if job.alone:
        yield _("Its last claim ended before it began, so it is granted alone, by itself.")


def _until(source: Source, job: JobView) -> str:
    run_after = job.run_after or source.now_ms
    said = {
        "time": moment(run_after),
        "age": age((run_after - source.now_ms) / 1000),
        "attempt": number(job.attempts),
    }
    if run_after <= source.now_ms:
        return _("It is due, and becomes ready with the next commit.")
    if job.history and job.history[-1].outcome == "failed":
        return _("Attempt %(attempt)s failed; the next is due in %(age)s, at %(time)s.") % said
    return _("It is scheduled: due in %(age)s, at %(time)s.") % said


def _behind(source: Source, job: JobView, stats: Statistics) -> str:
    """Say how many are granted before it, as far as that is cheap to count."""
    queue = stats.queues.get(job.queue)
    waiting = queue.ready if queue is not None else 0
    filters = ops.Filter(states=("ready",), queues=(job.queue,))
    listed = source.list(filters, None, MOST_AHEAD)
    ids = [each.id for each in listed.jobs]
    place = ids.index(job.id) if job.id in ids else len(ids)
    ahead = sum(
        each.priority > job.priority or (each.priority == job.priority and index < place)
        for index, each in enumerate(listed.jobs)
    )
    exact = listed.cursor is None and job.id in ids
    if exact and not ahead:
        return _("It is the next of its queue.")
    said = {"count": number(ahead), "waiting": number(waiting)}
    if exact:
        text = ngettext(
            "It waits behind %(count)s other job of its queue.",
            "It waits behind %(count)s other jobs of its queue.",
            ahead,
        )
    else:
        text = _("It waits behind at least %(count)s of the %(waiting)s jobs that wait.")
    return text % said


def _workers(source: Source, job: JobView, stats: Statistics) -> Iterator[str]:
    workers = known_workers(source, stats)
    found = takers(job.queue, workers, stats.heartbeat_timeout_s) if workers is not None else None
    if found is None:
        return
    if not found.heard and not found.silent:
        yield _("No worker takes from its queue “%(queue)s”.") % {"queue": job.queue}
    elif not found.heard:
        yield _("The workers of its queue “%(queue)s” are silent.") % {"queue": job.queue}
    elif found.are_busy:
        yield ngettext(
            "The one slot of the workers of its queue is busy.",
            "All %(count)s slots of the workers of its queue are busy.",
            found.slots,
        ) % {"count": number(found.slots)}
