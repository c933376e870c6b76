"""The plain sentence on health: does the queue move and, if not, why and what to do.

`judge` asks the questions in the order in which they explain each other: whether there is a broker,
whether jobs wait that nobody takes, whether those who hold jobs are silent, how the last minute was
where that is known. The first that is answered badly is the sentence; what else is wrong follows as
advice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from objq import conf
from objq.commandline import command
from objq.errors import ConfigurationError, DocumentError, NoDocument, Overloaded, Rejected
from objq.overview import takers
from objq_dashboard.page import Health
from objq_dashboard.wording import age, moment, number

if TYPE_CHECKING:
    from objq.core.ops import AllWorkers, HistoryPoint, QueueStats, Statistics
    from objq.errors import ObjqError
    from objq_dashboard.source.source import Source

TAKEN_WITHIN_MS: Final = 5_000
"""A ready job is taken within two commits where a worker has room; this is long after that."""

LONG_MS: Final = 60_000
"""So long jobs may wait for busy workers before that is worth a warning, here and in a table."""

MINUTE: Final = 6
"""Points of a broker's history."""

FEW_FAILURES: Final = 5
"""Fewer say nothing of how it goes."""


def judge(source: Source, stats: Statistics) -> Health:
    """Return the sentence for a queue whose figures are known."""
    if source.why is not None:
        return _no_broker(source, source.why, stats)
    points = source.remembered.points[-MINUTE:] if source.remembered is not None else ()
    troubles = [*_unmoved(source, stats, source.workers()), *_stale(stats), *_lately(points)]
    leads = _leads(source, stats)
    if not troubles:
        return Health(level="good", sentence=leads)
    worst = next((each for each in troubles if each.level == "bad"), troubles[0])
    others = [each.sentence for each in troubles if each is not worst]
    advice = " ".join(filter(None, [*others, leads, worst.advice]))
    return Health(level=worst.level, sentence=worst.sentence, advice=advice, command=worst.command)


def unreadable(alias: str, error: ObjqError) -> Health:
    """Return why nothing is known of a queue."""
    if isinstance(error, NoDocument) and is_direct(alias):
        return Health(
            level="warn",
            sentence=_("There is no queue yet."),
            advice=_("The first push creates it: enqueue a task."),
        )
    if isinstance(error, NoDocument):
        return Health(
            level="bad",
            sentence=_("There is no queue yet."),
            advice=_("The first broker creates it. Start one:"),
            command=command(alias, "runbroker"),
        )
    if isinstance(error, DocumentError):
        return Health(level="bad", sentence=_("The queue is not in order."), advice=error.message)
    if isinstance(error, ConfigurationError):
        return Health(level="bad", sentence=_("The settings cannot work."), advice=error.message)
    if isinstance(error, Overloaded):
        sentence = _("The broker has more to do than it can answer.")
        return Health(level="warn", sentence=sentence, advice=error.message)
    if isinstance(error, Rejected):
        sentence = _("The broker refuses to tell.")
        return Health(level="bad", sentence=sentence, advice=error.message)
    return Health(
        level="bad",
        sentence=_("No broker answers."),
        advice=_("%(error)s If none is running, start one:") % {"error": error.message},
        command=command(alias, "runbroker"),
    )


def is_direct(alias: str) -> bool:
    """Return whether each process of this backend writes by itself, and a broker is no need."""
    try:
        return conf.options_for(alias).mode == "direct"
    except ConfigurationError:
        return False


def is_stale(heard_ago_s: float | None, timeout_s: float) -> bool:
    """Heartbeats go every sixth of the timeout; after half of it three are missing."""
    return heard_ago_s is not None and heard_ago_s > timeout_s / 2


def address(url: str) -> str:
    try:
        return urlsplit(url).netloc or url
    except ValueError:  # of a standby, which anybody may claim to be
        return url


def _no_broker(source: Source, why: ObjqError, stats: Statistics) -> Health:
    if source.reading is not None and source.reading.is_newer:
        return Health(
            level="bad",
            sentence=_("The queue was written by a newer objq."),
            advice=_(
                "This one reads what it knows of it, and neither leads nor pushes: upgrade it."
            ),
        )
    pushed = source.pushed_since_silent(stats)
    sentence = _("No broker leads.") if stats.broker is None else _("No broker answers.")
    if pushed and stats.broker is None:
        sentence = ngettext(
            "No broker leads; %(count)s push was written directly.",
            "No broker leads; %(count)s pushes were written directly.",
            pushed,
        ) % {"count": number(pushed)}
    elif pushed:
        sentence = ngettext(
            "No broker answers; %(count)s push was written directly.",
            "No broker answers; %(count)s pushes were written directly.",
            pushed,
        ) % {"count": number(pushed)}
    advice = _("%(error)s Jobs wait until one does. If none is running, start one:")
    return Health(
        level="bad",
        sentence=sentence,
        advice=advice % {"error": why.message},
        command=command(source.alias, "runbroker"),
    )


