"""Operations and their answers: one vocabulary for core, wire, client and broker.

Each operation is a frozen struct whose tag is its name on the wire (design §7). The same object
goes from the client over the wire to the core; nothing is translated on the way. `args`, `kwargs`
and `result` stay the JSON text that was pushed (`msgspec.Raw`, promise S9).

Times are integer milliseconds since the epoch, UTC, unless the name ends in `_s` (seconds).
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

Position = tuple[int, int, int]
"""(epoch, seq, index in the batch) of the commit that holds an effect."""

JobState = Literal["scheduled", "ready", "running", "succeeded", "dead", "cancelled"]

MAX_JOB_ID: Final = 63
MAX_NAME: Final = 64
"""Characters of a name (of a queue, a worker, a client), of a token and of a claim's id."""

MAX_TASK: Final = 256
"""Characters of a task's dotted path."""

MAX_ATTEMPTS: Final = 100
MAX_ITEMS: Final = 10_000
"""Of jobs, tokens or ids in one request."""

MAX_GRANTS: Final = 1000
"""Jobs that one claim may ask for."""

MAX_LOOKED_UP: Final = 1000
"""Jobs that one `get` may ask for."""

MAX_QUEUES: Final = 100
"""Queues that one claim, one filter or one worker may name."""

MAX_RETRY_AFTER_S: Final = 31_536_000.0
"""A year: the longest pause before the next attempt of a job."""

MAX_RECORD_BYTES: Final = 900_000
"""The most that one job or result may be allowed: a frame of the wire, less what is around it."""

REQUEST_PATTERN: Final = r"^([0-9]{1,19}-[A-Za-z0-9_-]{1,40}):([0-9]{1,12})\Z"
"""`<seq>-<random>:<number>`, of which what is before the colon is the prefix (S7)."""

_PRINTABLE: Final = r"^[^\x00-\x1f\x7f]*\Z"

JobId = Annotated[str, Meta(min_length=1, max_length=MAX_JOB_ID)]
Token = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
ClaimId = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
RequestId = Annotated[str, Meta(max_length=80, pattern=REQUEST_PATTERN)]
QueueName = Annotated[str, Meta(min_length=1, max_length=MAX_NAME, pattern=_PRINTABLE)]
WorkerName = Annotated[str, Meta(max_length=MAX_NAME, pattern=_PRINTABLE)]
TaskPath = Annotated[str, Meta(min_length=1, max_length=MAX_TASK)]
Priority = Annotated[int, Meta(ge=-100, le=100)]
Millis = Annotated[int, Meta(ge=0, le=253402300799999)]  # to the end of the year 9999

EMPTY_LIST = Raw(b"[]")
EMPTY_DICT = Raw(b"{}")


class Op(Struct, frozen=True, tag_field="op", omit_defaults=True, kw_only=True):
    """Base of all operations."""


# --- what is inside operations and answers ------------------------------------------------------


