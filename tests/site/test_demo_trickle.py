"""What goes on in the demo after its report, without its processes."""

from __future__ import annotations

import random
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.utils import timezone

from objq.compat import task_backends
from objq.errors import Unavailable
from objq.testing import DummyBackend, run_jobs
from project import tasks_upkeep
from project.demo.corpus import Module
from project.demo.trickle import Trickle

if TYPE_CHECKING:
    from pytest_django.fixtures import Settings

    from objq.compat import TaskResult

MODULES = [Module(path=f"m{n}.py", title=f"m{n}", source="x", token=f"t{n}") for n in range(3)]


class Button:
    """In the place of a browser: counts what it is to press, or cannot."""

    def __init__(self) -> None:
        self.pressed: Counter[str] = Counter()
        self.error: Exception | None = None

    def index_again(self, module: Module) -> None:
        if self.error is not None:
            raise self.error
        self.pressed[module.path] += 1


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def kept(settings: Settings) -> None:
    """Jobs are kept, not run."""
    settings.TASKS = {"default": {"BACKEND": "objq.testing.DummyBackend", "QUEUES": []}}


def begun(button: Button, clock: Time) -> Trickle:
    trickle = Trickle(button, MODULES, random.Random(7), clock)  # type: ignore[arg-type]
    trickle.begin()
    return trickle


def kept_jobs() -> list[TaskResult[..., Any]]:
    backend = task_backends["default"]
    assert isinstance(backend, DummyBackend)
    return backend.results


def pushed() -> Counter[str]:
    return Counter(result.task.func.__name__ for result in kept_jobs())


@pytest.mark.usefixtures("kept")
def test_at_first_there_is_something_of_every_kind() -> None:
    begun(Button(), Time())
    assert pushed() == {"mail_digest": 3, "count_words": 6, "bind_volume": 6}
    soon = timezone.now() + timedelta(seconds=30)
    later = [r for r in kept_jobs() if (r.task.run_after or soon) > soon]
    assert len(later) == 4


@pytest.mark.usefixtures("kept")
def test_then_pages_are_indexed_and_each_chore_is_done_in_its_time() -> None:
    button, clock = Button(), Time()
    trickle = begun(button, clock)
    before = pushed()
    for _ in range(180):
        clock.now += 0.5
        trickle.step()
    assert pushed() - before == {"mail_digest": 2, "bind_volume": 3, "count_words": 4}
    assert sum(button.pressed.values()) > 90
    assert set(button.pressed) == {"m0.py", "m1.py", "m2.py"}


@pytest.mark.usefixtures("kept")
def test_a_site_or_queue_that_refuses_is_let_be(monkeypatch: pytest.MonkeyPatch) -> None:
    button, clock = Button(), Time()
    trickle = begun(button, clock)
    before = pushed()
    button.error = ConnectionRefusedError("no site")

    class Refused:
        def enqueue(self, *_: object) -> None:
            raise Unavailable("no broker")

    monkeypatch.setattr("project.demo.trickle.mail_digest", Refused())
    clock.now = 46.0
    trickle.step()
    assert pushed() - before == {"bind_volume": 1, "count_words": 1}


@pytest.mark.usefixtures("kept")
@pytest.mark.django_db
def test_what_is_to_fail_fails_and_the_rest_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks_upkeep, "VOLUME_S", 0)
    tasks_upkeep.mail_digest.enqueue("ada@example.com")
    tasks_upkeep.count_words.enqueue("shelf/lost.py")
    tasks_upkeep.bind_volume.enqueue(3)
    ended = run_jobs(until=timezone.now() + timedelta(minutes=1))
    assert {result.task.func.__name__: result.status for result in ended} == {
        "mail_digest": "FAILED",
        "count_words": "FAILED",
        "bind_volume": "SUCCESSFUL",
    }
