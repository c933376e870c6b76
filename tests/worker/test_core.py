"""The worker's loop against a broker in memory, on virtual time."""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import Raw

from objq.core.ops import (
    MAX_RECORD_BYTES,
    Complete,
    DocumentSettings,
    Fail,
    Heartbeat,
    JobError,
    Problem,
    Release,
    TakeClaim,
)
from objq.errors import ExpiredId, Forbidden, Overloaded, TooLarge, Unavailable, Unknown
from objq.framing import MAX_FRAME_BYTES
from objq.ids import Ids
from objq.worker import Ending, Worker, WorkerOptions
from tests.virtual import VirtualClock, VirtualLoop, simulate
from tests.worker.fakes import FakeBroker, FakeExecutor

T_S = 30.0


class World:
    def __init__(self, jobs: int = 0, **options: Any) -> None:
        self.broker = FakeBroker(jobs)
        self.executor = FakeExecutor(self.broker.notify)
        in_doubt = options.pop("in_doubt", lambda claim: True)
        settings = DocumentSettings(
            heartbeat_timeout_s=T_S, max_result_bytes=options.pop("max_result_bytes", 1000)
        )
        self.broker.document.settings = settings
        given = {"slots": 2, "prefetch": 2, "shutdown_grace_s": 30.0, **options}
        ids = Ids(random.Random(1))
        self.worker = Worker(
            self.broker,
            self.executor,
            WorkerOptions(name="w", queues=("default",), **given),
            settings=lambda: settings,
            clock=VirtualClock(),
            ids=ids,
            claim_id=ids.token,
            in_doubt=in_doubt,
        )
        self.running: asyncio.Task[Ending]

    async def until(self, what: Any) -> None:
        await self.broker.until(what)

    async def warm_up(self) -> None:
        self.broker.push("job-99")
        await self.until(lambda: not self.worker.holdings and "token-99" in self.broker.done)
        await asyncio.sleep(1)  # a claim waits again
        for record in (self.broker.sent, self.broker.done, self.executor.started):
            record.clear()

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()


@asynccontextmanager
async def world(jobs: int = 0, *, warm: bool = False, **options: Any) -> AsyncIterator[World]:
    """A worker that runs; it is drained at the end unless it has ended.

    `warm`: it has run a short job before, and so prefetches.
    """
    made = World(0 if warm else jobs, **options)
    made.running = asyncio.create_task(made.worker.run())
    try:
        if warm:
            await made.warm_up()
            made.broker.push(*(f"job-{number}" for number in range(jobs)))
        yield made
        made.worker.drain()
        await made.running
    finally:
        made.running.cancel()


def test_jobs_are_claimed_run_and_reported_in_order() -> None:
    async def scenario() -> None:
        async with world(5) as w:
            await w.until(lambda: len(w.broker.done) == 5)
            assert w.executor.started == [f"job-{n}" for n in range(5)]

    simulate(scenario())


def test_a_slot_that_is_free_waits_for_a_job_a_quarter_of_the_timeout() -> None:
    async def scenario() -> None:
        async with world(slots=3, prefetch=4) as w:
            await w.until(lambda: len(w.broker.of(TakeClaim)) == 2)
            look, claim = w.broker.of(TakeClaim)
            assert (look.max, look.wait) == (3, 0.0)
            assert (claim.max, claim.wait, claim.worker) == (3, T_S / 4, "w")

    simulate(scenario())


def test_no_more_jobs_are_held_than_slots_and_prefetch() -> None:
    async def scenario() -> None:
        async with world(10, warm=True) as w:
            w.executor.gate("job-0", "job-1")
            await w.until(lambda: len(w.broker.live) == 4)
            await asyncio.sleep(1)
            assert (len(w.broker.live), len(w.executor.started)) == (4, 2)
            w.executor.open("job-0", "job-1")
            await w.until(lambda: len(w.broker.done) == 10)

    simulate(scenario())


def test_nothing_is_prefetched_while_jobs_take_long() -> None:
    async def scenario() -> None:
        async with world(10) as w:
            jobs = [f"job-{number}" for number in range(10)]
            w.executor.gate(*jobs)
            for job in jobs:
                await w.until(lambda: job in w.executor.started)  # noqa: B023
                await asyncio.sleep(T_S)
                assert len(w.broker.live) <= 2
                w.executor.open(job)
            await w.until(lambda: len(w.broker.done) == 10)

    simulate(scenario())