class NewJob(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A job as it is pushed. The id is the client's own (a time-ordered UUID)."""

    id: JobId
    task: TaskPath
    queue: QueueName = "default"
    args: Raw = EMPTY_LIST
    kwargs: Raw = EMPTY_DICT
    priority: Priority = 0
    run_after: Millis | None = None
    max_attempts: Annotated[int, Meta(ge=1, le=MAX_ATTEMPTS)] = 3


class JobError(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Why an attempt did not work. `type` is a dotted path of an exception class."""

    type: str
    message: str = ""
    traceback: str = ""


class Attempt(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One ended claim of a job. `started_at` is None if the worker had not begun."""

    token: str
    claim: str
    worker: str
    claimed_at: int
    ended_at: int
    outcome: Literal["succeeded", "failed", "expired", "released"]
    started_at: int | None = None
    error: JobError | None = None


class Claim(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A live claim, as it stands in the document. Without `epoch` it was granted directly.

    `alone`: the claim before it expired unstarted, so this one was granted alone, as started (S10).
    """

    token: str
    id: str
    worker: str
    claimed_at: int
    heartbeat_at: int
    heartbeat_seq: int
    epoch: int | None = None
    started_at: int | None = None
    alone: bool = False


class JobView(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A job as `get` and `list` return it, and as it stands in the document.

    `history` is oldest first. `alone`: its last claim expired unstarted, so it is next granted
    alone and then counts as started (S10). `result` is left out where `result_dropped` says why.
    """

    id: str
    queue: str
    task: str
    args: Raw
    kwargs: Raw
    state: JobState
    pushed_at: int
    priority: int = 0
    run_after: int | None = None
    attempts: int = 0
    max_attempts: int = 3
    alone: bool = False
    cancel_requested: bool = False
    claim: Claim | None = None
    history: tuple[Attempt, ...] = ()
    result: Raw | UnsetType = UNSET
    result_dropped: str | None = None
    reason: str | None = None
    finished_at: int | None = None
    kept_from_ms: int | None = None

    @property
    def attempt(self) -> int:
        """The number of the attempt that a running job is in, or of the last one, from 1."""
        unstarted = self.claim is not None and self.claim.started_at is None
        return self.attempts + unstarted


class Grant(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A job given to a worker. `attempt` is the number of this attempt, from 1.

    `alone`: it may be what killed its last worker, so run nothing beside it (S10).
    """

    id: str
    token: str
    queue: str
    task: str
    args: Raw
    kwargs: Raw
    attempt: int
    max_attempts: int
    pushed_at: int
    claimed_at: int
    priority: int = 0
    history: tuple[Attempt, ...] = ()
    cancel_requested: bool = False
    alone: bool = False


class Problem(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An error as it stands on the wire. `final`: the refusal is committed (S12)."""

    code: str
    message: str
    retry_after: float | None = None
    final: bool = False
    url: str | None = None


class ItemOutcome(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The outcome of one item of a request: the state the job is in now, or an error."""

    id: str | None = None
    token: str | None = None
    state: JobState | None = None
    error: Problem | None = None


# --- operations ---------------------------------------------------------------------------------


class Hello(Op, frozen=True, tag="hello", kw_only=True):
    """First on every socket. `document`: what the client expects; another → `not_broker`.

    A worker gives its name, queues, slots and the host it runs on, which `workers` tells.
    """

    client: Annotated[str, Meta(max_length=MAX_NAME)]
    version: Annotated[str, Meta(max_length=MAX_NAME)] = ""
    document: str | None = None
    worker: WorkerName | None = None
    queues: tuple[QueueName, ...] = ()
    slots: int = 0
    host: Annotated[str, Meta(max_length=255)] = ""


class Push(Op, frozen=True, tag="push", kw_only=True):
    """Append jobs. `repeat`: sent before and not answered, so a refusal has to be committed."""

    request: RequestId
    jobs: Annotated[tuple[NewJob, ...], Meta(min_length=1, max_length=MAX_ITEMS)]
    repeat: bool = False


class TakeClaim(Op, frozen=True, tag="claim", kw_only=True):
    """Take the next jobs. `wait`: seconds to wait for one, at most a quarter of the timeout.

    A `claim` id in the form of a request id is remembered like one, so that a copy of the request
    that arrives when its jobs have long finished grants nothing.
    """

    claim: ClaimId
    queues: Annotated[tuple[QueueName, ...], Meta(min_length=1, max_length=MAX_QUEUES)] = (
        "default",
    )
    max: Annotated[int, Meta(ge=1, le=MAX_GRANTS)] = 1
    wait: Annotated[float, Meta(ge=0, le=3600)] = 0.0
    worker: WorkerName = ""


class Heartbeat(Op, frozen=True, tag="heartbeat", kw_only=True):
    """The holder of `tokens` lives; those in `started` have begun."""

    tokens: Annotated[tuple[Token, ...], Meta(max_length=MAX_ITEMS)]
    started: Annotated[tuple[Token, ...], Meta(max_length=MAX_ITEMS)] = ()


class Completion(Struct, frozen=True, omit_defaults=True, kw_only=True):
    token: Token
    result: Raw = Raw(b"null")


class Complete(Op, frozen=True, tag="complete", kw_only=True):
    items: Annotated[tuple[Completion, ...], Meta(min_length=1, max_length=MAX_ITEMS)]


class Failure(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """`retry_after`: seconds; left out: the default backoff; null: no further attempt."""

    token: Token
    error: JobError
    retry_after: Annotated[float, Meta(ge=0, le=MAX_RETRY_AFTER_S)] | None | UnsetType = UNSET


class Fail(Op, frozen=True, tag="fail", kw_only=True):
    items: Annotated[tuple[Failure, ...], Meta(min_length=1, max_length=MAX_ITEMS)]


class Release(Op, frozen=True, tag="release", kw_only=True):
    """Hand back without burning an attempt."""

    tokens: Annotated[tuple[Token, ...], Meta(min_length=1, max_length=MAX_ITEMS)]


class Get(Op, frozen=True, tag="get", kw_only=True):
    ids: Annotated[tuple[JobId, ...], Meta(min_length=1, max_length=MAX_LOOKED_UP)]


class JobsRequest(Op, frozen=True, kw_only=True):
    """Base of the operator's requests on jobs. `expected`: the state each must be in."""

    request: RequestId
    ids: Annotated[tuple[JobId, ...], Meta(min_length=1, max_length=MAX_ITEMS)]
    expected: JobState
    repeat: bool = False


class Cancel(JobsRequest, frozen=True, tag="cancel", kw_only=True):
    """End a waiting job as cancelled; ask a running one's worker to stop."""


class Retry(JobsRequest, frozen=True, tag="retry", kw_only=True):
    """Put a dead (or cancelled) job at the end of its queue, with no attempts counted."""


class Delete(JobsRequest, frozen=True, tag="delete", kw_only=True):
    """Remove a job that is not running."""


class RunNow(JobsRequest, frozen=True, tag="run_now", kw_only=True):
    """Make a scheduled job ready."""


class Pause(Op, frozen=True, tag="pause", kw_only=True):
    """Grant nothing more from a queue; pushes and running jobs go on."""

    request: RequestId
    queue: QueueName
    repeat: bool = False


class Resume(Op, frozen=True, tag="resume", kw_only=True):
    request: RequestId
    queue: QueueName
    repeat: bool = False


class Stats(Op, frozen=True, tag="stats", kw_only=True):
    """Counts per queue, who leads, and the running jobs that were heard of longest ago."""


class Filter(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Which jobs to list: those that meet everything that is given.

    `states` and `queues`: any of these; none given: all. `task`: its whole path. `text`: what the
    id begins with, or a part of the task's path or of the arguments' JSON text. `error`: a part of
    the last attempt's error, its type or message, or of the reason why the job is dead.
    """

    states: Annotated[tuple[JobState, ...], Meta(max_length=6)] = ()
    queues: Annotated[tuple[QueueName, ...], Meta(max_length=MAX_QUEUES)] = ()
    task: TaskPath | None = None
    text: Annotated[str, Meta(min_length=1, max_length=256)] | None = None
    error: Annotated[str, Meta(min_length=1, max_length=256)] | None = None


class Page(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """At most `limit` jobs, from the beginning or from the `cursor` of the answer before."""

    cursor: Annotated[str, Meta(max_length=256)] | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


class ListJobs(Op, frozen=True, tag="list", kw_only=True):
    """Jobs page by page: waiting and running ones in push order, then dead, then finished ones,
    each newest first.

    One request looks at a bounded number of jobs, so a page may hold fewer than asked for, or none,
    and there is still a cursor to go on with.
    """

    filter: Filter = Filter()
    page: Page = Page()


class Workers(Op, frozen=True, tag="workers", kw_only=True):
    """Who works: the workers that are connected, and those that hold claims."""


class History(Op, frozen=True, tag="history", kw_only=True):
    """The recent rates and times of the broker that leads, since it took over."""


class Watch(Op, frozen=True, tag="watch", kw_only=True):
    """A snapshot now (as `stats` answers), then a delta for what later commits change.

    Deltas come over the same socket and carry the request's id. A socket has one watch: asking
    again ends the earlier one, which is how to get a snapshot after a gap.
    """


# --- answers ------------------------------------------------------------------------------------


class Answer(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Base of all answers.

    `position` is that of the commit which holds the effect; of a get and an empty claim, that of the
    version in which was looked.
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
    """Counts of one queue. `oldest_ready_at` is the push time of the job that is next but old."""

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


class BrokerInfo(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The broker as it stands in the header. `since` is when it took over."""

    id: str
    url: str
    since: int
    version: str


class Challenge(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A standby's question to the leader; any commit of the leader removes it."""

    id: str
    by: str
    at: int


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


class RecentHistory(Answer, frozen=True, kw_only=True):
    """Points, oldest first, about `every_s` seconds apart, for an hour at most."""

    every_s: float
    points: tuple[HistoryPoint, ...]


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


class DocumentSettings(Struct, frozen=True, kw_only=True):
    """What everybody who writes the document keeps to (design §5, §8); the leader's.

    The properties are the parts of the heartbeat timeout T, and of `BROKER_TTL`, that the promises
    are made of; seconds.
    """

    heartbeat_timeout_s: float = 30.0
    broker_ttl_s: float = 10.0
    dedupe_window_s: float = 120.0
    result_ttl_s: float = 86_400.0
    max_finished: int = 10_000
    dead_ttl_s: float = 2_592_000.0
    max_dead: int = 10_000
    max_jobs: int = 1_000_000
    max_bytes: int = 67_108_864
    max_job_bytes: int = 262_144
    max_result_bytes: int = 65_536
    max_error_bytes: int = 16_384
    max_queues: int = 100
    max_clients: int = 10_000
    compress_above: int = 262_144

    @property
    def trust_s(self) -> float:
        """T/2. So long after it was *asked*, what was confirmed still holds: a broker's lead after
        the last access to the store, a worker's claim after the last claim or heartbeat (S2)."""
        return self.heartbeat_timeout_s / 2

    @property
    def claim_wait_s(self) -> float:
        """T/4. The longest that a claim waits, so that its grant can still be started (S2)."""
        return self.heartbeat_timeout_s / 4

    @property
    def beat_every_s(self) -> float:
        """T/6. Workers beat so often (S2), so that two may be lost within `trust_s`."""
        return self.heartbeat_timeout_s / 6

    @property
    def beat_behind_s(self) -> float:
        """T/4. A claim's `heartbeat_at` in the document is never further behind (design §5)."""
        return self.heartbeat_timeout_s / 4

    @property
    def reads_apart_s(self) -> float:
        """T/4. Without a broker silence counts only over reads so near together (design §1)."""
        return self.heartbeat_timeout_s / 4

    @property
    def notice_s(self) -> float:
        """BROKER_TTL/4. A broker looks so often, and so notices a direct push or a challenge."""
        return self.broker_ttl_s / 4

    @property
    def pause_s(self) -> float:
        """A longer gap in a broker's clock means that its process was paused (S4): well before
        `trust_s` is over, and before a standby that waits for BROKER_TTL takes over."""
        return min(self.heartbeat_timeout_s / 4, self.broker_ttl_s / 2)


Change = (
    Push | TakeClaim | Complete | Fail | Release | Cancel | Retry | Delete | RunNow | Pause | Resume
)
"""Operations that the commit loop applies."""

Lookup = Get | Stats | ListJobs | Workers | History | Watch
"""Operations that are answered from memory and change nothing."""

REPORTS: Final = (Complete, Fail, Release)
"""How the holder of a claim says that it ended. Their token is their id, so that they need no other
to be repeated, and no deadline (S7, S12)."""

NEVER_SHED: Final = (Hello, Heartbeat, *REPORTS)
"""What gets through whatever else waits: it keeps claims, or makes room (S13, design §7)."""

GROWING: Final = (Push, Retry)
"""What makes the document larger for good; given up first when it is too large for the store."""

Asked = Heartbeat | Lookup | Change
"""What may be asked once `hello` was answered."""

Request = Hello | Asked
"""Everything that travels on the wire."""

REQUESTS: dict[str, type[Op]] = {
    str(cls.__struct_config__.tag): cls
    for cls in (
        Hello, Push, TakeClaim, Heartbeat, Complete, Fail, Release, Get,
        Cancel, Retry, Delete, RunNow, Pause, Resume, Stats, ListJobs, Workers, History, Watch,
    )
}  # fmt: skip

ANSWERS: dict[str, type[Answer]] = {
    "hello": Welcome,
    "push": Outcomes,
    "claim": Granted,
    "heartbeat": Beaten,
    "complete": Outcomes,
    "fail": Outcomes,
    "release": Outcomes,
    "get": Jobs,
    "cancel": Outcomes,
    "retry": Outcomes,
    "delete": Outcomes,
    "run_now": Outcomes,
    "pause": Answer,
    "resume": Answer,
    "stats": Statistics,
    "list": Listed,
    "workers": AllWorkers,
    "history": RecentHistory,
    "watch": Statistics,
}


def op_name(op: Op) -> str:
    """Return the operation's name on the wire."""
    return str(op.__struct_config__.tag)


def tokens_of(op: Op) -> tuple[str, ...]:
    """Return the tokens of claims that a request names: whoever sent it holds them, and lives."""
    match op:
        case Heartbeat():
            return (*op.tokens, *op.started)
        case Complete() | Fail():
            return tuple(item.token for item in op.items)
        case Release():
            return op.tokens
    return ()


def ids_of(op: Op) -> tuple[str, ...]:
    """Return the ids by which a caller knows what it asked for: of jobs or claims, or its own."""
    match op:
        case Push():
            return tuple(job.id for job in op.jobs)
        case TakeClaim():
            return (op.claim,)
        case JobsRequest() | Get():
            return op.ids
        case Pause() | Resume():
            return (op.request,)
    return tokens_of(op)
