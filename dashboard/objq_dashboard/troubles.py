"""What is wrong with a queue although its broker answers, from the figures that it gives.

Queues with the same trouble are told of together: there may be a hundred of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from objq.commandline import command
from objq.overview import Takers, is_silent, takers, untaken
from objq_dashboard.page import Health
from objq_dashboard.source.mode import is_direct
from objq_dashboard.wording import age, number

if TYPE_CHECKING:
    from objq.core.ops import AllWorkers, HistoryPoint, QueueStats, Statistics
    from objq_dashboard.source.source import Source

TAKEN_WITHIN_MS: Final = 5_000
"""A ready job is taken within two commits where a worker has room; this is long after that."""

LONG_MS: Final = 60_000
"""So long jobs may wait for busy workers before that is worth a warning, here and in a table."""

MINUTE: Final = 6
"""Points of a broker's history."""

FEW_FAILURES: Final = 5
"""Fewer say nothing of how it goes."""

NAMED: Final = 3
"""Queues that a sentence names; the others are counted."""


def troubles(source: Source, stats: Statistics) -> list[Health]:
    """Return what is wrong, in the order in which one explains the other."""
    workers = source.workers()
    points = source.remembered.points[-MINUTE:] if source.remembered is not None else ()
    return [*_unmoved(source, stats, workers), *_stale(stats), *_lately(points)]


def _unmoved(source: Source, stats: Statistics, workers: AllWorkers | None) -> Iterator[Health]:
    """Tell of queues in which jobs wait that nobody takes, and of paused ones."""
    if stats.broker is None and not is_direct(source.alias):
        yield Health(
            level="bad",
            sentence=_("No broker leads."),
            advice=_("Jobs are pushed directly and wait until one does. Start one:"),
            command=command(source.alias, "runbroker"),
        )
        return
    paused = {name: queue for name, queue in sorted(stats.queues.items()) if queue.paused}
    if paused:
        yield _paused(paused)
    if stats.broker is not None and workers is not None:
        yield from _not_taken(source, stats, workers)


def _paused(queues: Mapping[str, QueueStats]) -> Health:
    said = {"queues": named(list(queues))}
    ready = sum(queue.ready for queue in queues.values())
    sentence = ngettext("Queue %(queues)s is paused.", "Queues %(queues)s are paused.", len(queues))
    if not ready:
        return Health(level="warn", sentence=sentence % said)
    waits = ngettext("%(count)s job waits there.", "%(count)s jobs wait there.", ready)
    advice = ngettext(
        "The jobs of %(queues)s are given out once it goes on.",
        "The jobs of %(queues)s are given out once they go on.",
        len(queues),
    )
    return Health(
        level="warn",
        sentence=f"{sentence % said} {waits % {'count': number(ready)}}",
        advice=advice % said,
    )


def _not_taken(source: Source, stats: Statistics, workers: AllWorkers) -> Iterator[Health]:
    """Tell of queues whose jobs no worker takes, or whose workers cannot take any."""
    waits_ms = {
        name: source.now_ms - queue.oldest_ready_at
        for name, queue in sorted(stats.queues.items())
        if queue.ready and queue.oldest_ready_at is not None and not queue.paused
    }
    late = [name for name, waited_ms in waits_ms.items() if waited_ms > TAKEN_WITHIN_MS]
    nobody = [name for name in untaken(stats, workers) if name in late]
    if nobody:
        yield _nobody_takes(source.alias, nobody, stats)
    known = {name: takers(name, workers, stats.heartbeat_timeout_s) for name in stats.queues}
    silent = {
        name: found
        for name, found in sorted(known.items())
        if found and found.silent and not found.heard and not stats.queues[name].paused
    }
    if silent:
        yield _all_are_silent(silent, stats)
    at_work = {name: found for name in late if (found := known[name]) and found.heard}
    busy = {
        name: found
        for name, found in at_work.items()
        if found.are_busy and waits_ms[name] >= LONG_MS
    }
    if busy:
        yield _all_are_busy(busy, max(waits_ms[name] for name in busy))
    idle = [name for name, found in at_work.items() if not found.are_busy]
    if idle:
        yield _none_hurries(idle, max(waits_ms[name] for name in idle))


def _nobody_takes(alias: str, names: Sequence[str], stats: Statistics) -> Health:
    ready = sum(stats.queues[name].ready for name in names)
    said = {"queues": named(names), "count": number(ready)}
    sentence = ngettext(
        "%(count)s job waits in %(queues)s, and no worker takes from it.",
        "%(count)s jobs wait in %(queues)s, and no worker takes from it.",
        ready,
    )
    advice = _("Start a worker for %(queues)s:")
    if len(names) > 1:
        sentence = _("%(count)s jobs wait in %(queues)s, and no worker takes from any of these.")
        advice = _("Start a worker for these queues:")
    options = [each for name in names for each in ("--queue", name)]
    return Health(
        level="bad",
        sentence=sentence % said,
        advice=advice % said,
        command=command(alias, "objq_worker", *options),
    )


def _all_are_silent(queues: Mapping[str, Takers], stats: Statistics) -> Health:
    silent = {each.name: each for found in queues.values() for each in found.silent}
    heard_ago_s = min(each.heard_ago_s or 0.0 for each in silent.values())
    sentence = ngettext(
        "The worker of %(queues)s has been silent for %(age)s.",
        "The workers of %(queues)s have been silent for %(age)s or longer.",
        len(silent),
    )
    advice = ngettext(
        "See whether it runs and reaches the broker. What it holds goes to other workers when "
        "nothing was heard of it for %(timeout)s.",
        "See whether they run and reach the broker. What they hold goes to other workers when "
        "nothing was heard of them for %(timeout)s.",
        len(silent),
    )
    return Health(
        level="bad" if any(stats.queues[name].ready for name in queues) else "warn",
        sentence=sentence % {"queues": named(list(queues)), "age": age(heard_ago_s)},
        advice=advice % {"timeout": age(stats.heartbeat_timeout_s)},
    )


def _all_are_busy(queues: Mapping[str, Takers], waits_ms: int) -> Health:
    slots = {each.name: each.slots for found in queues.values() for each in found.heard}
    count = sum(slots.values())
    said = {"queues": named(list(queues)), "age": age(waits_ms / 1000), "slots": number(count)}
    sentence = ngettext(
        "The oldest job in %(queues)s waits for %(age)s: the one slot for it is busy.",
        "The oldest job in %(queues)s waits for %(age)s: all %(slots)s slots are busy.",
        count,
    )
    advice = _("More workers for %(queues)s would help, or larger ones.")
    return Health(level="warn", sentence=sentence % said, advice=advice % said)


def _none_hurries(queues: Sequence[str], waits_ms: int) -> Health:
    said = {"queues": named(queues), "age": age(waits_ms / 1000)}
    sentence = _("Jobs in %(queues)s wait for up to %(age)s although workers have room.")
    advice = _("Look at the log of a worker that takes from %(queues)s.")
    return Health(level="warn", sentence=sentence % said, advice=advice % said)


def named(queues: Sequence[str]) -> str:
    """Return the names of queues: of many the first few, and how many more there are."""
    parts = [_("“%(queue)s”") % {"queue": name} for name in queues[:NAMED]]
    left = len(queues) - NAMED
    if left > 0:
        parts.append(ngettext("%(count)s more", "%(count)s more", left) % {"count": number(left)})
    if len(parts) == 1:
        return parts[0]
    return _("%(first)s and %(last)s") % {"first": ", ".join(parts[:-1]), "last": parts[-1]}


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
    stale = sum(is_silent(job.heard_ago_s, timeout_s) for job in stats.running)
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
