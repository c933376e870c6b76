"""Small histories, in plain terms: what the checker and the exhaustive search both judge.

Nothing in here knows a promise. `tests.sim.author` writes good ones, `tests.sim.spoil` spoils them,
and `tests.sim.asworld` gives them to the checker in the form of a world.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

T_S: Final = 6.0
"""The heartbeat timeout."""

ARGS: Final = "[1]"


class Job(NamedTuple):
    """A job as it is pushed. `due`: when it may run at the earliest, in the history's time."""

    id: str
    priority: int = 0
    due: float | None = None
    max_attempts: int = 2


class End(NamedTuple):
    token: str
    worker: str
    outcome: str
    started: bool


class Entry(NamedTuple):
    """A job as it stands in one version."""

    id: str
    state: str = "ready"
    attempts: int = 0
    token: str | None = None
    worker: str = ""
    started: bool = False
    history: tuple[End, ...] = ()
    args: str = ARGS


class Made(NamedTuple):
    """One version of the document."""

    at: float
    sent: float
    by: str
    seq: int
    epoch: int
    broker: str
    commit: str
    jobs: tuple[Entry, ...]


class Call(NamedTuple):
    """A push of a job or a report on a token (`what`), and what was told of it."""

    kind: str
    what: str
    by: str
    began: float
    ended: float | None
    told: str
    seq: int | None = None
    """That of the position which came with the answer."""


class Run(NamedTuple):
    job: str
    token: str
    by: str
    began: float
    ended: float | None
    args: str = ARGS


class Heard(NamedTuple):
    """A broker's process heard a frame that names the token."""

    by: str
    token: str
    at: float


class Read(NamedTuple):
    by: str
    at: float
    version: tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Small:
    jobs: tuple[Job, ...] = ()
    versions: tuple[Made, ...] = ()
    calls: tuple[Call, ...] = ()
    runs: tuple[Run, ...] = ()
    heard: tuple[Heard, ...] = ()
    reads: tuple[Read, ...] = ()
    died: tuple[tuple[str, float], ...] = ()
    draining: tuple[str, ...] = ()


ENDED: Final = ("succeeded", "dead", "cancelled")


def changed(small: Small, index: int, **changes: Any) -> Small:
    """Return the history with another version in that place."""
    versions = list(small.versions)
    versions[index] = versions[index]._replace(**changes)
    return replace(small, versions=tuple(versions))
