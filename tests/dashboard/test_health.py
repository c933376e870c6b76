"""The sentence that an operator reads first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from django.test import override_settings
from msgspec import structs

from objq.core.codec import SCHEMA
from objq.core.ops import AllWorkers, Challenge, HistoryPoint, QueueStats, RecentHistory, WorkerView
from objq.errors import (
    ConfigurationError,
    Corrupt,
    Forbidden,
    NoDocument,
    ObjqError,
    Overloaded,
    Unavailable,
    Unknown,
)
from objq_dashboard.health import address
from objq_dashboard.wording import SPACE, moment
from tests.core.world import World
from tests.dashboard.conftest import NOW_MS, SINCE_MS, statistics

if TYPE_CHECKING:
    from collections.abc import Callable

    from objq_dashboard.page import Health, Page
    from tests.dashboard.conftest import FakeQueue, FakeReader

LEADS = f"Broker 10.0.0.42:3000 leads since {moment(SINCE_MS)}, last commit 0.2 s ago."
QUIET = {"default": QueueStats()}


def worker(**changes: Any) -> WorkerView:
    values = {"name": "w", "connected": True, "queues": ("default",), "slots": 4, "holds": 1}
    return WorkerView(**{**values, **changes})


def of(page: Page) -> Health:
    return page.health


def plain(text: str) -> str:
    return text.replace(SPACE, " ")


def waiting(seconds: float, **changes: Any) -> dict[str, QueueStats]:
    at = NOW_MS - int(seconds * 1000)
    return {"default": QueueStats(**{"ready": 12, "oldest_ready_at": at, **changes})}


def test_all_is_well(build: Callable[..., Page], queue: FakeQueue) -> None:
    queue.answer = statistics(running=(), queues=QUIET)
    health = build("overview").health
    assert (health.level, plain(health.sentence), health.command) == ("good", LEADS, "")
    assert health.advice == ""


def test_stale_heartbeats(build: Callable[..., Page], queue: FakeQueue) -> None:
    queue.answer = statistics(queues=QUIET)
    health = build("overview").health
    assert (health.level, health.sentence) == ("warn", "1 job has a stale heartbeat.")
    assert "30 s" in plain(health.advice)
    assert plain(health.besides) == LEADS


def test_more_stale_heartbeats_than_are_told_of(
    build: Callable[..., Page], queue: FakeQueue
) -> None:
    stale = tuple(
        structs.replace(job, id=f"job-{number}", heard_ago_s=20.0)
        for number in range(50)
        for job in statistics().running
    )
    queue.answer = statistics(running=stale, queues={"default": QueueStats(running=900)})
    assert build("overview").health.sentence == "At least 100 jobs have stale heartbeats."


def test_jobs_wait_that_no_worker_takes(build: Callable[..., Page], queue: FakeQueue) -> None:
    queue.answer = statistics(running=(), queues=waiting(10))
    queue.all_workers = AllWorkers(
        workers=(worker(queues=("mail",)), worker(name="x", connected=False)), total=2
    )
    health = build("overview").health
    assert health.level == "bad"
    assert health.sentence == "12 jobs wait in “default”, and no worker takes from it."
    assert health.command == "python manage.py objq_worker --queue default"


def test_a_job_that_came_just_now_is_no_trouble(
    build: Callable[..., Page], queue: FakeQueue
) -> None:
    queue.answer = statistics(running=(), queues=waiting(2))
    assert build("overview").health.level == "good"


def test_busy_workers_are_a_trouble_only_after_a_while(
    build: Callable[..., Page], queue: FakeQueue
) -> None:
    queue.all_workers = AllWorkers(workers=(worker(holds=4),), total=1)
    queue.answer = statistics(running=(), queues=waiting(30))
    assert build("overview").health.level == "good"
    queue.answer = statistics(running=(), queues=waiting(90))
    health = build("overview").health
    assert health.level == "warn"
    assert plain(health.sentence) == (
        "The oldest job in “default” waits for 1 min: all 4 slots are busy."
    )


def test_workers_with_room_that_take_nothing(build: Callable[..., Page], queue: FakeQueue) -> None:
    queue.all_workers = AllWorkers(workers=(worker(),), total=1)
    queue.answer = statistics(running=(), queues=waiting(30))
    health = build("overview").health
    assert health.level == "warn"
    assert "although workers have room" in health.sentence


def test_nothing_is_said_of_workers_that_are_too_many_to_be_told_of(
    build: Callable[..., Page], queue: FakeQueue
) -> None:
    queue.all_workers = AllWorkers(workers=(worker(queues=("mail",)),), total=501)
    queue.answer = statistics(running=(), queues=waiting(30))
    assert build("overview").health.level == "good"


@pytest.mark.parametrize(
    ("ready", "sentence"),
    [(0, "Queue “default” is paused."), (12, "Queue “default” is paused. 12 jobs wait there.")],
)
def test_a_paused_queue(
    build: Callable[..., Page], queue: FakeQueue, ready: int, sentence: str
) -> None:
    queue.answer = statistics(running=(), queues=waiting(600, paused=True, ready=ready))
    health = build("overview").health
    assert (health.level, health.sentence) == ("warn", sentence)


def test_most_attempts_fail(build: Callable[..., Page], queue: FakeQueue) -> None:
    queue.answer = statistics(running=(), queues=QUIET)
    long_ago = HistoryPoint(at=NOW_MS - 90_000, seconds=10.0, failed=900)
    recent = [HistoryPoint(at=NOW_MS, seconds=10.0, failed=2, finished=1)] * 6
    queue.recent = RecentHistory(every_s=10.0, points=(long_ago, *recent))
    health = build("overview").health
    assert health.level == "warn"
    assert health.sentence == ("More attempts fail than succeed: 12 of 18 in the last minute.")
    few = [HistoryPoint(at=NOW_MS, seconds=10.0, failed=1)] * 4
    queue.recent = RecentHistory(every_s=10.0, points=tuple(few))
    assert build("overview").health.level == "good"
    well = [HistoryPoint(at=NOW_MS, seconds=10.0, failed=2, finished=2)] * 6
    queue.recent = RecentHistory(every_s=10.0, points=tuple(well))
    assert build("overview").health.level == "good"


def test_a_store_that_asks_to_slow_down(build: Callable[..., Page], queue: FakeQueue) -> None:
    queue.answer = statistics(running=(), queues=QUIET)
    point = HistoryPoint(at=NOW_MS, seconds=10.0, throttled=3)
    queue.recent = RecentHistory(every_s=10.0, points=(point,))
    health = build("broker").health
    assert health.level == "warn"
    assert health.sentence == "The store has asked to slow down 3 times in the last minute."


def test_the_worst_is_said_first_and_the_rest_after_it(
    build: Callable[..., Page], queue: FakeQueue
) -> None:
    queues = {"a": QueueStats(paused=True), **waiting(60)}
    queue.answer = statistics(queues=queues)
    health = build("overview").health
    assert health.sentence.startswith("12 jobs wait in “default”, and no worker")
    assert health.advice == "Start a worker for “default”:", "and nothing before the command"
    assert plain(health.besides) == (f"Queue “a” is paused. 1 job has a stale heartbeat. {LEADS}")


QUEUES = [f"queue-{number:02}" for number in range(40)]


def test_many_queues_that_no_worker_takes_from_are_one_trouble(
    build: Callable[..., Page], queue: FakeQueue
) -> None:
    each = waiting(10, ready=2)["default"]
    queue.answer = statistics(running=(), queues=dict.fromkeys(QUEUES, each))
    health = build("overview").health
    assert health.sentence == (
        "80 jobs wait in “queue-00”, “queue-01”, “queue-02” and 37 more, and no worker takes from "
        "any of these."
    )
    assert health.advice == "Start a worker for these queues:"
    options = " ".join(f"--queue {name}" for name in QUEUES)
    assert health.command == f"python manage.py objq_worker {options}"
    assert plain(health.besides) == LEADS


def test_many_paused_queues_are_one_trouble(build: Callable[..., Page], queue: FakeQueue) -> None:
    paused = QueueStats(paused=True)
    queue.answer = statistics(
        running=(), queues={"a": paused, "b": structs.replace(paused, ready=3)}
    )
    health = build("overview").health
    assert health.sentence == "Queues “a” and “b” are paused. 3 jobs wait there."
    queue.answer = statistics(running=(), queues=dict.fromkeys(QUEUES[:4], paused))
    assert build("overview").health.sentence == (
        "Queues “queue-00”, “queue-01”, “queue-02” and 1 more are paused."
    )


@pytest.mark.parametrize(
    ("holds", "said"),
    [
        (4, "The oldest job in “a”, “b” and “c” waits for 1 min: all 4 slots are busy."),
        (3, "Jobs in “a”, “b” and “c” wait for up to 1 min although workers have room."),
    ],
)
def test_many_queues_of_the_same_worker_are_one_trouble(
    build: Callable[..., Page], queue: FakeQueue, holds: int, said: str
) -> None:
    queue.all_workers = AllWorkers(workers=(worker(queues=("a", "b", "c"), holds=holds),), total=1)
    queue.answer = statistics(running=(), queues=dict.fromkeys("abc", waiting(90)["default"]))
    health = build("overview").health
    assert plain(health.sentence) == said
    assert "“a”, “b” and “c”" in health.advice
    assert plain(health.besides) == LEADS


def test_one_busy_slot(build: Callable[..., Page], queue: FakeQueue) -> None:
    queue.all_workers = AllWorkers(workers=(worker(holds=1, slots=1),), total=1)
    queue.answer = statistics(running=(), queues=waiting(90))
    assert plain(build("overview").health.sentence) == (
        "The oldest job in “default” waits for 1 min: the one slot for it is busy."
    )


SILENT = {"heard_ago_s": 16.0}


@pytest.mark.parametrize(
    ("seconds", "ready", "level"), [(30, 1, "bad"), (1, 1, "bad"), (0, 0, "warn")]
)
def test_a_silent_worker_has_no_room(
    build: Callable[..., Page], queue: FakeQueue, seconds: float, ready: int, level: str
) -> None:
    """However short a time anything has waited, and before its claims expire."""
    queue.all_workers = AllWorkers(workers=(worker(**SILENT),), total=1)
    queue.answer = statistics(running=(), queues=waiting(seconds, ready=ready))
    health = build("overview").health
    assert health.level == level
    assert plain(health.sentence) == "The worker of “default” has been silent for 16 s."
    assert "30 s" in plain(health.advice)


def test_the_slots_of_a_silent_worker_do_not_count(
    build: Callable[..., Page], queue: FakeQueue
) -> None:
    queue.all_workers = AllWorkers(
        workers=(worker(name="x", holds=4), worker(name="y", holds=0, **SILENT)), total=2
    )
    queue.answer = statistics(running=(), queues=waiting(90))
    assert "all 4 slots are busy" in build("overview").health.sentence


def test_silent_workers_of_several_queues(build: Callable[..., Page], queue: FakeQueue) -> None:
    queue.all_workers = AllWorkers(
        workers=(
            worker(name="x", queues=("a", "b"), heard_ago_s=40.0),
            worker(name="y", queues=("b",), heard_ago_s=20.0),
            worker(name="z", queues=("c",), heard_ago_s=1.0),
        ),
        total=3,
    )
    queue.answer = statistics(running=(), queues=dict.fromkeys("abc", QueueStats()))
    assert plain(build("overview").health.sentence) == (
        "The workers of “a” and “b” have been silent for 20 s or longer."
    )


def test_a_broker_that_is_challenged_is_about_to_be_succeeded(
    build: Callable[..., Page], queue: FakeQueue, document: FakeReader
) -> None:
    queue.answer = Unavailable("Nothing there.")
    document.world = World()
    document.world.document.broker = statistics().broker
    document.world.document.challenge = Challenge(id="c", by="standby", at=NOW_MS - 2_000)
    health = build("overview").health
    assert health.sentence == "No broker answers."
    assert plain(health.advice) == (
        "Nothing there. A standby has challenged the broker and takes over within 10 s."
    )
    assert health.command == ""
    document.world.document.challenge = Challenge(id="c", by="standby", at=NOW_MS - 60_000)
    assert build("overview").health.command == "python manage.py runbroker", "it has died as well"


def test_no_broker_leads(build: Callable[..., Page], queue: FakeQueue) -> None:
    queue.answer = statistics(broker=None, running=())
    health = build("overview").health
    assert (health.level, health.sentence) == ("bad", "No broker leads.")
    assert health.command == "python manage.py runbroker"


def test_without_brokers_by_choice_that_is_no_trouble(
    build: Callable[..., Page], queue: FakeQueue, settings: Any
) -> None:
    entry = settings.TASKS["default"]
    options = {**entry["OPTIONS"], "MODE": "direct"}
    queue.answer = statistics(broker=None, running=(), queues=QUIET)
    with override_settings(TASKS={"default": {**entry, "OPTIONS": options}}):
        health = build("overview").health
    assert health.level == "good"
    assert plain(health.sentence) == (
        "No broker leads; every process writes by itself, last 0.2 s ago."
    )


def test_no_broker_answers_and_pushes_go_on(
    build: Callable[..., Page], queue: FakeQueue, document: FakeReader
) -> None:
    queue.answer = None
    queue.world.document.broker = statistics().broker
    build("overview")
    document.world = queue.world
    queue.answer = Unavailable("Nothing at 10.0.0.42:3000.")
    assert build("overview").health.sentence == "No broker answers."
    queue.world.push("one", "two", "three")
    page = build("overview")
    assert page.health.sentence == "No broker answers; 3 pushes were written directly."
    assert page.health.level == "bad"
    assert page.health.advice.startswith("Nothing at 10.0.0.42:3000. Jobs wait")
    queue.world.document.broker = None
    sentence = build("overview").health.sentence
    assert sentence == "No broker leads; 3 pushes were written directly."


def test_a_newer_schema_is_named_where_no_broker_of_this_one_can_lead(
    build: Callable[..., Page], queue: FakeQueue, document: FakeReader
) -> None:
    document.world = World()
    document.world.document.schema = SCHEMA + 1
    queue.answer = Unavailable("Nothing there.")
    health = build("overview").health
    assert (health.sentence, health.command) == ("The queue was written by a newer objq.", "")


def test_an_address_that_is_none_is_shown_as_it_is() -> None:
    assert address("ws://[x") == "ws://[x"


def test_the_page_says_that_it_is_of_the_document_and_how_old_that_is(
    build: Callable[..., Page], queue: FakeQueue, document: FakeReader
) -> None:
    document.world = World()
    document.world.document.at = NOW_MS - 65_000
    queue.answer = Unavailable("Nothing there.")
    page = build("overview")
    assert plain(page.note) == (
        "These are the figures of the document itself, as it was written 1 min ago."
    )
    assert page.known


@pytest.mark.parametrize(
    ("error", "level", "sentence", "says", "command"),
    [
        (Unavailable("Nothing at x:3000."), "bad", "No broker answers.", "Nothing at x", True),
        (Unknown("No answer within 2 s."), "bad", "No broker answers.", "No answer", True),
        (NoDocument("There is none."), "bad", "There is no queue yet.", "Start one", True),
        (Corrupt("It is cut off."), "bad", "The queue is not in order.", "It is cut off.", False),
        (ConfigurationError("No S."), "bad", "The settings cannot work.", "No S.", False),
        (Forbidden("Not you."), "bad", "The broker refuses to tell.", "Not you.", False),
        (Overloaded("Later."), "warn", "The broker has more to do than", "Later.", False),
    ],
)
@pytest.mark.parametrize("name", ["overview", "jobs", "job", "workers", "dead", "broker"])
def test_a_queue_that_cannot_be_asked_is_said_with_what_to_run(
    build: Callable[..., Page],
    queue: FakeQueue,
    name: str,
    error: ObjqError,
    level: str,
    sentence: str,
    says: str,
    command: bool,
) -> None:
    queue.answer = error
    page = build(name)
    assert not page.known
    assert page.health.level == level
    assert page.health.sentence.startswith(sentence)
    assert says in page.health.advice
    assert (page.health.command == "python manage.py runbroker") is command
