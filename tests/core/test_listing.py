"""Pages of jobs: order, filters, cursors that outlive what they name, and bounds (design §7)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from objq.core import codec, listing, ops
from objq.core.listing import Listing
from objq.core.summaries import MOST_ARGUMENT_BYTES, MOST_MESSAGE_CHARS
from objq.errors import Invalid
from tests.core.world import World


class Lister:
    """A world and who lists it."""

    def __init__(self, **limits: Any) -> None:
        self.world = World(**limits)
        self.listing = Listing()

    def page(self, cursor: str | None = None, limit: int = 50, **wanted: Any) -> ops.Listed:
        op = ops.ListJobs(filter=ops.Filter(**wanted), page=ops.Page(cursor=cursor, limit=limit))
        return self.listing.page(self.world.document, op, lambda token: 1.5)

    def pages(self, limit: int = 50, **wanted: Any) -> Iterator[ops.Listed]:
        page = self.page(None, limit, **wanted)
        yield page
        while page.cursor is not None:
            page = self.page(page.cursor, limit, **wanted)
            yield page

    def ids(self, limit: int = 50, **wanted: Any) -> list[str]:
        return [job.id for page in self.pages(limit, **wanted) for job in page.jobs]

    def reload(self) -> None:
        """Go on with the document as the next leader reads it."""
        self.world.document = codec.decode(codec.encode(self.world.document))
        self.world.document.epoch += 1


def seed() -> Lister:
    """Return jobs in every state, two of each but one that runs."""
    lister = Lister()
    world = lister.world
    for name in ("done", "died", "gone"):
        for number in (1, 2):
            world.push(f"{name}-{number}", max_attempts=1, queue=name)
            if name == "gone":
                world.operate(ops.Cancel, f"{name}-{number}", "ready")
                continue
            (grant,) = world.claim(world.request(), 1, name)
            if name == "done":
                world.complete(grant.token)
            else:
                world.fail(grant.token, error=ops.JobError(type="shop.Down", message="no route"))
    world.push("runs-1")
    world.start(world.take())
    world.push("waits-1", "waits-2", args=b'["caf\\u00e9"]')
    world.push("later-1", run_after=world.now + 60_000)
    return lister


# --- order and filters ---------------------------------------------------------------------------


def test_waiting_jobs_come_in_push_order_and_ended_ones_newest_first() -> None:
    ids = ["runs-1", "waits-1", "waits-2", "later-1", "died-2", "died-1"]
    assert seed().ids() == [*ids, "gone-2", "gone-1", "done-2", "done-1"]


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        ({"states": ("ready",)}, ["waits-1", "waits-2"]),
        ({"states": ("running", "dead")}, ["runs-1", "died-2", "died-1"]),
        ({"states": ("scheduled",)}, ["later-1"]),
        ({"states": ("succeeded",)}, ["done-2", "done-1"]),
        ({"states": ("cancelled",)}, ["gone-2", "gone-1"]),
        ({"queues": ("died", "gone")}, ["died-2", "died-1", "gone-2", "gone-1"]),
        ({"queues": ("nobody",)}, []),
        ({"states": ("ready",), "queues": ("died",)}, []),
        ({"task": "tasks.t", "states": ("dead",)}, ["died-2", "died-1"]),
        ({"task": "tasks"}, []),
        ({"text": "waits"}, ["waits-1", "waits-2"]),
        ({"text": "aits"}, []),
        ({"text": "café"}, ["waits-1", "waits-2"]),
        ({"text": "sks.t", "states": ("running",)}, ["runs-1"]),
        ({"text": "pushed_at"}, []),
        ({"error": "shop.Down"}, ["died-2", "died-1"]),
        ({"error": "no route", "queues": ("died",)}, ["died-2", "died-1"]),
        ({"error": "failed 1 of 1"}, ["died-2", "died-1"]),
        ({"error": "café"}, []),
    ],
)
def test_a_filter_keeps_what_meets_all_of_it(wanted: dict[str, Any], ids: list[str]) -> None:
    assert seed().ids(**wanted) == ids
    assert seed().ids(limit=1, **wanted) == ids


@pytest.mark.parametrize("spelling", [b'["caf\\u00e9 \\"x\\""]', '["café \\"x\\""]'.encode()])
def test_text_is_found_however_the_arguments_spell_it(spelling: bytes) -> None:
    lister = Lister()
    lister.world.push("a", args=spelling)
    lister.world.push("b", args=b'["other"]')
    assert lister.ids(text='café "x"') == ["a"]


def test_totals_are_told_where_they_cost_nothing() -> None:
    lister = seed()
    assert lister.page().total == 10
    assert lister.page(states=("ready", "dead")).total == 4
    assert lister.page(queues=("done", "nobody")).total == 2
    assert lister.page(text="x").total is None


def test_a_row_tells_what_an_overview_needs() -> None:
    lister = seed()
    (running,) = lister.page(states=("running",)).jobs
    assert (running.worker, running.heard_ago_s, running.attempts) == ("w", 1.5, 1)
    assert running.started_at == lister.world.now
    dead = lister.page(states=("dead",)).jobs[0]
    assert dead.error == ops.ErrorSummary(type="shop.Down", message="no route")
    assert dead.reason == "failed 1 of 1 attempts" and dead.finished_at == lister.world.now
    assert bytes(lister.page(states=("ready",)).jobs[0].args or b"") == b'["caf\\u00e9"]'


def test_a_row_is_small_however_large_its_job() -> None:
    lister = Lister()
    lister.world.push("a", args=b'["%s"]' % (b"x" * MOST_ARGUMENT_BYTES), max_attempts=1)
    error = ops.JobError(type="E", message="m" * 5_000, traceback="t" * 5_000)
    lister.world.fail(lister.world.take(), error=error)
    (row,) = lister.page().jobs
    assert row.args is msgspec.UNSET and row.kwargs is msgspec.UNSET
    assert row.error is not None and len(row.error.message) == MOST_MESSAGE_CHARS + 1
    assert len(msgspec.json.encode(row)) < 1_000


# --- cursors -------------------------------------------------------------------------------------


def test_pages_show_each_job_once_while_jobs_come_and_go() -> None:
    lister = Lister()
    world = lister.world
    world.push(*(f"job-{number:03}" for number in range(100)))
    page = lister.page(limit=10)
    seen = [job.id for job in page.jobs]
    while page.cursor is not None:
        world.operate(ops.Delete, seen[-1], "ready")  # the very job that the cursor names
        world.push(f"new-{len(seen):03}")
        page = lister.page(page.cursor, limit=10)
        seen += [job.id for job in page.jobs]
    assert len(seen) == len(set(seen))
    assert seen[:100] == [f"job-{number:03}" for number in range(100)]


@pytest.mark.parametrize("gone", [False, True])
@pytest.mark.parametrize("state", ["ready", "dead"])
def test_a_cursor_goes_on_after_a_take_over(state: Any, gone: bool) -> None:
    lister = Lister()
    for number in range(20):
        lister.world.now += 1
        lister.world.document.uptime_ms += 1
        lister.world.push(f"job-{number:02}", max_attempts=1)
        if state == "dead":
            lister.world.fail(lister.world.take())
    expected = lister.ids(states=(state,))
    page = lister.page(limit=7, states=(state,))
    if gone:
        lister.world.operate(ops.Delete, page.jobs[-1].id, state)
    lister.reload()
    lister.listing = Listing()
    rest = lister.page(page.cursor, limit=50, states=(state,))
    assert [job.id for job in (*page.jobs, *rest.jobs)] == expected


def test_a_job_that_was_retried_does_not_carry_the_cursor_with_it() -> None:
    lister = Lister()
    lister.world.push(*"abcd", max_attempts=1)
    page = lister.page(limit=2)
    lister.world.operate(ops.Cancel, "b", "ready")
    lister.world.operate(ops.Retry, "b", "cancelled")
    assert [job.id for job in lister.page(page.cursor).jobs] == ["c", "d", "b"]


@pytest.mark.parametrize("cursor", ["", "x", "é", "e30=", "WzksMSwiIiwxLCJ4Il0=", "WzAsMV0="])
def test_a_cursor_that_is_none_is_refused(cursor: str) -> None:
    with pytest.raises(Invalid, match="cursor"):
        Lister().page(cursor)


# --- bounds --------------------------------------------------------------------------------------


def test_one_request_looks_at_a_bounded_number_of_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MAX_SCANNED", 10)
    lister = Lister()
    lister.world.push(*(f"job-{number:02}" for number in range(35)))
    pages = list(lister.pages(text="job-34"))
    assert [len(page.jobs) for page in pages] == [0, 0, 0, 1]
    assert [page.partial for page in pages] == [True, True, True, False]
    assert [page.scanned for page in pages] == [10, 10, 10, 5]


@pytest.mark.parametrize("name", ["MAX_SCANNED_BYTES", "MAX_DECODED"])
def test_text_and_decoding_are_bounded_too(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, name, 3)
    lister = Lister()
    lister.world.push(*(f"job-{number:02}" for number in range(20)))
    assert lister.page(text="tasks.t").partial
    assert lister.ids(text="tasks.t") == [f"job-{number:02}" for number in range(20)]


def test_a_few_jobs_among_many_are_found_in_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MAX_SCANNED", 40)
    lister = Lister()
    world = lister.world
    for number in range(100):
        world.push(f"job-{number:03}", queue="default" if number % 25 else "mail")
    world.push("later", run_after=world.now + 1000)
    world.take()
    wanted: dict[str, Any]
    for wanted, count in (
        ({"queues": ("mail",), "states": ("ready",)}, 4),
        ({"states": ("scheduled",)}, 1),
        ({"states": ("running",)}, 1),
        ({"states": ("dead", "succeeded")}, 0),
    ):
        page = lister.page(**wanted)
        assert (len(page.jobs), page.cursor, page.partial) == (count, None, False)


def test_the_line_of_a_queue_that_was_drained_does_not_stay_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listing, "SLACK", 10)
    monkeypatch.setattr(listing, "MAX_SCANNED", 20)  # so that the line is used
    lister = Lister()
    lister.world.push(*(f"job-{number:03}" for number in range(100)))
    assert len(lister.page(limit=5).jobs) == 5
    for number in range(95):
        lister.world.operate(ops.Delete, f"job-{number:03}", "ready")
    lister.world.push(*(f"new-{number:03}" for number in range(30)))
    assert lister.ids() == [
        *(f"job-{number:03}" for number in range(95, 100)),
        *(f"new-{number:03}" for number in range(30)),
    ]


def something_happens(lister: Lister, rng: random.Random, step: int, limit: int) -> None:
    world = lister.world
    match rng.randrange(7):
        case 0 | 1:
            later = world.now + 50 if rng.random() < 0.2 else None
            world.push(f"job-{step}", queue=rng.choice("ab"), run_after=later, max_attempts=2)
        case 2:
            world.claim(world.request(), rng.randrange(1, 3), "a", "b")
        case 3:
            for token in list(world.document.claims)[:1]:
                rng.choice([world.complete, world.fail, world.release])(token)
        case 4:
            for job in list(world.document.dead.values())[:1]:
                world.operate(ops.Retry, job.id, "dead")
        case 5:
            lister.page(limit=limit)
        case 6:
            if rng.random() < 0.3:
                lister.reload()


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), limit=st.integers(1, 9))
def test_whatever_happened_pages_are_what_a_scan_would_find(seed: int, limit: int) -> None:
    rng = random.Random(seed)
    lister = Lister()
    world = lister.world
    states: list[Any] = ["scheduled", "ready", "running", "succeeded", "dead", "cancelled"]
    for step in range(60):
        world.now += rng.randrange(3)
        something_happens(lister, rng, step, limit)
    wanted: dict[str, Any] = {
        "states": tuple(rng.sample(states, rng.randrange(4))),
        "queues": tuple(rng.sample("ab", rng.randrange(2))),
    }
    document = world.document
    everything = [
        *document.jobs.values(),
        *reversed(document.dead.values()),
        *reversed(document.finished.values()),
    ]
    expected = [
        job.id
        for job in everything
        if (not wanted["states"] or job.state in wanted["states"])
        and (not wanted["queues"] or job.queue in wanted["queues"])
    ]
    assert lister.ids(limit, **wanted) == expected
    assert lister.page(**wanted).total == len(expected)
