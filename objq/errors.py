"""Errors, grouped by what the caller may conclude (promise S12).

* `Rejected`: the request was not applied and never will be. Repeating it as it is cannot help,
  except after `retry_after_s` where one is given.
* `Unknown`: the request may or may not have been applied. Repeating it *with the same ids* is safe.
* `AskAnother`: this process cannot answer; the request may be sent to another, with the same ids.

Each class has the `code` under which it travels on the wire (design §7).
"""

from __future__ import annotations

from typing import ClassVar


class ObjqError(Exception):
    """Base of every error that objq raises to its callers."""

    code: ClassVar[str] = "unknown"

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after_s = retry_after_s


class ConfigurationError(ObjqError):
    """The settings cannot work; the message names the setting and the fix."""

    code = "invalid"


class Rejected(ObjqError):
    """Not applied, and never will be.

    `final` is True when the refusal itself is committed to the document, so that it holds even for
    copies of the request that are still under way.
    """

    code = "invalid"

    def __init__(
        self, message: str, *, retry_after_s: float | None = None, final: bool = False
    ) -> None:
        super().__init__(message, retry_after_s=retry_after_s)
        self.final = final


class Invalid(Rejected):
    """The request is not well formed; the message says where."""

    code = "invalid"


class TooLarge(Rejected):
    """A frame, job or result is over its documented limit."""

    code = "too_large"


class QueueFull(Rejected):
    """The document has no room for another job (`MAX_JOBS`, `MAX_BYTES`, `MAX_QUEUES`)."""

    code = "queue_full"


class Overloaded(Rejected):
    """The broker's buffers are full; try again after `retry_after_s`."""

    code = "overloaded"


class Unauthorized(Rejected):
    """The token is missing, forged, expired, or for another document or broker."""

    code = "unauthorized"


class Forbidden(Rejected):
    """The token's role does not allow this operation."""

    code = "forbidden"


class ClaimLost(Rejected):
    """The token is no longer live: the job went to somebody else, or has ended."""

    code = "claim_lost"


class NotFound(Rejected):
    """No such job in the document; it may have finished longer ago than results are kept."""

    code = "not_found"


class Conflict(Rejected):
    """The job is not in the state that the request expected, or its id is taken."""

    code = "conflict"


class ExpiredId(Rejected):
    """The request id is older than the document remembers (`DEDUPE_WINDOW`)."""

    code = "expired_id"


class Unsupported(Rejected):
    """The operation is not one that this version knows."""

    code = "unsupported"


class AskAnother(ObjqError):
    """This process cannot answer now; read `queue.json` and ask the broker that it names."""

    code = "unavailable"


class NotBroker(AskAnother):
    """This process does not lead, or serves another document; `url` is the leader's, if known."""

    code = "not_broker"

    def __init__(self, message: str, *, url: str | None = None) -> None:
        super().__init__(message)
        self.url = url


class Unavailable(AskAnother):
    """The broker cannot reach the store, or has just lost its leadership."""

    code = "unavailable"


class Unknown(ObjqError):
    """The outcome is not known; the request may be repeated safely with the same ids.

    `ids` are those of the jobs that were pushed, or of the request. `request` is the request's id.
    """

    code = "unknown"

    def __init__(
        self, message: str, *, ids: tuple[str, ...] = (), request: str | None = None
    ) -> None:
        super().__init__(message)
        self.ids = ids
        self.request = request


class DocumentError(ObjqError):
    """`queue.json` must not be written by this process (promise S14); the message says why."""

    code = "unavailable"


class NoDocument(DocumentError):
    """There is no `queue.json` yet: `runbroker` creates it, in direct mode the first push."""

    @classmethod
    def at(cls, name: str) -> NoDocument:
        """Return the error for the document that a store calls `name`."""
        return cls(
            f"There is no {name}. If there was one, put its last version back first (Backup and "
            "restore in docs/operating.md): what is created now begins empty. Else start "
            "manage.py runbroker, which creates it; with MODE 'direct' the first push does."
        )


class Corrupt(DocumentError):
    """The bytes are not a document that objq wrote."""


class NewerSchema(DocumentError):
    """The document was written by a newer objq, in a schema that this one does not know."""


class ForeignDocument(DocumentError):
    """Another document's id, or one that went back in time, where ours is expected."""


class Vanished(ForeignDocument):
    """There was a document, and there is none any more."""

    @classmethod
    def at(cls, name: str) -> Vanished:
        """Return the error for the document that a store calls `name`."""
        return cls(
            f"{name} has vanished. It is not created anew, since that would lose jobs. Put back "
            "its last version, and everything goes on by itself; or restart every process that "
            "uses it, to begin with an empty queue."
        )


class WentBack(ForeignDocument):
    """The document is an older version than one that was seen before."""


class Forked(ForeignDocument):
    """The document is another version than the one that was seen under the same seq."""


# How an attempt ended, by the path under which the document and Django's `TaskError` name it. Only
# `TaskTimeout` is ever raised; none is an answer to a caller.


class WorkerLost(Exception):
    """The worker that ran the job was not heard of for the heartbeat timeout."""


class TaskCancelled(Exception):
    """The job was cancelled."""


class TaskDead(Exception):
    """The job is dead without the error of an attempt; the text says why."""


class TaskTimeout(TimeoutError):
    """The attempt took longer than the task's `timeout`."""


BY_CODE: dict[str, type[ObjqError]] = {
    cls.code: cls
    for cls in (
        Invalid,
        TooLarge,
        QueueFull,
        Overloaded,
        Unauthorized,
        Forbidden,
        ClaimLost,
        NotFound,
        Conflict,
        ExpiredId,
        Unsupported,
        NotBroker,
        Unavailable,
        Unknown,
    )
}
