"""Tasks with options: one decorator for all versions of Django (traps 4 and 5)."""

from __future__ import annotations

import copy
import pickle
from datetime import timedelta
from typing import Any

import django
import pytest
from django.test import override_settings
from django.utils import timezone
from django.utils.module_loading import import_string

import objq
from objq.compat import NATIVE, InvalidTask, Task
from objq.tasks import ObjqTask
from tests.backend import sample


def work() -> None:
    pass


def module_level_backoff(exception: BaseException, task_result: Any) -> float:
    return 1.0


async def backoff_later(exception: BaseException, task_result: Any) -> float:
    return 1.0


def test_the_decorator_takes_the_options() -> None:
    task = sample.send
    assert isinstance(task, ObjqTask)
    assert (task.max_attempts, task.timeout, task.backoff) == (7, 1.5, sample.wait_longer)
    assert (task.queue_name, task.priority) == ("mail", 5)
    assert task.name == "send"


def test_without_options_there_are_none() -> None:
    for decorated in (objq.task(work), objq.task()(work)):
        assert isinstance(decorated, ObjqTask)
        assert (decorated.max_attempts, decorated.timeout, decorated.backoff) == (None, None, None)
        assert decorated.backend == "default"


def test_djangos_own_decorator_makes_our_task() -> None:
    assert isinstance(django_task()(work), ObjqTask)


@pytest.mark.skipif(
    NATIVE and django.VERSION < (6, 1), reason="Django 6.0's decorator takes no further options"
)
def test_djangos_own_decorator_passes_options_on() -> None:
    task = django_task()(max_attempts=2, timeout=3, backoff=module_level_backoff)(work)
    assert (task.max_attempts, task.timeout, task.backoff) == (2, 3, module_level_backoff)


def django_task() -> Any:
    return import_string("django.tasks.task" if NATIVE else "django_tasks.task")


STOCK = {
    name: {"BACKEND": f"{'django.tasks' if NATIVE else 'django_tasks'}.backends.{module}.{cls}"}
    for name, module, cls in [
        ("default", "dummy", "DummyBackend"),
        ("immediate", "immediate", "ImmediateBackend"),
    ]
}


@override_settings(TASKS=STOCK)
@pytest.mark.parametrize("alias", ["default", "immediate"])
def test_our_decorator_works_with_djangos_own_test_backends(alias: str) -> None:
    task = objq.task(backend=alias, max_attempts=2, timeout=3)(sample.add.func)
    assert isinstance(task, ObjqTask)
    assert task.enqueue(1, b=2).args == [1]


def test_using_keeps_the_options() -> None:
    later = timezone.now() + timedelta(hours=1)
    other = sample.send.using(priority=9, queue_name="default", run_after=later)
    assert isinstance(other, ObjqTask)
    assert (other.priority, other.queue_name, other.run_after) == (9, "default", later)
    assert (other.max_attempts, other.timeout, other.backoff) == (7, 1.5, sample.wait_longer)
    assert sample.send.using(max_attempts=1).max_attempts == 1
    assert sample.send.max_attempts == 7


def test_using_validates() -> None:
    with pytest.raises(InvalidTask, match="max_attempts must be from 1 to 100, not 101"):
        sample.send.using(max_attempts=101)
    with pytest.raises(InvalidTask, match="Queue 'nowhere' is not in"):
        sample.send.using(queue_name="nowhere")


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_task_is_pickled_by_where_to_find_it(protocol: int) -> None:
    task = sample.send.using(priority=1, max_attempts=2)
    again = pickle.loads(pickle.dumps(task, protocol))
    assert again == task
    assert again.backoff is sample.wait_longer
    assert again.func is sample.send.func


def test_a_pickle_of_what_is_no_task_any_more_says_so() -> None:
    pickled = pickle.dumps(objq.task(work))
    with pytest.raises(TypeError, match=r"test_tasks.work' is function, not a task"):
        pickle.loads(pickled)


def test_a_copy_is_the_task_itself() -> None:
    task = sample.send.using(priority=1)
    assert copy.copy(task) is task
    assert copy.deepcopy({"task": task})["task"] is task


def test_a_task_cannot_be_changed_and_has_no_dictionary() -> None:
    with pytest.raises(AttributeError):
        sample.send.timeout = 2  # type: ignore[misc]
    assert not hasattr(sample.send, "__dict__")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_attempts": 0}, "max_attempts must be from 1 to 100, not 0"),
        ({"max_attempts": 101}, "max_attempts must be from 1 to 100, not 101"),
        ({"max_attempts": "3"}, "max_attempts must be a whole number, not '3'"),
        ({"max_attempts": True}, "max_attempts must be a whole number, not True"),
        ({"max_attempts": 2.0}, r"max_attempts must be a whole number, not 2\.0"),
        ({"timeout": 0}, "timeout must be above 0 and at most"),
        ({"timeout": -1}, "timeout must be above 0 and at most"),
        ({"timeout": float("nan")}, "timeout must be above 0 and at most"),
        ({"timeout": float("inf")}, "timeout must be above 0 and at most"),
        ({"timeout": timedelta(seconds=1)}, "timeout must be a number of seconds, not datetime"),
        ({"timeout": True}, "timeout must be a number of seconds, not True"),
        ({"backoff": 5}, r"backoff must be a function backoff\(exception, task_result\).*not 5"),
        ({"backoff": work}, r"backoff must be a function.*too many positional arguments"),
        ({"backoff": backoff_later}, "backoff must be a function.*not a coroutine function"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_an_option_that_cannot_work_is_refused_at_import(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidTask, match=message):
        objq.task(**options)(work)


def test_a_builtin_may_be_the_backoff() -> None:
    builtin: Any = max
    assert objq.task(backoff=builtin)(work).backoff is builtin


def test_run_after_belongs_to_using() -> None:
    with pytest.raises(TypeError, match="run_after"):
        objq.task(run_after=timezone.now())(work)  # type: ignore[call-overload]


def test_the_names_of_the_package() -> None:
    assert all(getattr(objq, name) for name in objq.__all__)
    assert issubclass(objq.TaskTimeout, TimeoutError)
    assert callable(objq.enqueue_on_commit)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = objq.nothing


def test_a_plain_task_keeps_its_class() -> None:
    assert issubclass(ObjqTask, Task)
