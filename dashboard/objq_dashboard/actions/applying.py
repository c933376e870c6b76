"""Sends an operator's requests, and says for each job what has become of it.

A request is sent in parts, one after another. If a part as a whole fails, or time is up, the parts
after it are not sent: whoever waits at the page has to decide.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import objq
from objq.core import ops
from objq.errors import Conflict, NotFound, ObjqError, Rejected, Unknown
from objq_dashboard.source.lookup import looked_up
from objq_dashboard.source.source import refresh

if TYPE_CHECKING:
    from objq.client.sync import SyncClient
    from objq_dashboard.actions.actions import JobAction, QueueAction

AT_ONCE: Final = min(2_000, ops.MAX_ITEMS)
"""Jobs in one request: few enough that a broker does not keep others waiting for it."""

LOOK_TIMEOUT_S: Final = 2.0

ACT_FOR_S: Final = 20.0
"""Seconds from the form's arrival after which no further part is sent. Servers give a request half
a minute, and the last part and the report take some of that."""

Became = Literal["done", "asked", "conflict", "missing", "refused", "unknown", "untried"]
"""`asked`: its worker was asked to stop. `conflict`: it was in another state, and left alone.
`missing`: there is no such job. `untried`: the request was not sent, so nothing has changed; `why`
is what was met, and empty if time was up."""


class Fate(NamedTuple):
    """What became of some of the jobs (or queues). `state`: of a conflict, if known."""

    became: Became
    state: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """What became of each job (or queue), grouped, in the order in which they were named."""

    groups: Mapping[Fate, Sequence[str]]

    def count(self, *became: Became) -> int:
        return sum(len(ids) for fate, ids in self.groups.items() if fate.became in became)


Chosen = Mapping[ops.JobState, Sequence[str]]
"""Ids of jobs, by the state that the operator saw them in."""

Part = tuple[Sequence[str], Callable[[], Iterable[Fate]]]
"""Ids (or names), and what sends them in one request and tells the fate of each."""


def on_jobs(alias: str, action: JobAction, chosen: Chosen, until: float) -> Report:
    """Do it to the jobs that still are in the state that was seen. `until`: monotonic seconds."""
    client = objq.connect(alias)
    whys: dict[str, str] = {}

    def call(part: Sequence[str], state: ops.JobState) -> Iterator[Fate]:
        for outcome in action.run(client, part, state).items:
            yield _of_one(action, outcome, whys)

    groups = _send(
        (
            (part, partial(call, part, state))
            for state, ids in chosen.items()
            for part in _parts(dict.fromkeys(ids))
        ),
        until,
    )
    refresh(alias)
    return Report(_with_states(client, groups))


def on_queues(alias: str, action: QueueAction, names: Iterable[str], until: float) -> Report:
    """Do it to each of the queues. `until`: as for jobs."""
    client = objq.connect(alias)

    def call(name: str) -> Iterator[Fate]:
        action.run(client, name)
        yield Fate("done")

    groups = _send((((name,), partial(call, name)) for name in dict.fromkeys(names)), until)
    refresh(alias)
    return Report(groups)


def _send(parts: Iterable[Part], until: float) -> dict[Fate, list[str]]:
    """Send part after part, as long as none fails as a whole and there is time."""
    groups: dict[Fate, list[str]] = defaultdict(list)
    stopped: Fate | None = None
    for ids, call in parts:
        if stopped is None and time.monotonic() >= until:
            stopped = Fate("untried")
        if stopped is not None:
            groups[stopped].extend(ids)
            continue
        try:
            fates = tuple(call())
        except ObjqError as error:
            fate = _of_all(error)
            groups[fate].extend(ids)
            # Whoever is refused would be refused the rest as well.
            stopped = fate if fate.became == "refused" else Fate("untried", why=error.message)
            continue
        for one, fate in zip(ids, fates, strict=True):
            groups[fate].append(one)
    return groups


def _parts(ids: Iterable[str]) -> Iterator[Sequence[str]]:
    rest = iter(ids)
    while part := tuple(islice(rest, AT_ONCE)):
        yield part


def _of_all(error: ObjqError) -> Fate:
    """Return what an error means for everything that the request named (S12)."""
    if isinstance(error, Unknown):
        return Fate("unknown", why=error.message)
    if isinstance(error, Rejected):
        return Fate("refused", why=error.message)
    return Fate("untried", why=error.message)


def _of_one(action: JobAction, outcome: ops.ItemOutcome, whys: dict[str, str]) -> Fate:
    """Return what became of one job. `whys`: the first reason that was heard, by its code; those
    of other jobs differ only in the job that they name."""
    problem = outcome.error
    if problem is None:
        # A repeat is told what is there by now: what was asked to stop may have ended.
        ended = action.name != "cancel" or outcome.state in (None, "cancelled")
        return Fate("done" if ended else "asked")
    if problem.code == Conflict.code:
        return Fate("conflict")
    if problem.code == NotFound.code:
        return Fate("missing")
    why = whys.setdefault(problem.code, problem.message)
    return Fate("unknown" if problem.code == Unknown.code else "refused", why=why)


def _with_states(client: SyncClient, groups: dict[Fate, list[str]]) -> dict[Fate, list[str]]:
    """Tell those that were left alone apart by the state that they are in now, if it is known."""
    vague = Fate("conflict")
    ids = groups.pop(vague, [])
    if not ids:
        return groups
    try:
        found = looked_up(client, ids[: ops.MAX_LOOKED_UP], LOOK_TIMEOUT_S)
    except ObjqError:
        found = ()
    for job_id, job in zip(ids, found, strict=False):
        groups[Fate("conflict", state=job.state) if job else Fate("missing")].append(job_id)
    if len(found) < len(ids):
        groups[vague].extend(ids[len(found) :])
    return groups
