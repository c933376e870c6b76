"""objq: a job queue for Django that is one JSON object in your bucket.

@objq.task                          a task, with objq's own options
objq.enqueue_on_commit(task, …)     push when the transaction commits
objq.connect(), objq.aconnect()     the queue itself, for code that is not a Django task
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from objq.errors import (
    AskAnother,
    ClaimLost,
    ConfigurationError,
    Conflict,
    Corrupt,
    DocumentError,
    ExpiredId,
    Forbidden,
    ForeignDocument,
    Invalid,
    NewerSchema,
    NoDocument,
    NotBroker,
    NotFound,
    ObjqError,
    Overloaded,
    QueueFull,
    Rejected,
    TaskTimeout,
    TooLarge,
    Unauthorized,
    Unavailable,
    Unknown,
    Unsupported,
)

if TYPE_CHECKING:
    from objq.client.registry import aconnect, connect
    from objq.tasks import enqueue_on_commit, task

__version__ = "0.1.0"

__all__ = [
    "AskAnother",
    "ClaimLost",
    "ConfigurationError",
    "Conflict",
    "Corrupt",
    "DocumentError",
    "ExpiredId",
    "Forbidden",
    "ForeignDocument",
    "Invalid",
    "NewerSchema",
    "NoDocument",
    "NotBroker",
    "NotFound",
    "ObjqError",
    "Overloaded",
    "QueueFull",
    "Rejected",
    "TaskTimeout",
    "TooLarge",
    "Unauthorized",
    "Unavailable",
    "Unknown",
    "Unsupported",
    "__version__",
    "aconnect",
    "connect",
    "enqueue_on_commit",
    "task",
]

# These need Django's settings, which are not there yet when INSTALLED_APPS imports this package.
_LAZY = {
    "aconnect": "objq.client.registry",
    "connect": "objq.client.registry",
    "enqueue_on_commit": "objq.tasks",
    "task": "objq.tasks",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
