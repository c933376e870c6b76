"""The totals must add up (design §5): for every queue, what came is what is there and what went.

    pushed + retried = waiting + running + succeeded + dead + cancelled + deleted while waiting

The counters only ever rise, so records that retention drops, or that an operator deletes after
their end, stay in them.
"""

from __future__ import annotations

from typing import NamedTuple

from objq.core.document import Document, Totals


class Mismatch(NamedTuple):
    """A queue whose totals do not add up: `came` jobs, of which `accounted` are accounted for."""

    queue: str
    came: int
    accounted: int


def mismatches(document: Document) -> tuple[Mismatch, ...]:
    """Return the queues whose totals do not add up; any at all is a bug, or somebody's edit."""
    names = document.totals.keys() | document.counts.keys()
    checked = (_check(document, name) for name in sorted(names))
    return tuple(each for each in checked if each.came != each.accounted)


def _check(document: Document, queue: str) -> Mismatch:
    totals = document.totals.get(queue, Totals())
    counts = document.counts.get(queue, {})
    here = sum(counts.get(state, 0) for state in ("ready", "scheduled", "running"))
    gone = totals.succeeded + totals.dead + totals.cancelled + totals.deleted
    return Mismatch(queue, totals.pushed + totals.retried, here + gone)
