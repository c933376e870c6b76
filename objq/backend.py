"""The backend for `django.tasks`. It only translates: the client does the work."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Protocol, TypeVar, cast

from django.apps import apps
from django.conf import settings
from django.utils import timezone

from objq import results
from objq.arguments import encode_arguments
from objq.client import registry
from objq.clock import SYSTEM_CLOCK
from objq.compat import (  # which registers the framework's check, that asks each backend
    BaseTaskBackend,
    InvalidTask,
    Task,
    TaskResult,
    TaskResultDoesNotExist,
    task_enqueued,
)
from objq.core import ops
from objq.core.ops import NewJob
from objq.errors import Unknown
from objq.ids import Ids
from objq.optionrules import parse
from objq.options import Options
from objq.tasks import ObjqTask, Prepared
from objq.wire import error_of

if TYPE_CHECKING:
    from django.core.checks import CheckMessage

    from objq.core.ops import Jobs, Outcomes

P = ParamSpec("P")
R = TypeVar("R")

logger = logging.getLogger("objq")

_ids: Final = Ids()


class SyncQueue(Protocol):
    """The part of a client that a backend uses."""

    def push(self, jobs: Iterable[NewJob]) -> Outcomes: ...

    def get(self, ids: Iterable[str]) -> Jobs: ...


class AsyncQueue(Protocol):
    async def push(self, jobs: Iterable[NewJob]) -> Outcomes: ...

    async def get(self, ids: Iterable[str]) -> Jobs: ...


class ObjqBackend(BaseTaskBackend):
    """Enqueues durably, in one object of a bucket or folder.

    Django makes one instance per thread, while modules are imported: building it does no I/O and
    does not even look at the options. Connections belong to the client.
    """

    task_class = ObjqTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self.params = params
        if apps.ready:
            _warn_without_app()

    @cached_property
    def config(self) -> Options:
        """The options. Raises ConfigurationError, which names all that is wrong with them."""
        return parse(self.options, alias=self.alias, beside=self.params)

    def validate_task(self, task: Task[..., Any]) -> None:
        _check_run_after(task.run_after)
        if isinstance(self.params.get("QUEUES"), str):
            raise InvalidTask(f'TASKS["{self.alias}"]["QUEUES"] is a text, not a list of names.')
        if self.queues and task.queue_name not in self.queues:  # in more words than Django's
            listed = ", ".join(sorted(map(str, self.queues)))
            raise InvalidTask(
                f'Queue {task.queue_name!r} is not in TASKS["{self.alias}"]["QUEUES"], which lists '
                f"{listed}: add it there."
            )
        super().validate_task(task)
        if len(task.module_path) > ops.MAX_TASK:
            raise InvalidTask(f"The task's path has more than {ops.MAX_TASK} characters.")
        if not ops.is_queue_name(task.queue_name):
            raise InvalidTask(f"A queue's name has {ops.QUEUE_NAMES}.")

    def enqueue(
        self, task: Task[P, R], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> TaskResult[P, R]:
        """Return when the job is durable.

        Raises InvalidTask or NotJSON for what cannot be enqueued, another Rejected if the queue
        refuses the job, and Unknown, with the job's id, if it may or may not be there (S12).
        """
        return cast("TaskResult[P, R]", self.send(self.prepare(task, args, kwargs)))

    async def aenqueue(
        self, task: Task[P, R], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> TaskResult[P, R]:
        """See enqueue()."""
        prepared = self.prepare(task, args, kwargs)
        client = await self.aclient()
        _accept(prepared.result, await client.push((prepared.job,)))
        await task_enqueued.asend(type(self), task_result=prepared.result)
        return cast("TaskResult[P, R]", prepared.result)

    def prepare(
        self, task: Task[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Prepared:
        """Check a job and give it its id; nothing is sent."""
        self.validate_task(task)
        encoded = encode_arguments(args, kwargs)
        job = NewJob(
            id=_ids.job_id(SYSTEM_CLOCK.wall_ms()),
            task=task.module_path,
            queue=task.queue_name,
            args=encoded.args,
            kwargs=encoded.kwargs,
            priority=int(task.priority),
            run_after=_not_before_ms(task),
            max_attempts=getattr(task, "max_attempts", None) or self.config.max_attempts,
        )
        return Prepared(job, results.new_result(task, job.id, args, kwargs, self.alias))

    def send(self, prepared: Prepared) -> TaskResult[..., Any]:
        """Push a prepared job. Again after Unknown is safe: the job keeps its id."""
        _accept(prepared.result, self.client().push((prepared.job,)))
        task_enqueued.send(type(self), task_result=prepared.result)
        return prepared.result

    def get_result(self, result_id: str) -> TaskResult[..., Any]:
        """Return the result; raise TaskResultDoesNotExist if it is not (or no longer) there."""
        _check_id(result_id)
        return self._result(result_id, self.client().get((result_id,)))

    async def aget_result(self, result_id: str) -> TaskResult[..., Any]:
        """See get_result()."""
        _check_id(result_id)
        client = await self.aclient()
        return self._result(result_id, await client.get((result_id,)))

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        from objq.checks import check_backend

        return list(check_backend(self.alias, self.params))

    def client(self) -> SyncQueue:
        """Return this process's client for the alias."""
        return registry.connect(self.alias)

    async def aclient(self) -> AsyncQueue:
        return await registry.aconnect(self.alias)

    def _result(self, result_id: str, found: Jobs) -> TaskResult[..., Any]:
        job = found.jobs[0]
        if job is None:
            raise TaskResultDoesNotExist(result_id)
        return results.from_view(job, self.alias)


def _check_run_after(run_after: object) -> None:
    """Raise InvalidTask for what Django would answer with a sentence that names no fix, or none."""
    if run_after is None:
        return
    aware = "an aware datetime, such as django.utils.timezone.now() + timedelta(hours=1)"
    if not isinstance(run_after, datetime):
        raise InvalidTask(f"run_after is {run_after!r}: pass {aware}.")
    if settings.USE_TZ and timezone.is_naive(run_after):
        raise InvalidTask(f"run_after is {run_after!r}, which has no time zone: pass {aware}.")


@cache
def _warn_without_app() -> None:
    """Say once what objq.E009 says, which nobody is told of a backend that is made after start-up.

    A project whose tasks are first imported by its URLs is one: the checks are collected by then.
    """
    if not apps.is_installed("objq"):
        logger.warning(
            'TASKS uses objq, but "objq" is not in INSTALLED_APPS: add it (objq.E009). Until then '
            "there is no runbroker and no objq_worker, and no check of its options.",
            extra={"event": "app_not_installed"},
        )


def _accept(result: TaskResult[..., Any], outcomes: Outcomes) -> None:
    """Note that the job is in the queue, or raise what the queue said instead."""
    problem = outcomes.items[0].error
    if problem is None:
        results.set_enqueued(result, timezone.now())
        return
    error = error_of(problem)
    if isinstance(error, Unknown):
        error.ids = (result.id,)
    raise error


def _not_before_ms(task: Task[..., Any]) -> int | None:
    """Return `run_after` in ms, rounded up: never before it (S15)."""
    if task.run_after is None:
        return None
    return max(0, math.ceil(task.run_after.timestamp() * 1000))


def _check_id(result_id: object) -> None:
    if not isinstance(result_id, str) or not 1 <= len(result_id) <= ops.MAX_JOB_ID:
        raise TaskResultDoesNotExist(result_id)