def _leads(source: Source, stats: Statistics) -> str:
    ago = age((source.now_ms - stats.at) / 1000)
    if stats.broker is None:
        return _("No broker leads; every process writes by itself, last %(age)s ago.") % {
            "age": ago
        }
    return _("Broker %(address)s leads since %(since)s, last commit %(age)s ago.") % {
        "address": address(stats.broker.url),
        "since": moment(stats.broker.since),
        "age": ago,
    }


def _unmoved(source: Source, stats: Statistics, workers: AllWorkers | None) -> Iterator[Health]:
    """Tell of queues in which jobs wait that nobody takes, and of paused ones."""
    if stats.broker is None and conf.options_for(source.alias).mode == "broker":
        yield Health(
            level="bad",
            sentence=_("No broker leads."),
            advice=_("Jobs are pushed directly and wait until one does. Start one:"),
            command=command(source.alias, "runbroker"),
        )
        return
    for name, queue in sorted(stats.queues.items()):
        waits_ms = source.now_ms - (queue.oldest_ready_at or source.now_ms)
        if queue.paused:
            yield _paused(name, queue)
        elif queue.ready and waits_ms > TAKEN_WITHIN_MS and stats.broker is not None:
            trouble = _why_untaken(source.alias, name, queue, waits_ms, workers)
            if trouble is not None:
                yield trouble


def _paused(name: str, queue: QueueStats) -> Health:
    if not queue.ready:
        return Health(level="warn", sentence=_("Queue “%(queue)s” is paused.") % {"queue": name})
    sentence = ngettext(
        "Queue “%(queue)s” is paused, and %(count)s job waits in it.",
        "Queue “%(queue)s” is paused, and %(count)s jobs wait in it.",
        queue.ready,
    ) % {"queue": name, "count": number(queue.ready)}
    return Health(level="warn", sentence=sentence, advice=_("They are given out once it goes on."))


def _why_untaken(
    alias: str, name: str, queue: QueueStats, waits_ms: int, workers: AllWorkers | None
) -> Health | None:
    known = None if workers is None else takers(name, workers)
    if known is None:
        return None
    if not known:
        sentence = ngettext(
            "%(count)s job waits in “%(queue)s”, and no worker takes from it.",
            "%(count)s jobs wait in “%(queue)s”, and no worker takes from it.",
            queue.ready,
        ) % {"queue": name, "count": number(queue.ready)}
        run = command(alias, "objq_worker", "--queue", name)
        return Health(
            level="bad", sentence=sentence, advice=_("Start a worker for it:"), command=run
        )
    slots = sum(worker.slots for worker in known)
    held = sum(worker.holds for worker in known)
    if held >= slots and waits_ms < LONG_MS:
        return None
    said = {"queue": name, "age": age(waits_ms / 1000), "slots": number(slots)}
    if held >= slots:
        sentence = _(
            "The oldest job in “%(queue)s” waits for %(age)s: all %(slots)s slots are busy."
        )
        advice = _("More workers would help, or larger ones.")
    else:
        sentence = _("Jobs in “%(queue)s” wait for up to %(age)s although workers have room.")
        advice = _("Look at the log of a worker.")
    return Health(level="warn", sentence=sentence % said, advice=advice)


def _lately(points: Sequence[HistoryPoint]) -> Iterator[Health]:
    """Tell of attempts that fail and of a store that asks for patience, in the last minute."""
    failed, finished = (sum(getattr(p, name) for p in points) for name in ("failed", "finished"))
    if failed >= FEW_FAILURES and failed > finished:
        sentence = _("More attempts fail than succeed: %(failed)s of %(all)s in the last minute.")
        yield Health(
            level="warn",
            sentence=sentence % {"failed": number(failed), "all": number(failed + finished)},
            advice=_(
                "What they fail with is on the page of dead jobs, and on the page of each job."
            ),
        )
    throttled = sum(point.throttled for point in points)
    if throttled:
        sentence = ngettext(
            "The store has asked to slow down %(count)s time in the last minute.",
            "The store has asked to slow down %(count)s times in the last minute.",
            throttled,
        )
        advice = _("Commits are made as fast as it permits; requests wait for the next one.")
        yield Health(level="warn", sentence=sentence % {"count": number(throttled)}, advice=advice)


def _stale(stats: Statistics) -> Iterator[Health]:
    timeout_s = stats.heartbeat_timeout_s
    stale = sum(is_stale(job.heard_ago_s, timeout_s) for job in stats.running)
    if not stale:
        return
    sentence = ngettext(
        "%(count)s job has a stale heartbeat.", "%(count)s jobs have stale heartbeats.", stale
    )
    if stale == len(stats.running) < sum(queue.running for queue in stats.queues.values()):
        # The statistics tell of so many, of those that were heard of longest ago.
        sentence = _("At least %(count)s jobs have stale heartbeats.")
    sentence %= {"count": number(stale)}
    advice = _("A job goes to the next worker when nothing was heard for %(timeout)s.")
    yield Health(level="warn", sentence=sentence, advice=advice % {"timeout": age(timeout_s)})
