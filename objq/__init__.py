"""A job queue for Django that is one JSON object in your bucket.

The names that people use are loaded when first asked for, since most need Django's settings and
`import objq` must not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from objq.client.registry import aconnect, connect
    from objq.errors import TaskTimeout
    from objq.tasks import enqueue_on_commit, task

__version__: Final = "0.1.0"

_HOMES: Final = {
    "TaskTimeout": "objq.errors",
    "aconnect": "objq.client.registry",
    "connect": "objq.client.registry",
    "enqueue_on_commit": "objq.tasks",
    "task": "objq.tasks",
}

__all__ = ["TaskTimeout", "__version__", "aconnect", "connect", "enqueue_on_commit", "task"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
