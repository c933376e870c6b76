"""Operations and their answers: one vocabulary for core, wire, client and broker.

Each operation is a frozen struct whose tag is its name on the wire (design §7). The same object
goes from the client over the wire to the core; nothing is translated on the way. `args`, `kwargs`
and `result` stay the JSON text that was pushed (`msgspec.Raw`, promise S9).

Times are integer milliseconds since the epoch, UTC, unless the name ends in `_s` (seconds).
"""

from __future__ import annotations

from typing import Final

from objq.core.ops.answers import (
    AllWorkers,
    Answer,
    Beaten,
    Delta,
    ErrorSummary,
    Granted,
    HistoryPoint,
    Jobs,
    JobSummary,
    Leadership,
    Listed,
    Outcomes,
    Process,
    QueueStats,
    RecentHistory,
    Running,
    StandbyView,
    Statistics,
    Welcome,
    WorkerView,
)
from objq.core.ops.fields import (
    EMPTY_DICT,
    EMPTY_LIST,
    MAX_ATTEMPTS,
    MAX_GRANTS,
    MAX_ITEMS,
    MAX_JOB_ID,
    MAX_LOOKED_UP,
    MAX_NAME,
    MAX_PAGE,
    MAX_QUEUES,
    MAX_RECORD_BYTES,
    MAX_RETRY_AFTER_S,
    MAX_TASK,
    QUEUE_NAMES,
    REQUEST_PATTERN,
    ClaimId,
    JobId,
    JobState,
    Millis,
    Position,
    Priority,
    QueueName,
    RequestId,
    TaskPath,
    Token,
    WorkerName,
    is_queue_name,
)
from objq.core.ops.operations import (
    Cancel,
    Complete,
    Completion,
    Delete,
    Fail,
    Failure,
    Filter,
    Get,
    Heartbeat,
    Hello,
    History,
    JobsRequest,
    ListJobs,
    Op,
    Page,
    Pause,
    Push,
    Release,
    Resume,
    Retry,
    RunNow,
    Stats,
    TakeClaim,
    Watch,
    Workers,
)
from objq.core.ops.records import (
    Attempt,
    BrokerInfo,
    Challenge,
    Claim,
    Grant,
    ItemOutcome,
    JobError,
    JobView,
    NewJob,
    Problem,
)
from objq.core.ops.settings import (
    DocumentSettings,
)

__all__ = [
    "ANSWERS",
    "EMPTY_DICT",
    "EMPTY_LIST",
    "GROWING",
    "LOOKUPS",
    "MAX_ATTEMPTS",
    "MAX_GRANTS",
    "MAX_ITEMS",
    "MAX_JOB_ID",
    "MAX_LOOKED_UP",
    "MAX_NAME",
    "MAX_PAGE",
    "MAX_QUEUES",
    "MAX_RECORD_BYTES",
    "MAX_RETRY_AFTER_S",
    "MAX_TASK",
    "NEVER_SHED",
    "QUEUE_NAMES",
    "REPORTS",
    "REQUESTS",
    "REQUEST_PATTERN",
    "UNCOMMITTED",
    "AllWorkers",
    "Answer",
    "Asked",
    "Attempt",
    "Beaten",
    "BrokerInfo",
    "Cancel",
    "Challenge",
    "Change",
    "Claim",
    "ClaimId",
    "Complete",
    "Completion",
    "Delete",
    "Delta",
    "DocumentSettings",
    "ErrorSummary",
    "Fail",
    "Failure",
    "Filter",
    "Get",
    "Grant",
    "Granted",
    "Heartbeat",
    "Hello",
    "History",
    "HistoryPoint",
    "ItemOutcome",
    "JobError",
    "JobId",
    "JobState",
    "JobSummary",
    "JobView",
    "Jobs",
    "JobsRequest",
    "Leadership",
    "ListJobs",
    "Listed",
    "Lookup",
    "Millis",
    "NewJob",
    "Op",
    "Outcomes",
    "Page",
    "Pause",
    "Position",
    "Priority",
    "Problem",
    "Process",
    "Push",
    "QueueName",
    "QueueStats",
    "RecentHistory",
    "Release",
    "Request",
    "RequestId",
    "Resume",
    "Retry",
    "RunNow",
    "Running",
    "StandbyView",
    "Statistics",
    "Stats",
    "TakeClaim",
    "TaskPath",
    "Token",
    "Watch",
    "Welcome",
    "WorkerName",
    "WorkerView",
    "Workers",
    "ids_of",
    "is_queue_name",
    "op_name",
    "tokens_of",
]

Change = (
    Push | TakeClaim | Complete | Fail | Release | Cancel | Retry | Delete | RunNow | Pause | Resume
)
"""Operations that the commit loop applies."""

Lookup = Get | Stats | ListJobs | Workers | History | Watch
"""Operations that are answered from memory and change nothing."""

LOOKUPS: Final = (Get, Stats, ListJobs, Workers, History, Watch)

UNCOMMITTED: Final = (Heartbeat, *LOOKUPS)
"""What needs no commit (S2): a heartbeat is written down with another one, or in good time."""

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
