"""What stands in the document, and what operations and answers carry of it."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from objq.core.ops.fields import (
    EMPTY_DICT,
    EMPTY_LIST,
    MAX_ATTEMPTS,
    JobId,
    JobState,
    Millis,
    Priority,
    QueueName,
    TaskPath,
)


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
    """The outcome of one item of a request: the state the job is in now, or an error.

    Neither: the job is no longer in the document.
    """

    id: str | None = None
    token: str | None = None
    state: JobState | None = None
    error: Problem | None = None


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