def test_a_busy_worker_leaves_a_new_job_to_whoever_is_free() -> None:
    async def scenario() -> None:
        async with world(2, warm=True) as w:
            w.executor.gate("job-0", "job-1")
            await w.until(lambda: len(w.executor.started) == 2)
            await asyncio.sleep(1)
            before = len(w.broker.of(TakeClaim))
            w.broker.push("job-2")
            await asyncio.sleep(T_S)
            assert len(w.broker.of(TakeClaim)) == before
            assert w.broker.live == ["token-0", "token-1"]
            w.executor.open("job-0")
            await w.until(lambda: "job-2" in w.executor.started)
            w.executor.open("job-1")

    simulate(scenario())


def test_prefetched_jobs_behind_one_that_takes_long_are_handed_back() -> None:
    async def scenario() -> None:
        async with world(2, slots=1, warm=True) as w:
            w.executor.gate("job-0")
            await w.until(lambda: w.broker.released == ["token-1"])
            await asyncio.sleep(T_S)
            assert w.broker.live == ["token-0"]
            w.executor.open("job-0")

    simulate(scenario())


def test_when_the_reply_to_a_claim_is_lost_the_same_claim_is_sent_again() -> None:
    async def scenario() -> None:
        async with world(2) as w:
            w.broker.lose_reply(TakeClaim, Unknown("cut"))
            w.broker.lose_reply(TakeClaim, Unavailable("no broker"))
            await w.until(lambda: len(w.broker.done) == 2)
            first, second, third = w.broker.of(TakeClaim)[:3]
            assert first == second == third
            assert w.executor.started == ["job-0", "job-1"]

    simulate(scenario())


def test_every_answered_claim_is_followed_by_one_with_a_new_id() -> None:
    async def scenario() -> None:
        async with world() as w:
            await w.until(lambda: len(w.broker.of(TakeClaim)) == 3)
            assert len({claim.claim for claim in w.broker.of(TakeClaim)}) == 3

    simulate(scenario())


def test_a_claim_that_is_refused_for_its_age_gets_a_new_id() -> None:
    async def scenario() -> None:
        async with world(1) as w:
            w.broker.refuse(TakeClaim, ExpiredId("old"))
            await w.until(lambda: len(w.broker.done) == 1)
            first, second = w.broker.of(TakeClaim)[:2]
            assert first.claim != second.claim

    simulate(scenario())


