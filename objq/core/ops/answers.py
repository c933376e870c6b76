"""The answers: what comes back, confirmed (promise S2)."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from objq.core.ops.fields import (
    MAX_NAME,
    JobState,
    Position,
)
from objq.core.ops.records import (
    BrokerInfo,
    Grant,
    ItemOutcome,
    JobView,
)
from objq.core.ops.settings import (
    DocumentSettings,
)


class Answer(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Base of all answers.

    `position` is that of the commit which holds the effect; of a get and an empty claim, that of
    the version in which was looked.
    """

    position: Position | None = None


class Welcome(Answer, frozen=True, kw_only=True):
    """The answer to `hello`. `seq` may be used to draw a request-id prefix (S7)."""

    document: str
    broker: str
    epoch: int
    seq: int
    role: str
    version: str
    settings: DocumentSettings
    limits: dict[str, int] = {}


class Outcomes(Answer, frozen=True, kw_only=True):
    """One outcome for each item of the request, in its order."""

    items: tuple[ItemOutcome, ...]


class Granted(Answer, frozen=True, kw_only=True):
    jobs: tuple[Grant, ...] = ()


class Beaten(Answer, frozen=True, kw_only=True):
    """`lost`: tokens that are no longer live; `cancel`: those whose job should stop."""

    lost: tuple[str, ...] = ()
    cancel: tuple[str, ...] = ()


class Jobs(Answer, frozen=True, kw_only=True):
    """One entry for each id asked for, in that order; null where there is no such job."""

    jobs: tuple[JobView | None, ...]


class QueueStats(Struct, frozen=True, kw_only=True):
    """Counts of one queue.

    `oldest_ready_at`: since when the job that is next has been ready; where jobs of several
    priorities wait, the longest of those that are next in theirs.
    """

    ready: int = 0
    scheduled: int = 0
    running: int = 0
    dead: int = 0
    finished: int = 0
    paused: bool = False
    oldest_ready_at: int | None = None
    totals: dict[str, int] = {}


class Running(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A running job, for overviews. `heard_ago_s`: seconds since the broker heard its holder."""

    id: str
    queue: str
    task: str
    worker: str
    claimed_at: int
    attempt: int
    started: bool
    heard_ago_s: float | None = None


class Statistics(Answer, frozen=True, kw_only=True):
    """`heartbeat_timeout_s`: the document's, by which a holder that is not heard of is judged."""

    document: str
    seq: int
    epoch: int
    at: int
    broker: BrokerInfo | None
    size_bytes: int
    heartbeat_timeout_s: float
    queues: dict[str, QueueStats]
    running: tuple[Running, ...] = ()
    """The running jobs whose holders were heard of longest ago first, at most 100."""


class ErrorSummary(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The error of a job's last attempt; the message is shortened."""

    type: str
    message: str = ""


class JobSummary(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A job as a row of a list. `args` and `kwargs` are left out if they are long: see `get`.

    `heard_ago_s`: seconds since the broker heard the holder of a running job.
    """

    id: str
    queue: str
    task: str
    state: JobState
    pushed_at: int
    args: Raw | UnsetType = UNSET
    kwargs: Raw | UnsetType = UNSET
    priority: int = 0
    run_after: int | None = None
    ready_since: int | None = None
    attempts: int = 0
    max_attempts: int = 3
    cancel_requested: bool = False
    worker: str | None = None
    claimed_at: int | None = None
    started_at: int | None = None
    heard_ago_s: float | None = None
    finished_at: int | None = None
    reason: str | None = None
    error: ErrorSummary | None = None


class Listed(Answer, frozen=True, kw_only=True):
    """A page. `cursor`: where to go on; None at the end. `scanned`: how many jobs were looked at.

    `partial`: the bound of one request was met before the page was full. `total`: how many jobs
    there are altogether, where the filter names states and queues only.
    """

    jobs: tuple[JobSummary, ...]
    cursor: str | None = None
    scanned: int = 0
    partial: bool = False
    total: int | None = None


class WorkerView(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A worker. What only its `hello` tells is empty for one that is not connected.

    `heard_ago_s`: seconds since its last frame or heartbeat. `holds`: its claims, of which those
    heard of longest ago are in `running`, at most 20.
    """

    name: str
    connected: bool
    client: str = ""
    version: str = ""
    host: str = ""
    queues: tuple[str, ...] = ()
    slots: int = 0
    connected_at: int | None = None
    heard_ago_s: float | None = None
    holds: int = 0
    running: tuple[Running, ...] = ()


class AllWorkers(Answer, frozen=True, kw_only=True):
    """The workers by name, at most 500 of the `total`."""

    workers: tuple[WorkerView, ...]
    total: int


class HistoryPoint(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What happened in the `seconds` before `at`; times are None where there was nothing to time.

    `ready`, `scheduled`, `running` and `dead` count jobs at the end. `commit_…`: how long writes
    took. `wait_…`: from when a job was ready for the first time to its claim. `batch`: requests per
    commit. `size_bytes`: of the object as it was last written.
    """

    at: int
    seconds: float
    pushed: int = 0
    finished: int = 0
    failed: int = 0
    ready: int = 0
    scheduled: int = 0
    running: int = 0
    dead: int = 0
    commits: int = 0
    conflicts: int = 0
    throttled: int = 0
    batch: float = 0.0
    size_bytes: int = 0
    commit_p50_s: float | None = None
    commit_p99_s: float | None = None
    wait_p50_s: float | None = None
    wait_p99_s: float | None = None


class Process(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Where a broker runs, and since when; to be known again by people."""

    host: str
    pid: int
    started_at: int


class StandbyView(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A standby, as it says of itself. `asked_ago_s`: seconds since it asked the leader last."""

    id: Annotated[str, Meta(max_length=MAX_NAME)]
    url: Annotated[str, Meta(max_length=1024)] = ""
    version: Annotated[str, Meta(max_length=MAX_NAME)] = ""
    host: Annotated[str, Meta(max_length=255)] = ""
    pid: int = 0
    asked_ago_s: float = 0.0


class Leadership(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Who led from `broker.since` on. `why`: why it took over, if it is the one who tells."""

    epoch: int
    broker: BrokerInfo
    why: str = ""


class RecentHistory(Answer, frozen=True, kw_only=True):
    """Points, oldest first, about `every_s` seconds apart, for an hour at most.

    `process`, `standbys` and `leaderships` (newest first, at most 50) are what the leader's process
    knows of itself and has seen of others since it was started.
    """

    every_s: float
    points: tuple[HistoryPoint, ...]
    process: Process | None = None
    standbys: tuple[StandbyView, ...] = ()
    leaderships: tuple[Leadership, ...] = ()


class Delta(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What commits have changed: from version `after`, exclusive, to version `seq`.

    If `after` is more than the seq that you have, you missed something: ask for a snapshot. If
    `seq` is not more, you know it already. `jobs` are as they are now, and `removed` names those
    that left the document; of more than 100 changed jobs the rest is only counted, in `left_out`.
    `queues` holds those whose counts have changed.
    """

    after: int
    seq: int
    epoch: int
    at: int
    jobs: tuple[JobSummary, ...] = ()
    removed: tuple[str, ...] = ()
    left_out: int = 0
    queues: dict[str, QueueStats] = {}
    broker: BrokerInfo | None = None
    size_bytes: int = 0
