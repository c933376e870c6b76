"""What pages ask, how often, and whom when the broker is silent."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from objq.core import ops
from objq.errors import (
    ConfigurationError,
    Forbidden,
    NoDocument,
    TooLarge,
    Unavailable,
    Unknown,
    Unsupported,
)
from objq_dashboard.source import source
from objq_dashboard.source.answers import FRESH_S, MAX_ANSWERS, Answers
from objq_dashboard.source.rates import Rates, Seen
from objq_dashboard.source.reading import ReadDocument
from objq_dashboard.source.silence import WAIT_AGAIN_AFTER_S
from objq_dashboard.source.source import Source
from tests.core.world import World
from tests.dashboard.conftest import statistics

if TYPE_CHECKING:
    from pytest_django.fixtures import Settings

    from tests.dashboard.conftest import FakeQueue, FakeReader


class Watch:
    """A clock that only tests move."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


# --- answers that are shared ---------------------------------------------------------------------


def test_the_same_question_is_asked_once_a_second() -> None:
    clock, asked = Watch(), []
    answers = Answers(clock)

    def ask() -> int:
        asked.append(clock.now)
        return len(asked)

    assert [answers.once("q", ask) for _ in range(3)] == [1, 1, 1]
    assert answers.once("another", ask) == 2
    clock.now += FRESH_S + 0.1
    assert answers.once("q", ask) == 3
    answers.expire()
    assert answers.once("q", ask) == 4


def test_who_asks_meanwhile_waits_for_the_answer() -> None:
    answers, began, go = Answers(), threading.Event(), threading.Event()
    asked = []

    def ask() -> str:
        asked.append(1)
        began.set()
        assert go.wait(10)
        return "answer"

    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(answers.once, "q", ask)]
        assert began.wait(10)
        futures += [pool.submit(answers.once, "q", ask) for _ in range(3)]
        go.set()
        assert [future.result(10) for future in futures] == ["answer"] * 4
    assert asked == [1]


def test_an_answer_that_was_under_way_when_it_expired_is_given_to_nobody_else() -> None:
    answers, began, go = Answers(), threading.Event(), threading.Event()

    def slowly() -> str:
        began.set()
        assert go.wait(10)
        return "old"

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(answers.once, "q", slowly)
        assert began.wait(10)
        answers.expire()
        assert answers.once("q", lambda: "new") == "new"
        go.set()
        assert first.result(10) == "old"
    assert answers.once("q", lambda: "newer") == "new"


def test_an_error_is_an_answer_as_well() -> None:
    answers, clock = Answers(), []

    def ask() -> None:
        clock.append(1)
        raise Unavailable("no")

    for _ in range(2):
        with pytest.raises(Unavailable):
            answers.once("q", ask)
    assert clock == [1]


def test_answers_do_not_pile_up() -> None:
    answers = Answers()
    for number in range(2 * MAX_ANSWERS):
        answers.once(number, lambda: None)
    assert len(answers._known) <= MAX_ANSWERS


# --- the broker, and the document in its place ---------------------------------------------------


def test_a_broker_is_asked_and_the_document_is_not(queue: FakeQueue, document: FakeReader) -> None:
    asked = Source("default")
    assert asked.stats() == statistics()
    assert asked.workers() == queue.all_workers
    assert asked.history() == queue.recent
    assert asked.list(ops.Filter()).jobs == ()
    assert asked.get(["absent"]) == (None,)
    assert asked.get([]) == ()
    assert asked.why is None
    assert document.reads == 0


def test_the_history_is_asked_for_more_rarely(queue: FakeQueue) -> None:
    for _ in range(3):
        Source("default").history()
        source.expire("default")
    assert queue.questions == ["history"]
    source.refresh("default")
    Source("default").history()
    assert queue.questions == ["history"] * 2


def test_pages_share_what_was_answered(queue: FakeQueue) -> None:
    for _ in range(3):
        Source("default").stats()
    assert queue.questions == ["stats"]
    source.expire("default")
    Source("default").stats()
    assert queue.questions == ["stats", "stats"]


@pytest.mark.parametrize("error", [Unavailable("gone"), Unknown("silent")])
def test_without_a_broker_the_document_answers(
    queue: FakeQueue, document: FakeReader, error: Exception
) -> None:
    queue.answer = error
    document.world = World()
    document.world.push("job", queue="mail")
    asked = Source("default")
    assert asked.stats().queues["mail"].ready == 1
    assert asked.why is error
    assert asked.reading is not None
    assert [job.id for job in asked.list(ops.Filter()).jobs] == ["job"]
    (job,) = asked.get(["job"])
    assert job is not None and job.queue == "mail"
    assert asked.workers() is None
    assert asked.history() is None
    assert asked.header()["document"] == "doc"


def test_who_neither_meets_is_told_why(queue: FakeQueue) -> None:
    queue.answer = Unavailable("gone")
    asked = Source("default")
    with pytest.raises(NoDocument):
        asked.stats()
    assert asked.why is queue.answer


