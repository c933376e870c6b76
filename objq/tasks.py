"""What Django users write beyond `django.tasks`: options of a task, and enqueueing on commit.

    @objq.task(max_attempts=5, timeout=60, backoff=wait_longer)
    def send(order_id): ...

`max_attempts` is part of the pushed job; `timeout` and `backoff` are read where the job runs.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, overload, runtime_checkable

from django.db import transaction
from django.utils.module_loading import import_string

from objq.compat import (
    DEFAULT_TASK_BACKEND_ALIAS,
    DEFAULT_TASK_PRIORITY,
    DEFAULT_TASK_QUEUE_NAME,
    InvalidTask,
    Task,
    TaskResult,
    task_backends,
)
from objq.core.ops import MAX_ATTEMPTS

if TYPE_CHECKING:
    from objq.core.ops import NewJob

Backoff = Callable[[BaseException, "TaskResult[..., Any]"], float | None]
"""Called after a failed attempt; seconds until the next one, or None: no further attempt."""

MAX_TIMEOUT_S: Final = 366 * 86_400.0

CARRIED: Final = ("priority", "backend", "queue_name", "run_after", "takes_context", "max_attempts")
"""What a copy made by `using` may have of its own; the rest is the decorated task's."""


# Zero-argument super() does not work in here: a slotted dataclass is another class than the one
# whose body is compiled (fixed only in Python 3.14).
@dataclass(frozen=True, slots=True, kw_only=True)
class ObjqTask(Task):  # type: ignore[type-arg]  # not generic in Django
    """A task with the options that Django's own has no field for.

    `max_attempts`: starts before the job is dead; None: the backend's `MAX_ATTEMPTS`.
    `timeout`: seconds that one attempt may take; None: no limit.
    """

    max_attempts: int | None = None
    backoff: Backoff | None = None
    timeout: float | None = None

    def __post_init__(self) -> None:
        check_task_options(self)
        Task.__post_init__(self)

    def using(
        self,
        *,
        priority: int | None = None,
        queue_name: str | None = None,
        run_after: Any = None,
        backend: str | None = None,
        max_attempts: int | None = None,
    ) -> ObjqTask:
        """Return the task with other defaults; `timeout` and `backoff` stay what they are."""
        changes = {
            "priority": priority,
            "queue_name": queue_name,
            "run_after": run_after,
            "backend": backend,
            "max_attempts": max_attempts,
        }
        return replace(self, **{k: v for k, v in changes.items() if v is not None})

    # A task is pickled as where to find it, since neither the function (its name leads to the task)
    # nor a lambda as backoff can be pickled; and since it never changes, a copy is the task itself.

    def __reduce__(self) -> tuple[Any, ...]:
        return _find_again, (self.module_path, {name: getattr(self, name) for name in CARRIED})

    def __copy__(self) -> ObjqTask:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> ObjqTask:
        return self


def _find_again(path: str, carried: Mapping[str, Any]) -> ObjqTask:
    found = import_string(path)
    if not isinstance(found, ObjqTask):
        raise TypeError(f"{path!r} is {type(found).__name__}, not a task of objq's.")
    return replace(found, **carried)


def check_task_options(task: ObjqTask) -> None:
    """Raise InvalidTask if an option of the task cannot work."""
    attempts, timeout, backoff = task.max_attempts, task.timeout, task.backoff
    if attempts is not None:
        if isinstance(attempts, bool) or not isinstance(attempts, int):
            raise InvalidTask(f"max_attempts must be a whole number, not {attempts!r}.")
        if not 1 <= attempts <= MAX_ATTEMPTS:
            raise InvalidTask(f"max_attempts must be from 1 to {MAX_ATTEMPTS}, not {attempts}.")
    if timeout is not None:
        if isinstance(timeout, bool) or not isinstance(timeout, int | float):
            raise InvalidTask(f"timeout must be a number of seconds, not {timeout!r}.")
        if not math.isfinite(timeout) or not 0 < timeout <= MAX_TIMEOUT_S:
            raise InvalidTask(
                f"timeout must be above 0 and at most {MAX_TIMEOUT_S:.0f} seconds, not {timeout}."
            )
    if backoff is not None:
        _check_backoff(backoff)


