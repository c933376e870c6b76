"""Which jobs an operator means: those that were ticked, or all that match a page's filter."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

from msgspec import structs

import objq
from objq.core import ops
from objq_dashboard.source.lookup import looked_up
from objq_dashboard.source.searching import visible

if TYPE_CHECKING:
    from objq_dashboard.actions.actions import JobAction

MOST: Final = 20_000
"""Jobs that one action is done to; the page says when there are more, and how to go on."""

LOOK_FOR_S: Final = 10.0
"""Seconds after which a search for all that match ends with what it has found."""

PAGE: Final = ops.MAX_PAGE
TIMEOUT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Found:
    """The jobs that are meant, by state. `misfits`: those that the action does not fit, by state.

    `cut`: there are more than these, or the search took too long.
    """

    chosen: Mapping[ops.JobState, Sequence[str]] = field(default_factory=dict)
    misfits: Mapping[str, int] = field(default_factory=dict)
    cut: bool = False

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(one for ids in self.chosen.values() for one in ids)

    @property
    def count(self) -> int:
        return sum(map(len, self.chosen.values()))

    @property
    def misfit_count(self) -> int:
        return sum(self.misfits.values())

    def exceeds(self, confirmed: Mapping[str, int]) -> bool:
        """Tell whether there are more of any state than the operator has agreed to."""
        return any(len(ids) > confirmed.get(state, 0) for state, ids in self.chosen.items())


def all_that_match(alias: str, action: JobAction, wanted: ops.Filter) -> Found:
    """Walk the list with its cursor, as the page does. Raises what `list` raises: ObjqError."""
    states = tuple(sorted(action.states.intersection(wanted.states or action.states)))
    if not states:
        return Found()
    wanted = structs.replace(wanted, states=states)
    client = objq.connect(alias)
    until = time.monotonic() + LOOK_FOR_S
    jobs: dict[str, ops.JobState] = {}  # one that moves meanwhile may come twice
    cursor: str | None = None
    while True:
        page = client.list(wanted, cursor=cursor, limit=PAGE, timeout_s=TIMEOUT_S)
        shown = visible(page.jobs, wanted.text, lambda ids: looked_up(client, ids, TIMEOUT_S))
        jobs.update((job.id, job.state) for job in shown)
        cursor = page.cursor
        if cursor is None or len(jobs) >= MOST or time.monotonic() > until:
            break
    chosen: dict[ops.JobState, list[str]] = defaultdict(list)
    for job_id, state in islice(jobs.items(), MOST):
        chosen[state].append(job_id)
    return Found(chosen=chosen, cut=cursor is not None or len(jobs) > MOST)


def as_they_are(alias: str, action: JobAction, ids: Iterable[str]) -> Found:
    """Look up the states of jobs that were chosen on a page of mixed states.

    Those that are gone are left out. Raises what `get` raises: ObjqError.
    """
    client = objq.connect(alias)
    chosen: dict[ops.JobState, list[str]] = defaultdict(list)
    misfits: Counter[str] = Counter()
    wanted: Sequence[str] = list(dict.fromkeys(ids))[:MOST]
    for start in range(0, len(wanted), ops.MAX_LOOKED_UP):
        part = wanted[start : start + ops.MAX_LOOKED_UP]
        for job in looked_up(client, part, TIMEOUT_S):
            if job is None:
                misfits["missing"] += 1
            elif action.fits(job.state):
                chosen[job.state].append(job.id)
            else:
                misfits[job.state] += 1
    return Found(chosen=chosen, misfits=misfits)