def test_a_refused_claim_is_repeated_at_leisure(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with world(1) as w:
            w.broker.refuse(TakeClaim, TooLarge("odd"))
            await w.until(lambda: len(w.broker.done) == 1)

    simulate(scenario())
    assert "claim_refused" in events(caplog)


def test_empty_answers_that_do_not_wait_are_not_asked_for_in_a_tight_loop() -> None:
    async def scenario() -> None:
        async with world() as w:
            w.broker.replaces_claims = False
            w.broker._claim = lambda op: _nothing()  # type: ignore[method-assign]
            await asyncio.sleep(10)
            assert len(w.broker.of(TakeClaim)) <= 200

    async def _nothing() -> Any:
        from objq.core.ops import Granted

        return Granted()

    simulate(scenario())


# --- the start rule ------------------------------------------------------------------------------


def test_a_job_granted_by_an_answer_that_came_late_starts_only_after_a_fresh_heartbeat() -> None:
    """The claim was sent more than T/2 ago when its answer arrives: the process was stopped."""

    async def scenario() -> None:
        async with world() as w:
            await w.until(lambda: bool(w.broker.of(TakeClaim)))
            await asyncio.sleep(0.1)
            loop = asyncio.get_running_loop()
            assert isinstance(loop, VirtualLoop)
            w.broker.push("job-0")
            loop.jump(T_S / 2)
            await w.until(lambda: len(w.broker.done) == 1)
            beats = [sent for sent in w.broker.sent if isinstance(sent.op, Heartbeat)]
            assert beats[0].op.tokens == ("token-0",)  # type: ignore[attr-defined]
            assert beats[0].at < w.executor.started_at["job-0"]

    simulate(scenario())


def test_waiting_jobs_do_not_start_while_heartbeats_are_not_answered() -> None:
    async def scenario() -> None:
        async with world(2, slots=1, warm=True) as w:
            w.executor.gate("job-0")
            await w.until(lambda: len(w.broker.live) == 2)
            await asyncio.sleep(0.1)
            w.broker.down = Unavailable("cut from the store")
            await asyncio.sleep(T_S / 2)
            w.executor.open("job-0")
            await asyncio.sleep(T_S)
            assert w.executor.started == ["job-0"]
            w.broker.down = None
            await w.until(lambda: len(w.broker.done) == 2)

    simulate(scenario())


def test_every_start_is_within_half_the_timeout_of_sending_what_was_answered() -> None:
    async def scenario() -> None:
        async with world(4, slots=1, prefetch=4) as w:
            w.broker.latency_s = 1.0
            w.executor.gate("job-0", "job-1", "job-2")
            for job in ("job-0", "job-1", "job-2"):
                await w.until(lambda: job in w.executor.started)  # noqa: B023
                await asyncio.sleep(T_S * 2)
                w.executor.open(job)
            await w.until(lambda: len(w.broker.done) == 4)
            sendings = [s.at for s in w.broker.sent if isinstance(s.op, Heartbeat | TakeClaim)]
            for started_at in w.executor.started_at.values():
                assert any(0 < started_at - at < T_S / 2 for at in sendings)

    simulate(scenario())


# --- heartbeats ----------------------------------------------------------------------------------


def test_heartbeats_go_every_sixth_and_say_what_has_started() -> None:
    async def scenario() -> None:
        async with world(1) as w:
            w.executor.gate("job-0")
            await w.until(lambda: len(w.broker.of(Heartbeat)) == 7)
            beats = [sent for sent in w.broker.sent if isinstance(sent.op, Heartbeat)]
            gaps = {round(b.at - a.at, 3) for a, b in itertools.pairwise(beats)}
            assert gaps == {T_S / 6}
            assert w.broker.of(Heartbeat)[0] == Heartbeat(tokens=("token-0",), started=("token-0",))
            w.executor.open("job-0")

    simulate(scenario())


def test_who_holds_nothing_does_not_beat() -> None:
    async def scenario() -> None:
        async with world() as w:
            await asyncio.sleep(T_S * 2)
            assert not w.broker.of(Heartbeat)

    simulate(scenario())


def test_a_heartbeat_that_fails_is_followed_by_the_next_and_jobs_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        async with world(1) as w:
            w.executor.gate("job-0")
            w.broker.refuse(Heartbeat, Unavailable("once"))
            await w.until(lambda: len(w.broker.of(Heartbeat)) == 3)
            assert not w.executor.controls["job-0"].claim_lost
            w.executor.open("job-0")
            await w.until(lambda: len(w.broker.done) == 1)

    simulate(scenario())
    assert events(caplog)[:1] == ["broker_unreachable"]


def test_claims_that_are_refused_while_heartbeats_are_answered_are_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        async with world(1) as w:
            w.executor.gate("job-0")
            await w.until(lambda: bool(w.executor.started))
            for _ in range(20):
                w.broker.refuse(TakeClaim, Overloaded("too much", retry_after_s=T_S / 6))
            before = len(w.broker.of(TakeClaim))
            await w.until(lambda: len(w.broker.of(TakeClaim)) == before + 22)
            w.executor.open("job-0")

    with caplog.at_level(logging.INFO, "objq.worker"):
        simulate(scenario())
    told = [record.message for record in caplog.records if hasattr(record, "code")]
    assert told == ["The broker refuses claims for now, going on trying: overloaded: too much"]
    assert events(caplog).count("broker_back") == 1
    assert "The broker takes claims again" in caplog.messages


def test_heartbeats_go_out_on_time_although_none_is_answered() -> None:
    async def scenario() -> None:
        async with world(1) as w:
            w.executor.gate("job-0")
            await w.until(lambda: bool(w.executor.started))
            w.broker.latency_s = T_S / 2
            before = len(w.broker.of(Heartbeat))
            await asyncio.sleep(T_S)
            assert len(w.broker.of(Heartbeat)) - before >= 5
            w.broker.latency_s = 0.01
            w.executor.open("job-0")

    simulate(scenario())


def test_an_ended_job_is_kept_alive_until_its_outcome_is_answered() -> None:
    async def scenario() -> None:
        async with world(1) as w:
            for _ in range(20):
                w.broker.refuse(Complete, Unavailable("not now"))
            await w.until(lambda: len(w.broker.done) == 1)
            assert all(beat.tokens == ("token-0",) for beat in w.broker.of(Heartbeat)[1:])
            assert len(w.broker.of(Heartbeat)) > 3

    simulate(scenario())


def test_a_lost_job_that_has_not_started_is_dropped() -> None:
    async def scenario() -> None:
        async with world(2, slots=1, warm=True) as w:
            w.executor.gate("job-0")
            await w.until(lambda: len(w.broker.live) == 2)
            await asyncio.sleep(0.1)
            w.broker.lose("token-1")
            await w.until(lambda: len(w.broker.of(Heartbeat)) == 3)
            assert w.broker.of(Heartbeat)[-1].tokens == ("token-0",)
            assert not w.broker.of(Release)
            w.executor.open("job-0")
            await w.until(lambda: len(w.broker.done) == 1)
            assert w.executor.started == ["job-0"]

    simulate(scenario())


def test_a_lost_job_that_runs_goes_on_and_its_refused_outcome_is_an_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        async with world(1) as w:
            w.executor.gate("job-0")
            await w.until(lambda: bool(w.executor.started))
            w.broker.lose("token-0")
            await w.until(lambda: bool(w.broker.of(Heartbeat)))
            await asyncio.sleep(1)
            assert w.executor.controls["job-0"].claim_lost
            assert not w.worker.holdings.tokens()
            w.executor.open("job-0")
            await w.until(lambda: bool(w.broker.of(Complete)))
            await asyncio.sleep(1)
            assert len(w.broker.of(Complete)) == 1
            assert not w.worker.holdings

    simulate(scenario())
    assert events(caplog) == ["claim_lost", "claim_lost"]


def test_a_cancelled_running_job_is_told_and_a_waiting_one_is_released() -> None:
    async def scenario() -> None:
        async with world(2, slots=1, warm=True) as w:
            w.executor.gate("job-0")
            await w.until(lambda: w.executor.started == ["job-0"])
            w.broker.cancel("job-0", "job-1")
            await w.until(lambda: w.broker.released == ["token-1"])
            assert w.executor.controls["job-0"].cancel_requested
            w.executor.open("job-0")
            await w.until(lambda: len(w.broker.done) == 1)
            assert w.executor.started == ["job-0"]

    simulate(scenario())


# --- reports -------------------------------------------------------------------------------------


def test_what_ends_while_a_report_is_under_way_goes_together_into_the_next() -> None:
    async def scenario() -> None:
        async with world(6, slots=6) as w:
            jobs = [f"job-{n}" for n in range(6)]
            w.executor.gate(*jobs)
            await w.until(lambda: len(w.executor.started) == 6)
            w.broker.latency_s = 1.0
            w.executor.open("job-0")
            await w.until(lambda: bool(w.broker.of(Complete)))
            w.executor.open(*jobs[1:])
            await w.until(lambda: len(w.broker.done) == 6)
            assert [len(report.items) for report in w.broker.of(Complete)] == [1, 5]

    simulate(scenario())


def test_failures_are_reported_as_such() -> None:
    async def scenario() -> None:
        async with world(1) as w:
            w.executor.failing.add("job-0")
            await w.until(lambda: len(w.broker.done) == 1)
            assert w.broker.of(Fail)[0].items[0].error.type == "builtins.ValueError"

    simulate(scenario())


@pytest.mark.parametrize("error", [Unknown("lost"), Unavailable("gone"), Forbidden("not you")])
def test_an_outcome_is_repeated_until_it_is_answered(error: Exception) -> None:
    async def scenario() -> None:
        async with world(1) as w:
            for _ in range(3):
                w.broker.lose_reply(Complete, error)  # type: ignore[arg-type]
            await w.until(lambda: len(w.broker.of(Complete)) == 4)
            await asyncio.sleep(1)
            assert not w.worker.holdings

    simulate(scenario())


def test_only_the_item_that_has_to_be_repeated_is_repeated() -> None:
    async def scenario() -> None:
        async with world(2) as w:
            w.broker.item_errors["token-1"] = [Problem(code="unavailable", message="later")]
            await w.until(lambda: len(w.broker.done) == 2)
            tokens = [[item.token for item in report.items] for report in w.broker.of(Complete)]
            assert tokens == [["token-0", "token-1"], ["token-1"]]

    simulate(scenario())


def test_a_result_that_is_refused_becomes_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with world(2) as w:
            w.broker.item_errors["token-1"] = [Problem(code="invalid", message="no such JSON")]
            await w.until(lambda: len(w.broker.done) == 2)
            failure = w.broker.of(Fail)[0].items[0]
            assert (failure.token, failure.error.type) == ("token-1", "objq.errors.Invalid")
            assert "no such JSON" in failure.error.message

    simulate(scenario())
    assert "outcome_refused" in events(caplog)


def test_a_failure_that_is_refused_is_reported_without_its_texts_and_then_given_up() -> None:
    async def scenario() -> None:
        async with world(1) as w:
            w.executor.failing.add("job-0")
            problem = Problem(code="invalid", message="cannot be")
            w.broker.item_errors["token-0"] = [problem, problem]
            await w.until(lambda: len(w.broker.of(Fail)) == 2)
            await asyncio.sleep(1)
            assert w.broker.of(Fail)[1].items[0].error.type == "objq.errors.Rejected"
            assert not w.worker.holdings

    simulate(scenario())


def test_a_refused_request_is_sent_again_by_halves_so_that_one_outcome_spoils_no_other() -> None:
    async def scenario() -> None:
        async with world(2) as w:
            w.broker.refuse(Complete, TooLarge("both"))
            w.broker.refuse(Complete, TooLarge("the first alone"))
            await w.until(lambda: len(w.broker.done) == 2)
            tokens = [[item.token for item in report.items] for report in w.broker.of(Complete)]
            assert tokens == [["token-0", "token-1"], ["token-0"], ["token-1"]]
            assert w.broker.of(Fail)[0].items[0].token == "token-0"

    simulate(scenario())


def test_a_result_too_large_to_send_is_replaced_by_one_that_the_document_leaves_out() -> None:
    async def scenario() -> None:
        async with world(2) as w:
            w.executor.results["job-0"] = Raw(b'"%b"' % (b"x" * 2_000_000))
            w.executor.results["job-1"] = Raw(b'"%b"' % (b"x" * 5000))
            await w.until(lambda: len(w.broker.done) == 2)
            sizes = {
                item.token: len(memoryview(item.result))
                for report in w.broker.of(Complete)
                for item in report.items
            }
            assert sizes == {"token-0": 1002, "token-1": 5002}

    simulate(scenario())


@pytest.mark.parametrize("most", [0, 1000, MAX_RECORD_BYTES])
@pytest.mark.parametrize("around", [MAX_RECORD_BYTES, MAX_FRAME_BYTES, 2 * MAX_FRAME_BYTES])
def test_a_result_of_any_size_is_kept_or_left_out_and_the_job_has_succeeded(
    most: int, around: int
) -> None:
    sizes = [around - 1000, around - 1, around, around + 1]

    async def scenario() -> None:
        async with world(len(sizes), slots=len(sizes), max_result_bytes=most) as w:
            for number, size in enumerate(sizes):
                w.executor.results[f"job-{number}"] = Raw(b'"%b"' % (b"x" * (size - 2)))
            await w.until(lambda: len(w.broker.done) == len(sizes))
            finished = w.broker.document.finished
            for number, size in enumerate(sizes):
                view = finished[f"job-{number}"].view()
                assert view.state == "succeeded"
                assert (view.result_dropped is None) is (size <= most)

    simulate(scenario())


def test_reports_are_split_before_a_frame_gets_too_large() -> None:
    async def scenario() -> None:
        async with world(8, slots=8) as w:
            for number in range(8):
                w.executor.results[f"job-{number}"] = Raw(b'"%b"' % (b"x" * 100_000))
            await w.until(lambda: len(w.broker.done) == 8)
            assert max(len(report.items) for report in w.broker.of(Complete)) == 2

    simulate(scenario())


def test_reports_of_texts_that_json_makes_longer_are_split_as_well() -> None:
    async def scenario() -> None:
        async with world(8, slots=8) as w:
            for number in range(8):
                w.executor.failing.add(f"job-{number}")
                w.executor.errors[f"job-{number}"] = JobError(type="E", message="\0" * 20_000)
            await w.until(lambda: len(w.broker.done) == 8)
            assert max(len(report.items) for report in w.broker.of(Fail)) == 2

    simulate(scenario())


# --- suspects ----------------------------------------------------------------------------------


def test_a_suspect_starts_when_all_else_is_reported_and_nothing_starts_beside_it() -> None:
    """The job may be what killed its last worker: whatever runs beside it would die with it."""

    async def scenario() -> None:
        async with world(1, slots=3) as w:
            w.executor.gate("job-0", "job-1")
            await w.until(lambda: w.executor.started == ["job-0"])
            w.broker.push("job-1", alone=True)
            await w.until(lambda: "token-1" in w.broker.live)
            w.broker.push("job-2", alone=True)
            w.broker.push("job-3")
            await asyncio.sleep(1)
            assert w.executor.started == ["job-0"]
            w.executor.open("job-0")
            await w.until(lambda: w.executor.started == ["job-0", "job-1"])
            assert "token-0" in w.broker.done
            await asyncio.sleep(T_S)
            assert w.broker.live == ["token-1"]
            w.executor.open("job-1")
            await w.until(lambda: len(w.broker.done) == 4)

    simulate(scenario())


def test_a_suspect_is_handed_back_where_other_jobs_take_long() -> None:
    async def scenario() -> None:
        async with world(1, slots=3) as w:
            w.executor.gate("job-0")
            await w.until(lambda: w.executor.started == ["job-0"])
            w.broker.push("job-1", alone=True)
            await w.until(lambda: w.broker.released == ["token-1"])
            w.executor.open("job-0")

    simulate(scenario())


def test_a_worker_that_handed_back_a_suspect_when_nothing_else_was_left_goes_on_claiming() -> None:
    """No job and no heartbeat is left then that would wake the claims by and by."""

    async def scenario() -> None:
        async with world(1, slots=3) as w:
            w.executor.gate("job-0")
            await w.until(lambda: w.executor.started == ["job-0"])
            for _ in range(20):
                w.broker.refuse(Release, Unavailable("the store is away"))
            w.broker.push("job-1", alone=True)
            await w.until(lambda: len(w.broker.of(Release)) > 0)
            w.executor.open("job-0")
            await w.until(lambda: w.broker.released == ["token-1"])
            assert "token-0" in w.broker.done
            w.broker.push("job-2")
            await w.until(lambda: "token-2" in w.broker.done)

    simulate(scenario())


# --- slots ---------------------------------------------------------------------------------------


def test_a_slot_that_a_timed_out_job_still_keeps_is_not_free(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        async with world(3, slots=1, prefetch=0) as w:
            freed = w.executor.lingering["job-0"] = asyncio.get_running_loop().create_future()
            w.executor.failing.add("job-0")
            await w.until(lambda: "token-0" in w.broker.done)
            await asyncio.sleep(T_S)
            assert w.executor.started == ["job-0"]
            assert len(w.broker.of(TakeClaim)) == 1
            freed.set_result(None)
            await w.until(lambda: len(w.broker.done) == 3)

    with caplog.at_level(logging.INFO, "objq.worker"):
        simulate(scenario())
    assert events(caplog)[:3] == ["job_failed", "thread_kept", "thread_freed"]


# --- ending --------------------------------------------------------------------------------------


def test_a_drain_releases_what_waits_and_lets_the_running_end() -> None:
    async def scenario() -> None:
        async with world(4, warm=True) as w:
            w.executor.gate("job-0", "job-1")
            await w.until(lambda: len(w.broker.live) == 4)
            await asyncio.sleep(0.1)
            w.worker.drain()
            await w.until(lambda: w.broker.released == ["token-2", "token-3"])
            assert not w.running.done()
            w.executor.open("job-0", "job-1")
            assert await w.running is Ending.CLEAN
            assert set(w.broker.done) == {"token-0", "token-1"}
            assert not w.broker.live

    simulate(scenario())


def test_a_drain_ends_the_waiting_claim_at_once() -> None:
    async def scenario() -> None:
        async with world() as w:
            await w.until(lambda: len(w.broker.of(TakeClaim)) == 2)
            await asyncio.sleep(0.1)
            began = w.now
            w.worker.drain()
            assert await w.running is Ending.CLEAN
            assert w.now - began < 1
            first, second = w.broker.of(TakeClaim)[1:]
            assert first.claim == second.claim
            assert second.wait < first.wait

    simulate(scenario())


def test_what_a_claim_brings_during_the_drain_is_released() -> None:
    async def scenario() -> None:
        async with world() as w:
            w.broker.replaces_claims = False
            await w.until(lambda: bool(w.broker.of(TakeClaim)))
            await asyncio.sleep(0.1)
            w.worker.drain()
            await asyncio.sleep(1)
            w.broker.push("job-0")
            assert await w.running is Ending.CLEAN
            assert (w.broker.released, w.executor.started) == (["token-0"], [])

    simulate(scenario())


def test_a_job_that_outlasts_the_grace_period_is_released_within_it() -> None:
    async def scenario() -> None:
        async with world(1) as w:
            w.executor.gate("job-0")
            await w.until(lambda: bool(w.executor.started))
            began = w.now
            w.worker.drain()
            assert await w.running is Ending.HANDED_BACK
            assert w.broker.released == ["token-0"]
            assert w.now - began <= 30
            assert not w.executor.controls["job-0"].cancel_requested

    simulate(scenario())


@pytest.mark.parametrize("ended_at_s", [22.0, 24.9])
@pytest.mark.parametrize("others", [0, 1])
def test_the_report_of_a_job_that_ended_in_time_has_the_whole_grace_to_be_answered(
    ended_at_s: float, others: int
) -> None:
    """On a store of one write a second an answer takes longer than what interrupted jobs have."""

    async def scenario() -> None:
        async with world(1 + others) as w:
            w.executor.gate("job-0", "job-1")
            await w.until(lambda: len(w.executor.started) == 1 + others)
            w.worker.drain()
            await asyncio.sleep(ended_at_s)
            w.broker.latency_s = 4.0
            w.executor.open("job-0")
            began = w.now - ended_at_s
            assert await w.running is (Ending.HANDED_BACK if others else Ending.CLEAN)
            assert list(w.broker.done) == ["token-0"]
            assert w.broker.released == ["token-1"][:others]
            assert w.now - began <= 30

    simulate(scenario())


def test_an_interrupted_async_job_burns_no_attempt() -> None:
    async def scenario() -> None:
        async with world() as w:
            w.executor.gate("async-1")
            w.broker.push("async-1")
            await w.until(lambda: bool(w.executor.started))
            w.worker.drain()
            assert await w.running is Ending.HANDED_BACK
            assert (w.broker.released, w.broker.done) == (["token-1"], {})

    simulate(scenario())


def test_without_a_broker_a_drain_says_that_something_is_left() -> None:
    async def scenario() -> None:
        async with world(1) as w:
            w.executor.gate("job-0")
            await w.until(lambda: bool(w.executor.started))
            w.broker.down = Unavailable("gone for good")
            began = w.now
            w.worker.drain()
            assert await w.running is Ending.UNANSWERED
            assert w.now - began <= 31

    simulate(scenario())


def test_an_idle_worker_without_a_broker_does_not_take_the_whole_grace_to_end() -> None:
    async def scenario() -> None:
        async with world() as w:
            w.broker.down = Unavailable("gone for good")
            await asyncio.sleep(5)
            began = w.now
            w.worker.drain()
            assert await w.running is Ending.CLEAN
            assert w.now - began < 10

    simulate(scenario())


def test_an_idle_worker_whose_claim_was_never_sent_ends_at_once() -> None:
    async def scenario() -> None:
        async with world(in_doubt=lambda claim: False) as w:
            w.broker.down = Unavailable("gone for good")
            await asyncio.sleep(5)
            began = w.now
            w.worker.drain()
            assert await w.running is Ending.CLEAN
            assert w.now == began

    simulate(scenario())


@pytest.mark.parametrize("in_doubt", [True, False])
def test_a_claim_that_may_have_been_granted_is_waited_for_and_that_is_said(
    in_doubt: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """An earlier call ended without an answer (Unknown), or the one under way has sent it."""

    async def scenario() -> None:
        async with world(in_doubt=lambda claim: in_doubt) as w:
            w.broker.down = Unavailable("down") if in_doubt else Unknown("lost")
            await asyncio.sleep(5)
            began = w.now
            w.worker.drain()
            assert await w.running is Ending.CLEAN
            assert 5 < w.now - began < 10

    with caplog.at_level("INFO", "objq.worker"):
        simulate(scenario())
    assert "claim_awaited" in [getattr(record, "event", None) for record in caplog.records]


def test_no_grace_still_hands_back() -> None:
    async def scenario() -> None:
        async with world(3, warm=True, shutdown_grace_s=0.0) as w:
            w.executor.gate("job-0", "job-1")
            await w.until(lambda: len(w.broker.live) == 3)
            await asyncio.sleep(0.1)
            w.worker.drain()
            assert await w.running is Ending.HANDED_BACK
            assert sorted(w.broker.released) == ["token-0", "token-1", "token-2"]

    simulate(scenario())


def test_releases_are_repeated_until_they_are_answered() -> None:
    async def scenario() -> None:
        async with world(3, slots=1, warm=True) as w:
            w.executor.gate("job-0")
            await w.until(lambda: len(w.broker.live) == 3)
            await asyncio.sleep(0.1)
            w.broker.lose_reply(Release, Unknown("cut"))
            w.worker.drain()
            await w.until(lambda: len(w.broker.of(Release)) == 2)
            w.executor.open("job-0")
            assert await w.running is Ending.CLEAN

    simulate(scenario())


def test_a_claim_that_is_granted_by_its_hurried_repeat_alone_is_released() -> None:
    """The wait of the claim ends by itself just before the repeat arrives with a new job."""

    async def scenario() -> None:
        async with world() as w:
            await w.until(lambda: bool(w.broker.of(TakeClaim)))
            w.broker.latency_s = 1.0
            await asyncio.sleep(T_S / 4 - 0.5)
            w.worker.drain()
            await asyncio.sleep(0.7)
            w.broker.push("job-0")
            assert await w.running is Ending.CLEAN
            assert not w.broker.live
            assert (w.broker.released, w.executor.started) == (["token-0"], [])

    simulate(scenario())


def test_a_refused_release_is_given_up() -> None:
    async def scenario() -> None:
        async with world(3, slots=1, warm=True) as w:
            w.executor.gate("job-0")
            await w.until(lambda: len(w.broker.live) == 3)
            await asyncio.sleep(0.1)
            w.broker.refuse(Release, TooLarge("odd"))
            w.worker.drain()
            w.executor.open("job-0")
            assert await w.running is Ending.CLEAN
            assert len(w.broker.of(Release)) == 1

    simulate(scenario())


# --- burst ---------------------------------------------------------------------------------------


def test_a_burst_runs_what_is_there_and_ends() -> None:
    async def scenario() -> None:
        async with world(9, burst=True) as w:
            assert await w.running is Ending.CLEAN
            assert len(w.broker.done) == 9

    simulate(scenario())


def test_a_burst_waits_for_jobs_that_run_since_they_may_come_back() -> None:
    async def scenario() -> None:
        async with world(1, burst=True) as w:
            w.executor.gate("job-0")
            await w.until(lambda: bool(w.executor.started))
            await asyncio.sleep(T_S)
            assert not w.running.done()
            w.broker.push("job-1")
            await w.until(lambda: "token-1" in w.broker.done)
            w.executor.open("job-0")
            assert await w.running is Ending.CLEAN

    simulate(scenario())


def test_a_worker_whose_loop_breaks_ends_loudly() -> None:
    async def scenario() -> None:
        made = World(1)

        async def broken(*_: Any) -> Any:
            raise ZeroDivisionError

        made.executor.run = broken  # type: ignore[method-assign,assignment]
        with pytest.raises(ExceptionGroup) as caught:
            await made.worker.run()
        assert caught.group_contains(ZeroDivisionError)

    simulate(scenario())


def events(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.event for record in caplog.records if hasattr(record, "event")]