def _check_backoff(backoff: object) -> None:
    wanted = "a function backoff(exception, task_result) that returns seconds or None"
    if not callable(backoff):
        raise InvalidTask(f"backoff must be {wanted}, not {backoff!r}.")
    if inspect.iscoroutinefunction(backoff):
        raise InvalidTask(f"backoff must be {wanted}, not a coroutine function.")
    try:
        inspect.signature(backoff).bind(None, None)
    except ValueError:  # a builtin without a signature
        return
    except TypeError as error:
        raise InvalidTask(f"backoff must be {wanted}: {error}.") from error


class Prepared(NamedTuple):
    """A job that was checked and named, and is not pushed yet."""

    job: NewJob
    result: TaskResult[..., Any]


@runtime_checkable
class Preparing(Protocol):
    """A backend that enqueues in two steps, so that a job has its id before it is pushed."""

    def prepare(
        self, task: Task[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Prepared: ...

    def send(self, prepared: Prepared) -> TaskResult[..., Any]: ...


@overload
def task(function: Callable[..., Any], /) -> ObjqTask: ...


@overload
def task(
    *,
    priority: int = ...,
    queue_name: str = ...,
    backend: str = ...,
    takes_context: bool = ...,
    max_attempts: int | None = ...,
    backoff: Backoff | None = ...,
    timeout: float | None = ...,
) -> Callable[[Callable[..., Any]], ObjqTask]: ...


def task(
    function: Callable[..., Any] | None = None,
    /,
    *,
    priority: int = DEFAULT_TASK_PRIORITY,
    queue_name: str = DEFAULT_TASK_QUEUE_NAME,
    backend: str = DEFAULT_TASK_BACKEND_ALIAS,
    takes_context: bool = False,
    max_attempts: int | None = None,
    backoff: Backoff | None = None,
    timeout: float | None = None,
) -> ObjqTask | Callable[[Callable[..., Any]], ObjqTask]:
    """Make a task of a function, with objq's options, on every Django and whatever the backend.

    Django's own decorator takes these options only on 6.1 and in the backport, and there only if
    the backend that is configured knows them. A backend other than objq's ignores them.
    """

    def wrap(func: Callable[..., Any]) -> ObjqTask:
        task_class = task_backends[backend].task_class
        return (task_class if issubclass(task_class, ObjqTask) else ObjqTask)(
            func=func,
            priority=priority,
            queue_name=queue_name,
            backend=backend,
            run_after=None,
            takes_context=takes_context,
            max_attempts=max_attempts,
            backoff=backoff,
            timeout=timeout,
        )

    return wrap if function is None else wrap(function)


def enqueue_on_commit(task: Task[..., Any], *args: Any, **kwargs: Any) -> TaskResult[..., Any]:
    """Enqueue when the transaction commits (at once if there is none); never if it rolls back.

    Arguments are checked and fixed now. The result has its final id at once, so it can be stored in
    the same transaction; until the commit it is READY with `enqueued_at` None, and looking it up
    raises TaskResultDoesNotExist, as it does for ever after a rollback.

    The transaction is the default database's. If the push fails after the commit, its error is
    raised to whoever committed: the data is there, the job is not (or, with `Unknown`, may be).
    """
    if not isinstance(task, Task):
        raise TypeError(
            f"enqueue_on_commit takes a task, as in enqueue_on_commit(greet, name), not {task!r}."
        )
    backend = task.get_backend()
    if not isinstance(backend, Preparing):
        raise InvalidTask(
            f"The backend {task.backend!r} ({type(backend).__name__}) cannot name a job before it "
            "is enqueued. Use objq's, or in tests those of objq.testing."
        )
    prepared = backend.prepare(task, args, kwargs)
    transaction.on_commit(lambda: backend.send(prepared))
    return prepared.result
