"""What each page shows, as text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from objq.core import ops
from objq.core.ops import (
    AllWorkers,
    HistoryPoint,
    Leadership,
    Process,
    QueueStats,
    RecentHistory,
    Running,
    StandbyView,
    WorkerView,
)
from objq.errors import ConfigurationError, Unavailable, Unsupported
from objq_dashboard.masking import MASKED
from objq_dashboard.source import source
from objq_dashboard.wording import SPACE, moment
from tests.core.world import World
from tests.dashboard.conftest import NOW_MS, SINCE_MS, statistics, texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from objq_dashboard.page import Page
    from tests.dashboard.conftest import FakeQueue, FakeReader


def text(page: Page, name: str) -> str:
    return page.texts[name].text.replace(SPACE, " ")


def point(**changes: Any) -> HistoryPoint:
    values: dict[str, Any] = {
        "at": NOW_MS - 1_000, "seconds": 10.0, "pushed": 125, "finished": 30, "failed": 2,
        "ready": 12, "running": 2, "commits": 20, "batch": 3.0, "size_bytes": 2_048,
        "commit_p50_s": 0.02, "commit_p99_s": 0.25, "wait_p50_s": 0.1, "wait_p99_s": 4.0,
    }  # fmt: skip
    return HistoryPoint(**{**values, **changes})


def history(*points: HistoryPoint, **more: Any) -> RecentHistory:
    return RecentHistory(every_s=10.0, points=points, **more)


# --- the overview --------------------------------------------------------------------------------


def test_figures_of_the_overview(build: Callable[..., Page], queue: FakeQueue) -> None:
    queue.recent = history(point(pushed=1), point())
    queue.all_workers = AllWorkers(
        workers=(
            WorkerView(name="a", connected=True, slots=4, holds=2),
            WorkerView(name="b", connected=False, holds=1),
        ),
        total=2,
    )
    page = build("overview")
    assert {name: text(page, name) for name in page.texts if not name.startswith("chart")} == {
        "oldest": "1 min", "waiting": "12", "running": "2", "scheduled": "2", "dead": "1",
        "paused": "1", "pushed": "12 /s", "finished": "3.0 /s", "failed": "0.20 /s",
        "workers": "1 worker, 2 of 4 slots in use", "more": "", "no_history": "",
    }  # fmt: skip
    marks = {name: cell.mark for name, cell in page.texts.items() if cell.mark}
    assert marks == {"oldest": "warn", "dead": "bad", "paused": "warn", "failed": "warn"}
    assert page.texts["oldest"].title == "2025-11-29 15:25:35 UTC"


def test_queues_of_the_overview(build: Callable[..., Page]) -> None:
    page = build("overview")
    assert texts(page.tables["queues"]) == {
        "default": ["default", "open", "1 min", "12", "2", "0", "1", "—", "—", "—"],
        "mail": ["mail", "paused", "—", "0", "0", "2", "0", "—", "—", "—"],
    }
    cells = page.tables["queues"][0].cells
    assert cells[3].href == "jobs/?backend=default&state=ready&queue=default"
    assert cells[6].href == "dead/?backend=default&queue=default"
    assert cells[7].title == "1,500 since the document was made"


def test_rates_of_a_queue_are_known_when_one_has_looked_for_a_while(
    build: Callable[..., Page], queue: FakeQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    build("overview")
    shared = source._shared("default")
    monkeypatch.setattr(shared.silence.rates, "_now", lambda: now[0])
    shared.silence.rates._samples.clear()
    rates = []
    for pushed in (1_500, 1_540):
        totals = {"pushed": pushed, "failed": 4, "succeeded": 1_200, "cancelled": 30}
        queue.answer = statistics(queues={"default": QueueStats(totals=totals)})
        now[0] += 5.0
        rates.append(texts(build("overview").tables["queues"])["default"][-3:])
    assert rates == [["—"] * 3, ["8.0 /s", "0 /s", "0 /s"]]
    queue.recent = history(point())
    page = build("overview")
    assert [text(page, name) for name in ("pushed", "finished", "failed")] == rates[-1], (
        "the figures on top are the queues' together"
    )
    title = page.texts["pushed"].title.replace(SPACE, " ")
    assert title == "of all queues, in the last 5.0 s, in which this site has looked on"
    assert page.tables["queues"][0].cells[-2].title == "1,230 since the document was made"


def test_running_jobs_of_the_overview(build: Callable[..., Page]) -> None:
    page = build("overview")
    assert texts(page.tables["running"]) == {
        "job-1": ["shop.tasks.send", "default", "host-1", "2", "1 min", "started", "21 s, stale"],
        "job-2": ["shop.tasks.send", "default", "host-2", "1", "0.4 s", "claimed", "0.4 s"],
    }
    assert [row.cells[-1].mark for row in page.tables["running"]] == ["bad", "good"]


def test_of_very_many_running_jobs_it_is_said_that_some_are_shown(
    build: Callable[..., Page], queue: FakeQueue
) -> None:
    queue.answer = statistics(queues={"default": QueueStats(running=900)})
    assert text(build("overview"), "more") == (
        "Shown are the 2 of 900 that were heard of longest ago."
    )


def test_charts(build: Callable[..., Page], queue: FakeQueue) -> None:
    queue.recent = history(
        point(at=NOW_MS - 20_000, wait_p50_s=None, wait_p99_s=None), point(at=NOW_MS - 10_000)
    )
    page = build("overview")
    rates = page.charts["rates"]
    assert rates.x == ((NOW_MS - 20_000) / 1000, (NOW_MS - 10_000) / 1000)
    assert [(each.label, each.unit, each.values) for each in rates.series] == [
        ("pushed", "/s", (12.5, 12.5)), ("finished", "/s", (3.0, 3.0)), ("failed", "/s", (0.2, 0.2))
    ]  # fmt: skip
    assert [each.values for each in page.charts["depth"].series] == [(12, 12), (2, 2), (0, 0)]
    assert [each.values for each in page.charts["wait"].series] == [(None, 0.1), (None, 4.0)]
    assert [each.values for each in page.charts["commit"].series] == [(0.02, 0.02), (0.25, 0.25)]
    assert text(page, "chart_wait") == ("p50: 0.10 s, at most 0.10 s; p99: 4.00 s, at most 4.00 s")
    assert text(page, "chart_rates").endswith("failed: 0.20 /s, at most 0.20 /s")


def test_a_chart_whose_newest_point_is_empty_is_not_said_to_stand_where_it_was(
    build: Callable[..., Page], queue: FakeQueue
) -> None:
    """Nothing was claimed since, so nothing had waited."""
    queue.recent = history(point(), point(wait_p50_s=None, wait_p99_s=None))
    assert text(build("overview"), "chart_wait") == (
        "p50: —, at most 0.10 s; p99: —, at most 4.00 s"
    )


@pytest.mark.parametrize("recent", [RecentHistory(every_s=10.0, points=()), Unsupported("alone")])
def test_without_a_history_there_are_no_charts(
    build: Callable[..., Page], queue: FakeQueue, recent: Any
) -> None:
    queue.recent = recent
    page = build("overview")
    assert page.charts == {}
    assert text(page, "pushed") == "—"
    assert text(page, "no_history") == (
        "Only a broker remembers the hour in which it leads."
        if isinstance(recent, Exception)
        else "The broker makes a point every 10 s; there is none yet."
    )
    assert page.known


# --- jobs ----------------------------------------------------------------------------------------


@pytest.fixture
def jobs(queue: FakeQueue) -> World:
    """A queue with a job in each state."""
    queue.answer = None
    world = queue.world
    world.push("dead-1", max_attempts=1)
    world.fail(world.take(), error=ops.JobError(type="shop.errors.NoStock", message="none\nleft"))
    world.push("done-1")
    world.complete(world.take(), b'{"ok":true,"token":"abc"}')
    world.push("gone-1")
    world.operate(ops.Cancel, "gone-1", "ready")
    world.push("run-1", kwargs=b'{"to":"ann","password":"hunter2"}')
    token = world.take()
    world.start(token)
    queue.heard_ago_s[token] = 21.0
    world.push("wait-1", args=b'["a",2]', queue="mail")
    world.push("later-1", run_after=NOW_MS + 300_000)
    return world


def test_jobs_of_all_states(build: Callable[..., Page], jobs: World) -> None:
    rows = texts(build("jobs").tables["jobs"])
    assert {key: row[3] for key, row in rows.items()} == {
        "run-1": "running", "wait-1": "ready", "later-1": "scheduled", "dead-1": "dead",
        "gone-1": "cancelled", "done-1": "succeeded",
    }  # fmt: skip
    assert rows["run-1"][4:6] == [f'to="ann", password={MASKED}', "1/3"]
    assert rows["run-1"][7:] == ["w, for 0.0 s, last heartbeat 21 s, stale"]
    assert rows["wait-1"][2:5] == ["mail", "ready", '"a", 2']
    assert rows["wait-1"][7] == "waits for 0.0 s"
    assert rows["later-1"][7] == "due in 5 min"
    assert rows["dead-1"][7] == "NoStock: none"
    assert rows["done-1"][7] == "0.0 s ago"


def test_counts_of_the_tabs(build: Callable[..., Page], jobs: World) -> None:
    page = build("jobs")
    counts = {name: text(page, name) for name in page.texts if name.startswith("count")}
    assert counts == {
        "count_all": "6", "count_ready": "1", "count_scheduled": "1", "count_running": "1",
        "count_dead": "1", "count_succeeded": "1", "count_cancelled": "1",
    }  # fmt: skip
    mail = build("jobs", queue="mail")
    assert text(mail, "count_all") == text(mail, "count_ready") == "1"
    assert text(mail, "count_succeeded") == "0"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"state": "dead"}, ["dead-1"]),
        ({"queue": "mail"}, ["wait-1"]),
        ({"task": "tasks.t", "state": "running"}, ["run-1"]),
        ({"task": "tasks"}, []),
        ({"text": "done"}, ["done-1"]),
        ({"text": "ann"}, ["run-1"]),
        ({"text": "hunter2"}, []),
        ({"error": "NoStock"}, ["dead-1"]),
    ],
)
def test_filters(
    build: Callable[..., Page], jobs: World, query: dict[str, str], found: list[str]
) -> None:
    assert [row.key for row in build("jobs", **query).tables["jobs"]] == found


def test_a_filter_that_makes_no_sense_shows_nothing_and_says_so(
    build: Callable[..., Page], jobs: World
) -> None:
    for query in ({"state": "nonsense"}, {"cursor": "nonsense"}):
        page = build("jobs", **query)
        assert "jobs" not in page.tables
        assert page.texts["found"].mark == "warn"
        assert page.texts["found"].text
        assert page.known


def test_paging(build: Callable[..., Page], queue: FakeQueue) -> None:
    queue.answer = None
    queue.world.push(*(f"job-{number:03}" for number in range(120)))
    seen: list[str] = []
    query: dict[str, str] = {"state": "ready"}
    for page_number in range(3):
        page = build("jobs", **query)
        seen += [row.key for row in page.tables["jobs"]]
        assert text(page, "first") == ("First page" if page_number else "")
        onward = page.texts["next"]
        if page_number == 2:
            assert onward.text == ""
            break
        assert onward.text == "Next page"
        assert onward.href.startswith("jobs/?backend=default&state=ready&cursor=")
        query = {
            "state": "ready",
            "cursor": onward.href.partition("cursor=")[2].replace("%3D", "="),
        }
    assert seen == [f"job-{number:03}" for number in range(120)]


def test_a_partial_answer_offers_to_search_on(
    build: Callable[..., Page], queue: FakeQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.answer = None
    queue.world.push(*(f"job-{number:03}" for number in range(40)))
    monkeypatch.setattr("objq_dashboard.source.searching.LOOK_FOR_S", -1.0)
    monkeypatch.setattr("objq.core.listing.MAX_SCANNED", 10)
    page = build("jobs", text="job-001")
    assert text(page, "found") == ("1 job found among 10 that were looked at; there may be more.")
    assert text(page, "next") == "Search on"
    assert "text=job-001" in page.texts["next"].href


def test_arguments_that_are_too_long_for_a_row(
    build: Callable[..., Page], queue: FakeQueue
) -> None:
    queue.answer = None
    queue.world.push("long", args=json.dumps(["x" * 200]).encode())
    queue.world.push("longer", args=json.dumps(["x" * 2_000]).encode())
    long, longer = build("jobs").tables["jobs"]
    assert long.cells[4].text.endswith("…")
    assert long.cells[4].title == f'"{"x" * 200}"'
    assert longer.cells[4].text == "too long for a row"


# --- one job -------------------------------------------------------------------------------------


def facts(page: Page) -> dict[str, str]:
    return {key: row[1] for key, row in texts(page.tables["facts"]).items()}


def test_a_running_job(build: Callable[..., Page], jobs: World) -> None:
    page = build("job", job="run-1")
    found = facts(page)
    assert found["holder"] == "w"
    assert found["token"] == jobs.job("run-1").claim.token  # type: ignore[union-attr]
    assert found["heartbeat"] == "21 s, stale"
    assert found["attempts"] == "1 of 3"
    assert text(page, "state-code") == "running"
    assert json.loads(text(page, "kwargs")) == {"to": "ann", "password": MASKED}
    assert text(page, "args") == "—"
    (attempt,) = texts(page.tables["attempts"]).values()
    assert attempt == ["1", attempt[1], "w", "0.0 s", "0.0 s", "runs", "—"]
    assert page.tables["attempts"][0].cells[5].mark == "bad", "as its heartbeat has"
    assert text(page, "why") == ""


def test_a_dead_job(build: Callable[..., Page], jobs: World) -> None:
    dead = jobs.document.find("dead-1")
    assert dead is not None
    page = build("job", job="dead-1")
    assert text(page, "error") == "shop.errors.NoStock: none\nleft"
    assert facts(page)["reason"] == "failed 1 of 1 attempts"
    (attempt,) = page.tables["attempts"]
    assert attempt.cells[5].text == "failed"
    assert attempt.cells[5].mark == "bad"


def test_a_job_that_was_retried(build: Callable[..., Page], queue: FakeQueue) -> None:
    """What was before the retry is not counted among the attempts."""
    queue.answer = None
    world = queue.world
    world.push("job", max_attempts=1)
    world.fail(world.take())
    page = build("job", job="job")
    assert texts(page.tables["facts"])["pushed"][0] == "Pushed"
    world.pass_ms(60_000)
    world.operate(ops.Retry, "job", "dead")
    world.fail(world.take())
    page = build("job", job="job")
    assert texts(page.tables["facts"])["pushed"][0] == "Retried"
    assert facts(page)["attempts"] == "1 of 1 since then"
    assert [row[0] for row in texts(page.tables["attempts"]).values()] == [
        "1, before the retry", "2"
    ]  # fmt: skip


def test_a_running_job_that_is_to_be_cancelled(build: Callable[..., Page], jobs: World) -> None:
    jobs.operate(ops.Cancel, "run-1", "running")
    assert text(build("job", job="run-1"), "why").endswith(
        "A sync task that does not look at its context runs to its end."
    )
    (row,) = (row for row in build("jobs").tables["jobs"] if row.key == "run-1")
    assert row.cells[3].text == "to be cancelled"
    assert "runs to its end" in row.cells[3].title


def test_every_attempt_has_its_traceback(build: Callable[..., Page], queue: FakeQueue) -> None:
    queue.answer = None
    world = queue.world
    world.push("job")
    for number in range(2):
        error = ops.JobError(
            type="builtins.ValueError", message=f"no {number}", traceback=f"T{number}"
        )
        world.fail(world.take(), error=error, retry_after=1.0)
        world.pass_ms(5_000)
    page = build("job", job="job")
    assert [row.cells[-1].detail for row in page.tables["attempts"]] == ["T0", "T1"]
    assert [row.cells[-1].text for row in page.tables["attempts"]] == [
        "ValueError: no 0", "ValueError: no 1"
    ]  # fmt: skip
    assert text(page, "traceback") == "T1"


def test_a_result_is_shown_and_masked(build: Callable[..., Page], jobs: World) -> None:
    page = build("job", job="done-1")
    assert json.loads(text(page, "result")) == {"ok": True, "token": MASKED}
    assert text(page, "error") == ""


def test_a_result_that_was_left_out_says_why(
    build: Callable[..., Page], queue: FakeQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.answer = None
    queue.world = World(max_result_bytes=20)
    queue.world.push("job")
    queue.world.complete(queue.world.take(), b'"' + b"x" * 100 + b'"')
    assert text(build("job", job="job"), "result").startswith("It was left out: ")


def test_numbers_are_shown_as_they_were_pushed(
    build: Callable[..., Page], queue: FakeQueue
) -> None:
    queue.answer = None
    queue.world.push("job", args=b"[1.50,123456789012345678901234567890]")
    shown = text(build("job", job="job"), "args")
    assert shown.split() == ["[", "1.50,", "123456789012345678901234567890", "]"]


def test_very_long_arguments_are_cut(build: Callable[..., Page], queue: FakeQueue) -> None:
    queue.answer = None
    queue.world.push("job", args=json.dumps(["x" * 100_000]).encode())
    shown = text(build("job", job="job"), "args")
    assert len(shown) < 40_000
    assert shown.endswith("more characters")


@pytest.mark.parametrize("job_id", ["absent", "", "x" * 64, "x" * 1_000])
def test_a_job_that_is_not_there(build: Callable[..., Page], queue: FakeQueue, job_id: str) -> None:
    page = build("job", job=job_id)
    assert text(page, "gone").startswith(f"There is no job {job_id}.")
    said = text(page, "gone").removeprefix(f"There is no job {job_id}.")
    assert not any(letter.isdigit() for letter in said)  # the leader's settings may be others
    assert page.tables == {"facts": (), "attempts": ()}
    assert page.known


def test_of_a_time_ordered_id_it_is_known_when_it_was_drawn(
    build: Callable[..., Page], queue: FakeQueue
) -> None:
    time = f"{NOW_MS:012x}"
    for version, known in (("7", True), ("4", False)):
        job_id = f"{time[:8]}-{time[8:]}-{version}000-8000-000000000000"
        said = text(build("job", job=job_id), "gone")
        assert (f"Its id was drawn {moment(NOW_MS)}." in said) is known


# --- why a job waits -----------------------------------------------------------------------------


def why(page: Page) -> str:
    return text(page, "why")


def workers(*queues: str, slots: int = 4, holds: int = 0) -> AllWorkers:
    view = WorkerView(name="w", connected=True, queues=queues, slots=slots, holds=holds)
    return AllWorkers(workers=(view,), total=1)


@pytest.fixture
def line(queue: FakeQueue) -> World:
    queue.answer = None
    queue.world.document.broker = statistics().broker
    queue.all_workers = workers("default")
    return queue.world


def test_behind_others(build: Callable[..., Page], line: World) -> None:
    line.push("one", "two", "three")
    line.push("urgent", priority=5)
    line.push("other", queue="mail")
    assert why(build("job", job="urgent")) == "It is the next of its queue."
    assert why(build("job", job="one")) == "It waits behind 1 other job of its queue."
    assert why(build("job", job="three")) == "It waits behind 3 other jobs of its queue."


def test_behind_more_than_are_counted(
    build: Callable[..., Page], line: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("objq_dashboard.pages.waiting.MOST_AHEAD", 5)
    line.push(*(f"job-{number}" for number in range(10)))
    assert why(build("job", job="job-9")) == (
        "It waits behind at least 5 of the 10 jobs that wait."
    )
    assert "at least 2 of the 10" in why(build("job", job="job-2"))


def test_paused(build: Callable[..., Page], line: World) -> None:
    line.push("job")
    line.apply(ops.Pause(request=line.request(), queue="default"))
    assert why(build("job", job="job")).endswith("Its queue “default” is paused.")


def test_no_worker_and_busy_workers(
    build: Callable[..., Page], line: World, queue: FakeQueue
) -> None:
    line.push("job")
    queue.all_workers = workers("mail")
    assert why(build("job", job="job")).endswith("No worker takes from its queue “default”.")
    queue.all_workers = workers("default", slots=2, holds=2)
    assert why(build("job", job="job")).endswith(
        "All 2 slots of the workers of its queue are busy."
    )
    queue.all_workers = workers("default", slots=2, holds=1)
    assert why(build("job", job="job")) == "It is the next of its queue."
    view = replace(queue.all_workers.workers[0], heard_ago_s=16.0)
    queue.all_workers = AllWorkers(workers=(view,), total=1)
    assert why(build("job", job="job")).endswith("The workers of its queue “default” are silent.")


def test_scheduled_and_backoff(build: Callable[..., Page], line: World) -> None:
    line.push("later", run_after=NOW_MS + 3_600_000)
    assert why(build("job", job="later")).startswith("It is scheduled: due in 1 h, at ")
    line.push("again")
    line.fail(line.take(), retry_after=300.0)
    assert why(build("job", job="again")).startswith("Attempt 1 failed; the next is due in 5 min")


def test_no_broker(build: Callable[..., Page], queue: FakeQueue, document: FakeReader) -> None:
    queue.answer = Unavailable("gone")
    document.world = World()
    document.world.push("job")
    assert why(build("job", job="job")) == (
        "It waits for a broker: none answers. It is the next of its queue."
    )


def test_alone_and_to_be_cancelled(build: Callable[..., Page], line: World) -> None:
    line.push("job")
    line.expire(line.take())
    assert "granted alone" in why(build("job", job="job"))
    line.start(line.take())
    line.operate(ops.Cancel, "job", "running")
    page = build("job", job="job")
    assert why(page).startswith("Its cancellation was asked for")
    assert facts(page)["state"] == "to be cancelled"


# --- workers -------------------------------------------------------------------------------------


def running(number: int) -> Running:
    return Running(
        id=f"job-{number}", queue="default", task="shop.tasks.send", worker="w",
        claimed_at=NOW_MS - 5_000, attempt=1, started=True, heard_ago_s=1.0,
    )  # fmt: skip


def test_workers(build: Callable[..., Page], queue: FakeQueue) -> None:
    queue.all_workers = AllWorkers(
        workers=(
            WorkerView(
                name="busy", connected=True, host="box", version="0.1.0", queues=("a", "b"),
                slots=2, connected_at=NOW_MS - 60_000, heard_ago_s=0.5, holds=2,
                running=(running(1), running(2)),
            ),
            WorkerView(name="idle", connected=True, slots=4, heard_ago_s=1.0),
            WorkerView(
                name="lost", connected=False, heard_ago_s=21.0, holds=1, running=(running(3),)
            ),
        ),
        total=600,
    )  # fmt: skip
    page = build("workers")
    assert texts(page.tables["workers"]) == {
        "busy": ["busy", "connected", "box", "0.1.0", "a, b", "2/2", "shop.tasks.send and 1 other",
                 "1 min", "0.5 s"],
        "idle": ["idle", "connected", "—", "—", "—", "0/4", "—", "—", "1.0 s"],
        "lost": ["lost", "not connected", "—", "—", "—", "1", "shop.tasks.send", "—",
                 "21 s, stale"],
    }  # fmt: skip
    busy, _, lost = page.tables["workers"]
    assert busy.cells[5].mark == "warn"
    assert "job-1" in busy.cells[6].detail and "job-2" in busy.cells[6].detail
    assert lost.cells[1].mark == "bad"
    assert lost.cells[6].href == "jobs/job-3/?backend=default"
    assert lost.cells[8].mark == "bad"
    assert text(page, "total") == "2 workers, 2 of 6 slots in use"
    assert text(page, "more") == "3 of 600 are shown."


def test_without_a_broker_those_are_known_who_hold_jobs(
    build: Callable[..., Page], queue: FakeQueue, document: FakeReader
) -> None:
    queue.answer = Unavailable("gone")
    document.world = World()
    document.world.push("job")
    document.world.take()
    page = build("workers")
    assert texts(page.tables["workers"])["w"][1] == "unknown"
    assert "only a broker knows" in text(page, "more")


def test_nobody_is_called_silent_while_nobody_listens(
    build: Callable[..., Page], queue: FakeQueue, document: FakeReader
) -> None:
    """A worker beats to the broker, so the document tells nothing of it once that is down."""
    queue.answer = Unavailable("gone")
    document.world = World()
    document.world.now = document.world.document.at = NOW_MS - 25_000
    document.world.push("job")
    document.world.start(document.world.take())

    def marks(name: str, table: str, column: int, **query: str) -> list[tuple[str, str]]:
        rows = build(name, **query).tables[table]
        return [
            (row.cells[column].text.replace(SPACE, " "), row.cells[column].mark) for row in rows
        ]

    assert marks("overview", "running", -1) == [("25 s", "")]
    assert marks("workers", "workers", -1) == [("25 s", "")]
    ((standing, mark),) = marks("jobs", "jobs", -1)
    assert (standing[-19:], mark) == ("last heartbeat 25 s", "")
    page = build("job", job="job")
    assert facts(page)["heartbeat"] == "25 s"
    assert [row.cells[5].mark for row in page.tables["attempts"]] == [""]


# --- the dead ------------------------------------------------------------------------------------


def kill(world: World, job_id: str, error: str, message: str = "no") -> None:
    world.push(job_id, max_attempts=1)
    world.fail(world.take(), error=ops.JobError(type=error, message=message))


def test_the_dead_are_grouped_by_task_and_error(
    build: Callable[..., Page], queue: FakeQueue
) -> None:
    queue.answer = None
    for number in range(3):
        kill(queue.world, f"a{number}", "shop.NoStock", f"none {number}")
    kill(queue.world, "b", "builtins.ValueError")
    page = build("dead", error="shop.NoStock", task="tasks.t")
    groups = page.tables["groups"]
    assert [[cell.text for cell in row.cells[:3]] for row in groups] == [
        ["tasks.t", "NoStock", "3"], ["tasks.t", "ValueError", "1"]
    ]  # fmt: skip
    assert groups[0].cells[4].text == "NoStock: none 2"
    assert groups[0].cells[0].href == "dead/?backend=default&task=tasks.t&error=shop.NoStock"
    assert [row.mark for row in groups] == ["chosen", ""]
    assert [row.key for row in page.tables["dead"]] == ["a2", "a1", "a0"]
    assert text(page, "grouped") == ""


def test_groups_follow_the_dead(build: Callable[..., Page], queue: FakeQueue) -> None:
    queue.answer = None
    kill(queue.world, "a", "shop.NoStock")
    build("dead")
    kill(queue.world, "b", "shop.NoStock")
    assert build("dead").tables["groups"][0].cells[2].text == "2"
    queue.world.operate(ops.Retry, "a", "dead")
    assert build("dead").tables["groups"][0].cells[2].text == "1"


def test_of_very_many_dead_the_newest_are_counted_and_that_is_said(
    build: Callable[..., Page], queue: FakeQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("objq_dashboard.pages.dead.GROUPED", 4)
    monkeypatch.setattr("objq_dashboard.pages.dead.PAGE", 2)
    queue.answer = None
    for number in range(7):
        kill(queue.world, f"a{number}", "shop.NoStock")
    page = build("dead")
    assert page.tables["groups"][0].cells[2].text == "4"
    assert text(page, "grouped") == "Counted are the newest 4 of 7 dead jobs."


def test_only_dead_jobs_are_listed_whatever_state_is_asked_for(
    build: Callable[..., Page], jobs: World
) -> None:
    assert [row.key for row in build("dead", state="running").tables["dead"]] == ["dead-1"]


# --- the broker ----------------------------------------------------------------------------------


def test_the_broker_page(
    build: Callable[..., Page], queue: FakeQueue, document: FakeReader
) -> None:
    document.world = World()
    info = statistics().broker
    assert info is not None
    queue.recent = history(
        point(commits=10, conflicts=3, commit_p50_s=0.1), point(),
        process=Process(host="box", pid=4242, started_at=SINCE_MS - 5_000),
        standbys=(StandbyView(id="s", url="ws://10.0.0.43:3000/objq/v1/", version="0.1.0",
                              host="box-2", pid=7, asked_ago_s=0.2),),
        leaderships=(Leadership(epoch=7, broker=info, why="nobody leads"),
                     Leadership(epoch=6, broker=replace(info, id="broker-0"))),
    )  # fmt: skip
    page = build("broker")
    broker = {key: row[1] for key, row in texts(page.tables["broker"]).items()}
    assert broker["url"] == "10.0.0.42:3000"
    assert (broker["id"], broker["version"], broker["epoch"]) == ("broker-1", "0.1.0", "7")
    assert (broker["host"], broker["pid"]) == ("box", "4242")
    known = {key: row[1] for key, row in texts(page.tables["document"]).items()}
    assert (known["commit"], known["size"], known["jobs"]) == ("48,213", "2.0 KiB", "3.4 KiB")
    commits = {key: row[1:] for key, row in texts(page.tables["commits"]).items()}
    assert commits == {
        "rate": ["2.0 /s", "1.5 /s"], "p50": ["20 ms", "0.10 s"], "p99": ["0.25 s", "0.25 s"],
        "batch": ["3.0", "3.0"], "conflicts": ["0", "3"], "throttled": ["0", "0"],
    }  # fmt: skip
    assert texts(page.tables["standbys"]) == {
        "s": ["s", "10.0.0.43:3000", "box-2", "7", "0.1.0", "0.2 s ago"]
    }
    assert [row[3:5] for row in texts(page.tables["takeovers"]).values()] == [
        ["nobody leads", "broker-1"], ["—", "broker-0"]
    ]  # fmt: skip
    assert json.loads(text(page, "header"))["document"] == "doc"


def test_a_header_that_cannot_be_read_from_here_says_why(
    build: Callable[..., Page], queue: FakeQueue
) -> None:
    page = build("broker")
    assert page.known
    assert text(page, "header") == "There is no document."


def test_a_site_that_cannot_open_the_store_shows_what_the_broker_tells(
    build: Callable[..., Page], queue: FakeQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(alias: str) -> None:
        raise ConfigurationError("There are no credentials.")

    monkeypatch.setattr("objq_dashboard.source.reading.document_reader", fail)
    page = build("broker")
    assert page.known
    assert text(page, "header") == "There are no credentials."
    assert texts(page.tables["broker"])["epoch"][1] == "7"


def test_a_broker_that_is_silent_is_named_as_such(
    build: Callable[..., Page], queue: FakeQueue, document: FakeReader
) -> None:
    queue.answer = Unavailable("gone")
    document.world = World()
    document.world.document.broker = statistics().broker
    page = build("broker")
    found = texts(page.tables["broker"])
    assert found["state"][1] == "does not answer; the document still names it"
    assert texts(page.tables["document"])["size"][1] == "4.2 KiB"
    assert page.tables["commits"] == page.tables["standbys"] == page.tables["takeovers"] == ()
    for name in ("no_commits", "no_standby", "takeovers_said"):
        assert text(page, name).startswith("Only a broker that leads knows "), name
    assert text(page, "start_standby") == "", "there may be one"
    document.world.document.challenge = ops.Challenge(id="c", by="s", at=NOW_MS)
    assert text(build("broker"), "no_standby") == (
        "A standby has challenged the broker and takes over within 10 s."
    )


def test_a_broker_that_has_no_points_yet_is_not_said_to_lead_not(
    build: Callable[..., Page], queue: FakeQueue
) -> None:
    page = build("broker")
    assert text(page, "no_commits") == "The broker makes a point every 10 s; there is none yet."
    assert text(page, "no_standby").startswith("No standby asks the broker.")
    assert "process of the broker" in text(page, "takeovers_said")
