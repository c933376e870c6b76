"""The operations: what travels from a client to the core."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from objq.core.ops.fields import (
    MAX_GRANTS,
    MAX_ITEMS,
    MAX_LOOKED_UP,
    MAX_NAME,
    MAX_PAGE,
    MAX_QUEUES,
    MAX_RETRY_AFTER_S,
    ClaimId,
    JobId,
    JobState,
    QueueName,
    RequestId,
    TaskPath,
    Token,
    WorkerName,
)
from objq.core.ops.records import (
    JobError,
    NewJob,
)


class Op(Struct, frozen=True, tag_field="op", omit_defaults=True, kw_only=True):
    """Base of all operations."""


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


class Resume(Op, frozen=True, tag="resume", kw_only=True):
    request: RequestId
    queue: QueueName


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
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 50


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