@pytest.mark.parametrize("error", [ConfigurationError("wrong"), Forbidden("no")])
def test_what_was_refused_is_not_asked_of_the_document(
    queue: FakeQueue, document: FakeReader, error: Exception
) -> None:
    queue.answer = error
    document.world = World()
    with pytest.raises(type(error)):
        Source("default").stats()
    assert document.reads == 0


def test_a_process_that_works_alone_remembers_no_history(
    queue: FakeQueue, document: FakeReader
) -> None:
    queue.recent = Unsupported("alone")
    asked = Source("default")
    assert asked.history() is None
    assert asked.why is None


def test_after_a_silence_pages_do_not_wait_and_the_broker_is_tried_beside(
    queue: FakeQueue, document: FakeReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.answer = Unavailable("gone")
    document.world = World()
    Source("default").stats()
    tried = threading.Event()
    released = threading.Event()

    class Returning:
        def stats(self, **_: Any) -> ops.Statistics:
            tried.set()
            assert released.wait(10)
            return statistics()

    def is_read() -> bool:
        """Ask anew; return whether it was the document that was read."""
        source.expire("default")
        asked = Source("default")
        asked.stats()
        return asked.why is not None

    monkeypatch.setattr("objq.connect", lambda alias: Returning(), raising=False)
    assert is_read()  # and did not wait for the broker, which answers only when released
    assert tried.wait(10)
    released.set()
    until = time.monotonic() + 10
    while is_read():
        assert time.monotonic() < until


def test_where_there_is_no_document_pages_do_not_wait_for_one_either(
    queue: FakeQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.answer = NoDocument("There is none.")
    tried = threading.Event()
    released = threading.Event()

    class Coming:
        def stats(self, **_: Any) -> ops.Statistics:
            tried.set()
            assert released.wait(10)
            return statistics()

    def is_known() -> bool:
        """Ask anew; return whether there is something to tell."""
        source.expire("default")
        try:
            Source("default").stats()
        except NoDocument:
            return False
        return True

    assert not is_known()
    monkeypatch.setattr("objq.connect", lambda alias: Coming(), raising=False)
    assert not is_known()  # and did not wait for the broker that is coming
    assert tried.wait(10)
    released.set()
    until = time.monotonic() + 10
    while not is_known():
        assert time.monotonic() < until


def test_without_brokers_a_document_is_seen_as_soon_as_there_is_one(
    queue: FakeQueue, settings: Settings
) -> None:
    entry = settings.TASKS["default"]
    options = {**entry["OPTIONS"], "MODE": "direct"}
    settings.TASKS = {"default": {**entry, "OPTIONS": options}}
    queue.answer = NoDocument("There is none.")
    with pytest.raises(NoDocument):
        Source("default").stats()
    queue.answer = statistics(broker=None)
    source.expire("default")
    assert Source("default").stats() == queue.answer


def test_a_refusal_that_is_met_beside_is_no_silence(queue: FakeQueue, document: FakeReader) -> None:
    document.world = World()
    queue.answer = Unavailable("gone")
    Source("default").stats()
    queue.answer = Forbidden("no")
    source._shared("default").silence._tried()
    queue.answer = statistics()
    source.expire("default")
    asked = Source("default")
    asked.stats()
    assert asked.why is None, "it was asked again at once"


def test_an_old_silence_is_no_reason_not_to_ask(
    queue: FakeQueue, document: FakeReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    document.world = World()
    queue.answer = Unavailable("gone")
    Source("default").stats()
    queue.answer = statistics()
    silence = source._shared("default").silence
    silence._silent_at -= WAIT_AGAIN_AFTER_S
    source.expire("default")
    asked = Source("default")
    asked.stats()
    assert asked.why is None


def test_pushes_since_a_broker_was_heard_are_counted(
    queue: FakeQueue, document: FakeReader
) -> None:
    queue.answer = None  # the world's own figures
    queue.world.push("one")
    Source("default").stats()
    document.world = queue.world
    queue.world.push("two", "three", queue="mail")
    queue.answer = Unavailable("gone")
    source.expire("default")
    asked = Source("default")
    assert asked.pushed_since_silent(asked.stats()) == 2


def test_without_having_heard_a_broker_that_is_not_known(
    queue: FakeQueue, document: FakeReader
) -> None:
    document.world = World()
    queue.answer = Unavailable("gone")
    asked = Source("default")
    assert asked.pushed_since_silent(asked.stats()) is None


def test_jobs_that_are_too_large_together_are_asked_for_in_parts(
    queue: FakeQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.world.push("one", "two")
    whole = queue.get

    def get(ids: Any, **rest: Any) -> ops.Jobs:
        if len(ids) > 1:
            raise TooLarge("Ask for fewer.")
        return whole(ids)

    monkeypatch.setattr(queue, "get", get)
    assert [job.id if job else None for job in Source("default").get(["one", "two", "none"])] == [
        "one", "two", None
    ]  # fmt: skip


def test_what_is_made_of_many_answers_is_made_once_for_a_version(queue: FakeQueue) -> None:
    made: list[int] = []

    def make() -> int:
        made.append(1)
        return len(made)

    assert [Source("default").derived("x", version, make) for version in (1, 1, 2, 2)] == [
        1, 1, 2, 2
    ]  # fmt: skip


def test_a_document_that_takes_too_long_is_not_waited_for(
    queue: FakeQueue, document: FakeReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()
    queue.answer = Unavailable("gone")
    monkeypatch.setattr(source, "TIMEOUT_S", 0.05)
    monkeypatch.setattr(document, "read", lambda: released.wait(2))
    try:
        with pytest.raises(Unavailable, match="within"):
            Source("default").stats()
    finally:
        released.set()


def test_what_was_not_waited_for_is_not_read_when_the_store_answers_again(
    document: FakeReader,
) -> None:
    reads = ReadDocument("default")
    began, go, ended = threading.Event(), threading.Event(), threading.Event()
    looks: list[str] = []

    def hang(reader: object) -> None:
        looks.append("first")
        began.set()
        assert go.wait(10)

    with pytest.raises(Unavailable, match="within"):
        reads.look(hang, 0.01)
    assert began.wait(10)
    for _ in range(50):
        with pytest.raises(Unavailable, match="within"):
            reads.look(lambda reader: looks.append("late"), 0.001)
    go.set()
    reads.look(lambda reader: ended.set(), 10)
    assert ended.is_set()
    assert looks == ["first"]
    reads.close()


def test_a_document_that_nobody_looks_at_is_let_go(
    queue: FakeQueue, document: FakeReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    from objq_dashboard.source import reading as module

    closed = threading.Event()
    monkeypatch.setattr(module, "KEPT_S", 0.05)
    monkeypatch.setattr(document, "close", closed.set)
    document.world = World()
    queue.answer = Unavailable("gone")
    Source("default").stats()
    assert closed.wait(10)


# --- rates per queue -----------------------------------------------------------------------------


def totals(document: str = "doc-1", **counts: int) -> ops.Statistics:
    queues = {"default": ops.QueueStats(totals=counts)}
    return structs.replace(statistics(), document=document, queues=queues)


def test_rates_are_the_differences_of_the_last_seconds() -> None:
    clock = Watch()
    rates = Rates(clock)
    rates.add(totals(pushed=100, succeeded=90, cancelled=0, failed=5))
    assert rates.of("default") is None  # nothing to differ from
    clock.now += 1.0
    rates.add(totals(pushed=101))
    assert rates.of("default") is None  # too short
    clock.now += 3.0
    rates.add(totals(pushed=108, succeeded=91, cancelled=1, failed=9))
    assert rates.of("default") == Seen(4.0, {"pushed": 2.0, "finished": 0.5, "failed": 1.0})
    assert rates.of("another") is None


def test_rates_forget_what_is_long_ago() -> None:
    clock = Watch()
    rates = Rates(clock)
    for number in range(60):
        rates.add(totals(pushed=min(30, number)))
        clock.now += 1.0
    assert rates.of("default") == Seen(10.0, {"pushed": 0.0, "finished": 0.0, "failed": 0.0})


def test_rates_of_another_document_begin_anew() -> None:
    clock = Watch()
    rates = Rates(clock)
    rates.add(totals(pushed=100))
    clock.now += 5
    rates.add(totals("doc-2", pushed=900))
    assert rates.of("default") is None


def test_nobody_looked_for_a_while() -> None:
    clock = Watch()
    rates = Rates(clock)
    rates.add(totals(pushed=100))
    clock.now += 3600
    rates.add(totals(pushed=900))
    assert rates.of("default") is None


def test_a_long_search_is_kept_for_a_while_and_a_short_one_is_not(
    queue: FakeQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Watch()
    monkeypatch.setattr("objq_dashboard.source.source.monotonic", clock)
    made: list[float] = []

    def make(takes_s: float) -> float:
        clock.now += takes_s
        made.append(clock.now)
        return clock.now

    def look(takes_s: float) -> float:
        return Source("default").kept("q", lambda: make(takes_s))

    look(0.01)
    look(0.01)
    assert len(made) == 2
    first = look(0.1)
    source.expire("default")
    clock.now += 4.8
    assert look(0.1) == first
    clock.now += 0.2
    assert look(0.1) != first
    source.refresh("default")
    assert look(0.1) != made[-2]
    assert len(made) == 5


def test_rates_are_not_told_of_a_broker_that_is_silent(
    queue: FakeQueue, document: FakeReader
) -> None:
    asked = Source("default")
    asked.stats()
    shared = source._shared("default")
    first = shared.silence.rates._samples[0]
    shared.silence.rates._samples[0] = first._replace(at=first.at - 5.0)
    shared.silence.rates.add(statistics())
    assert asked.rates("default")
    asked.why = Unavailable("gone")
    assert asked.rates("default") is None
