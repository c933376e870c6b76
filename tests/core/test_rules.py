"""Situations told as sentences; the promise that each holds is named where it has a number."""

from __future__ import annotations

from collections import deque

import msgspec
import pytest
from msgspec import Raw

from objq.core import claiming, leading, ops
from objq.core.ending import default_backoff_s
from objq.core.statistics import queue_stats
from objq.core.waiting import WaitingClaims
from objq.errors import ExpiredId, Invalid, Overloaded, QueueFull
from tests.core.world import World


def test_a_repeated_push_has_one_effect_also_when_the_job_has_finished_and_left() -> None:
    world = World(result_ttl_s=1.0)
    world.push("j", request="1-client:1")
    world.complete(world.take("1-worker:1"))
    world.pass_ms(2000)
    assert world.state("j") == "absent"
    (item,) = world.push("j", request="1-client:1").items
    assert item.error is None
    assert world.state("j") == "absent"  # S7


def test_pushes_that_overtake_each_other_are_all_applied_once() -> None:
    world = World()
    for number in (6, 7, 5, 6, 5, 7):
        world.push(f"j{number}", request=f"1-client:{number}")
    assert list(world.document.jobs) == ["j6", "j7", "j5"]
    assert world.document.requests.clients["1-client"].done == [(5, 7)]


def test_a_push_of_a_forgotten_prefix_is_refused_and_never_doubles() -> None:
    world = World(dedupe_window_s=120.0)
    world.push("j", request="1-client:1")
    world.complete(world.take("1-worker:1"))
    world.pass_ms(121_000)
    world.document.seq = 7
    world.push("k", request="7-other:1")
    world.pass_ms(0)
    assert world.document.requests.forgotten == 1
    with pytest.raises(ExpiredId, match="draw a new prefix"):
        world.push("j", request="1-client:1")
    with pytest.raises(ExpiredId):
        world.push("new", request="1-client:2")


def test_a_full_memory_of_clients_refuses_new_ones_but_knows_the_old() -> None:
    world = World(max_clients=1)
    world.push("a", request="1-one:1")
    with pytest.raises(Overloaded) as refused:
        world.push("b", request="1-two:1")
    assert refused.value.retry_after_s
    world.push("c", request="1-one:2")
    assert world.state("c") == "ready"


def test_one_bad_job_of_a_push_harms_no_neighbour_and_stays_refused() -> None:
    world = World()
    jobs = (
        ops.NewJob(id="good", task="t"),
        ops.NewJob(id="bad", task="t", kwargs=Raw(b'{"a": 1, "a": 2}')),
        ops.NewJob(id="fine", task="t"),
    )
    op = ops.Push(request="1-client:1", jobs=jobs)
    for _ in range(2):
        good, bad, fine = world.apply(op).items
        assert (good.state, fine.state) == ("ready", "ready")
        assert (bad.error.code, bad.error.final) == ("invalid", True)  # S12
    assert world.state("bad") == "absent"


def test_the_refusal_of_a_first_send_costs_no_commit_but_that_of_a_repeat_is_committed() -> None:
    world = World(max_jobs=1)
    world.push("a")
    job = ops.NewJob(id="b", task="t")
    assert not world.changed(ops.Push(request="1-client:9", jobs=(job,)))
    assert world.changed(ops.Push(request="1-client:9", jobs=(job,), repeat=True))
    world.complete(world.take())
    (item,) = world.apply(ops.Push(request="1-client:9", jobs=(job,))).items
    assert (item.error.code, item.error.final) == ("queue_full", True)  # the early copy, late
    assert world.state("b") == "absent"


def test_whoever_asks_again_to_delete_a_job_is_told_the_same() -> None:
    world = World()
    world.push("j")
    op = ops.Delete(request=world.request(), ids=("j",), expected="ready")
    first = world.apply(op)
    assert first.items == (ops.ItemOutcome(id="j", state=None),)  # it has left
    assert world.apply(op) == first


def test_the_same_id_with_other_contents_is_refused() -> None:
    world = World()
    world.push("j", args=b"[1]")
    (item,) = world.push("j", args=b"[2]").items
    assert item.error.code == "conflict"
    (item,) = world.push("j", args=b"[1]").items
    assert item.error is None


@pytest.mark.parametrize(
    "text",
    [
        b"{}",
        b"[NaN]",
        b"[Infinity]",
        b"[1e999]",
        b"[1" + b"0" * 400 + b"]",
        b"[-2" + b"0" * 308 + b"]",
        b'["\\ud800"]',
        b'[{"a": 1, "a": 2}]',
        b"[1,]",
        b"[" * 200 + b"]" * 200,
        b"[" + b"9" * 5000 + b"]",
        b'["\xff"]',
        b"",
    ],
)
def test_arguments_that_two_readers_could_read_differently_are_refused(text: bytes) -> None:
    world = World()
    (item,) = world.push("j", args=text).items
    assert item.error is not None
    assert item.error.code == "invalid"  # S9
    assert "args of job j" in item.error.message


@pytest.mark.parametrize(
    "text",
    [
        b'[1.10, "\\ud83d\\ude00", 12345678901234567890123, {"b":1,"a":2}]',
        b"[1" + b"0" * 308 + b', 1e308, "' + b"9" * 5000 + b'", 0.' + b"1" * 5000 + b"]",
    ],
)
def test_arguments_are_granted_as_the_very_text_that_was_pushed(text: bytes) -> None:
    world = World()
    world.push("j", args=text)
    world.reload()
    token = world.take("1-w:1")
    world.expire(token)
    world.reload()
    (grant,) = world.claim("1-w:2")
    assert bytes(grant.args) == text  # S9


def test_a_late_copy_of_a_claim_whose_jobs_have_finished_grants_nothing() -> None:
    world = World()
    world.push("a", "b")
    world.complete(world.take("1-worker:1"))
    assert world.claim("1-worker:1") == []  # S7
    assert world.state("b") == "ready"


def test_a_claim_whose_reply_was_lost_gets_the_same_jobs_again() -> None:
    world = World()
    world.push("a", "b", "c")
    first = world.claim("claim", 2)
    world.reload()
    assert world.claim("claim", 2) == first
    assert world.state("c") == "ready"


def test_nine_prefetched_beside_a_job_that_kills_its_worker_burn_no_attempt() -> None:
    world = World()
    ids = [f"j{n}" for n in range(10)]
    world.push(*ids, max_attempts=1)
    grants = world.claim("c", 10)
    world.start(grants[0].token)
    world.expire(*(grant.token for grant in grants))
    assert world.state("j0") == "dead"
    assert world.job("j0").reason == "worker lost"
    for job_id in ids[1:]:
        assert (world.job(job_id).attempts, world.job(job_id).alone) == (0, True)
    (alone,) = world.claim("d", 10)  # S10: granted alone, and counted as started
    assert (alone.id, alone.attempt, world.job("j1").attempts) == ("j1", 1, 1)
    world.expire(alone.token)
    assert world.state("j1") == "dead"


def test_a_failed_job_waits_for_its_backoff_and_keeps_its_place_in_line() -> None:
    world = World()
    world.push("first", "second")
    token = world.take("1-w:1")
    assert world.fail(token).state == "scheduled"
    assert world.job("first").run_after == world.now + default_backoff_s(1) * 1000
    world.pass_ms(2000)
    assert [grant.id for grant in world.claim("1-w:2", 2)] == ["first", "second"]


def test_the_last_failure_or_one_without_retry_is_dead_until_an_operator_acts() -> None:
    world = World()
    world.push("j", "k", max_attempts=2)
    world.fail(world.take(), retry_after=0.0)
    world.fail(world.take(), retry_after=0.0)
    view = world.job("j")
    assert (view.state, view.attempts, view.reason) == ("dead", 2, "failed 2 of 2 attempts")
    assert [attempt.error.message for attempt in view.history if attempt.error] == ["no", "no"]
    world.fail(world.take(), retry_after=None)
    assert world.state("k") == "dead"
    assert world.operate(ops.Retry, "j", "dead").state == "ready"
    assert world.job("j").attempts == 0


def test_an_outcome_that_was_applied_is_told_again_and_any_other_is_claim_lost() -> None:
    world = World()
    world.push("j")
    token = world.take()
    assert world.complete(token).state == "succeeded"
    world.reload()
    assert world.complete(token).state == "succeeded"
    for late in (world.fail(token), world.release(token)):
        assert late.error is not None
        assert late.error.code == "claim_lost"


def test_cancelling_a_running_job_leaves_the_claim_alive_and_complete_wins() -> None:
    world = World()
    world.push("a", "b")
    done, stopped = world.take(), world.take()
    for job_id in ("a", "b"):
        assert world.operate(ops.Cancel, job_id, "running").state == "running"
    assert world.complete(done).state == "succeeded"
    assert world.fail(stopped).state == "cancelled"
    assert world.fail(stopped).state == "cancelled"


def test_a_paused_queue_grants_nothing_until_it_is_resumed() -> None:
    world = World()
    world.push("j")
    world.apply(ops.Pause(request=world.request(), queue="default"))
    world.reload()
    assert world.claim("c") == []
    world.apply(ops.Resume(request=world.request(), queue="default"))
    assert len(world.claim("c")) == 1


def test_a_full_document_refuses_pushes_and_drains() -> None:
    world = World(max_bytes=100_000, max_job_bytes=2000)
    count = 0
    while True:
        (item,) = world.push(f"j{count}", args=b'["%s"]' % (b"x" * 1000)).items
        if item.error is not None:
            break
        count += 1
    assert item.error.code == "queue_full"  # S13
    assert item.error.retry_after
    assert count > 20
    for _ in range(count):
        token = world.take()
        world.start(token)
        assert world.complete(token, b'"%s"' % (b"r" * 1000)).state == "succeeded"
    assert len(world.reload()) <= 100_000
    assert world.document.bytes["finished"] <= 100_000 / 8


def test_failing_jobs_cannot_burst_a_full_document() -> None:
    world = World(max_bytes=100_000, max_job_bytes=2000, max_error_bytes=16_384)
    count = 0
    while world.push(f"j{count}", args=b'["%s"]' % (b"x" * 1000)).items[0].error is None:
        count += 1
    error = ops.JobError(type="a.B", message="m" * 20_000, traceback="t" * 20_000)
    for _ in range(count):
        world.fail(world.take(), error=error, retry_after=0.5)
    assert len(world.reload()) <= 100_000


def test_a_take_over_and_a_step_down_fit_into_a_full_document() -> None:
    world = World(max_bytes=100_000, max_job_bytes=2000)
    count = 0
    while world.push(f"j{count}", args=b'["%s"]' % (b"x" * 1000)).items[0].error is None:
        count += 1
    for _ in range(count):
        world.take()
    info = ops.BrokerInfo(id="b" * 32, url="ws://h/" + "u" * 200, since=world.now, version="1")
    leading.take_over(world.document, info, world.document.settings)
    assert len(world.reload()) <= 100_000  # S13
    assert leading.step_down(world.document, info.id)
    assert len(world.reload()) <= 100_000


def test_what_is_kept_of_dead_jobs_is_bounded_in_bytes() -> None:
    world = World(max_bytes=100_000)
    error = ops.JobError(type="a.B", traceback="t" * 5000)
    for number in range(40):
        world.push(f"j{number}", max_attempts=1)
        assert world.fail(world.take(), error=error).state == "dead"
        world.pass_ms(0)
    assert world.document.bytes["dead"] <= 100_000 / 8
    assert world.state("j0") == "absent"  # the oldest go first, and are counted
    assert world.state("j39") == "dead"
    assert world.document.dropped["dead"] == 40 - len(world.document.dead)


def test_a_result_over_the_limit_is_left_out_and_the_job_says_so() -> None:
    world = World(max_result_bytes=10)
    world.push("j")
    assert world.complete(world.take(), b'"0123456789"').state == "succeeded"
    assert "MAX_RESULT_BYTES" in (world.job("j").result_dropped or "")


def test_a_result_that_is_not_json_is_refused_and_the_claim_lives_on() -> None:
    world = World()
    world.push("j")
    token = world.take()
    refused = world.complete(token, b"[NaN]").error
    assert refused is not None
    assert refused.code == "invalid"
    assert token in world.document.claims


def test_retention_ages_only_while_somebody_leads() -> None:
    world = World(result_ttl_s=10.0)
    world.push("j")
    world.complete(world.take())
    world.now += 3_600_000  # an hour without a leader, or a clock that stepped
    world.reload()
    world.pass_ms(9000)
    assert world.state("j") == "succeeded"
    world.pass_ms(2000)
    assert world.state("j") == "absent"


def test_heartbeats_ride_on_commits_and_are_due_when_they_would_fall_behind() -> None:
    world = World(heartbeat_timeout_s=8.0)
    world.push("j")
    token = world.take()
    world.document.dirty = False
    assert not claiming.beats_behind(world.document, [token], world.now)
    world.pass_ms(1000)
    assert claiming.beats_behind(world.document, [token], world.now)
    claiming.beat(world.document, [token], [], world.now)
    assert not world.document.dirty
    claim = world.job("j").claim
    assert claim is not None
    assert (claim.heartbeat_at, claim.heartbeat_seq) == (world.now, world.document.seq + 1)


def test_a_scheduled_job_is_granted_when_its_time_has_come_and_not_before() -> None:
    world = World()
    world.push("j", run_after=world.now + 1000)
    world.pass_ms(999)
    assert world.claim("c") == []
    world.document.dirty = False
    world.pass_ms(1)
    assert not world.document.dirty  # becoming due needs no commit
    assert len(world.claim("c")) == 1


def test_a_push_wakes_as_many_waiting_claims_as_there_are_jobs_first_come_first_served() -> None:
    world = World()
    waiting: WaitingClaims[int] = WaitingClaims()
    for key in range(5):
        waiting.add(key, ops.TakeClaim(claim=f"c{key}", queues=("default", "mail"), worker="w"))
    waiting.add(9, ops.TakeClaim(claim="elsewhere", queues=("other",), worker="w"))
    waiting.discard(0)
    world.push("a", "b")
    served = waiting.serve(world.document, world.now, mint=world.mint, epoch=1)
    assert [key for key, _ in served] == [1, 2]
    assert len(waiting) == 3
    waiting.discard(1)  # no longer waiting: no error


def test_a_claim_that_is_sent_again_takes_the_place_of_the_one_that_waits() -> None:
    world = World()
    waiting: WaitingClaims[str] = WaitingClaims()
    op = ops.TakeClaim(claim="1-w:1", worker="w")
    assert waiting.add("old socket", op) is None
    assert waiting.add("new socket", op) == "old socket"
    waiting.discard("old socket")  # waits no longer: no error
    world.push("a", "b")
    served = waiting.serve(world.document, world.now, mint=world.mint, epoch=1)
    assert [key for key, _ in served] == ["new socket"]
    assert world.state("b") == "ready"


def test_pausing_brings_no_more_queues_than_there_may_be_and_resuming_leaves_nothing() -> None:
    world = World(max_queues=2)
    world.push("j")
    world.apply(ops.Pause(request=world.request(), queue="mail"))
    with pytest.raises(QueueFull, match="MAX_QUEUES"):
        world.apply(ops.Pause(request=world.request(), queue="more"))
    world.apply(ops.Resume(request=world.request(), queue="mail"))
    assert world.document.queues == {}


def test_a_job_granted_alone_says_so_also_when_the_claim_is_repeated() -> None:
    world = World()
    world.push("j")
    world.expire(world.take("1-w:1"))
    first = world.claim("1-w:2")
    assert first[0].alone
    world.reload()
    assert world.claim("1-w:2") == first


def test_a_request_id_of_another_form_is_invalid() -> None:
    with pytest.raises(Invalid, match="not of the form"):
        World().push("j", request="my-request")


def test_a_claim_is_granted_no_more_bytes_than_an_answer_should_have() -> None:
    world = World(max_job_bytes=1_000_000)
    world.push(*(f"j{n}" for n in range(5)), args=b'["%s"]' % (b"x" * 900_000))
    assert len(world.claim("c", 5)) == 2
    assert len(world.claim("d", 5)) == 2


def test_a_request_id_from_a_seq_that_was_never_reached_cannot_shut_everybody_out() -> None:
    world = World(dedupe_window_s=1.0)
    with pytest.raises(ExpiredId, match="has not reached"):
        world.push("j", request="9000000000000000000-evil:1")
    world.reload()
    world.pass_ms(10_000)
    (item,) = world.push("j", request=f"{world.document.seq}-client:1").items
    assert item.error is None


def test_a_job_that_kills_worker_after_worker_is_granted_alone_until_it_is_dead() -> None:
    world = World()
    world.push("poison", max_attempts=3)
    world.expire(world.take("1-w:1"))
    for attempt in (1, 2, 3):
        (grant,) = world.claim(f"1-v:{attempt}")
        assert (grant.alone, grant.attempt) == (True, attempt)
        world.expire(grant.token)
    assert world.state("poison") == "dead"


@pytest.mark.parametrize("name", ["", "a\x00", "a\n", "\x7f", "n" * 65])
def test_a_queue_name_that_no_page_could_show_is_refused(name: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"id": "j", "task": "t", "queue": name}, ops.NewJob)
    assert not ops.is_queue_name(name)


@pytest.mark.parametrize("name", ["default", "n" * 64, "ü 😀", "a\x80"])
def test_a_queue_may_have_any_other_name(name: str) -> None:
    assert msgspec.convert(name, ops.QueueName) == name
    assert ops.is_queue_name(name)


def test_a_job_counts_as_ready_from_when_it_became_due() -> None:
    world = World()
    pushed_at = world.now
    world.push("later", run_after=pushed_at + 60_000)
    assert queue_stats(world.document)["default"].oldest_ready_at is None
    world.pass_ms(60_500)
    assert queue_stats(world.document)["default"].oldest_ready_at == pushed_at + 60_000
    world.push("urgent", priority=1)
    assert queue_stats(world.document)["default"].oldest_ready_at == pushed_at + 60_000
    world.reload()
    assert queue_stats(world.document)["default"].oldest_ready_at == pushed_at + 60_000


def test_a_job_counts_as_ready_from_when_it_was_handed_back_or_is_to_run_now() -> None:
    world = World()
    world.push("j")
    world.pass_ms(10_000)
    world.release(world.take())
    handed_back_at = world.now
    world.pass_ms(10_000)
    assert queue_stats(world.document)["default"].oldest_ready_at == handed_back_at
    world.reload()
    assert queue_stats(world.document)["default"].oldest_ready_at == handed_back_at
    world.take()
    world.push("later", run_after=world.now + 60_000)
    world.pass_ms(10_000)
    world.operate(ops.RunNow, "later", "scheduled")
    asked_at = world.now
    world.pass_ms(10_000)
    assert queue_stats(world.document)["default"].oldest_ready_at == asked_at
    world.reload()
    assert queue_stats(world.document)["default"].oldest_ready_at == asked_at


def test_a_job_that_has_left_does_not_count_as_ready() -> None:
    world = World()
    world.push("head", "gone")
    world.pass_ms(10_000)
    world.push("low")
    world.push("urgent", priority=1)
    world.operate(ops.Cancel, "gone", "ready")
    world.operate(ops.Cancel, "head", "ready")
    assert queue_stats(world.document)["default"].oldest_ready_at == world.now


def test_a_new_queue_takes_the_place_of_one_without_jobs() -> None:
    world = World(max_queues=3)
    world.push("a", queue="first")
    world.push("b", queue="second")
    world.push("c", queue="third")
    world.operate(ops.Cancel, "a", "ready")
    world.operate(ops.Cancel, "b", "ready")
    (full,) = world.push("d", queue="fourth").items  # what has finished is still told of
    assert full.error.code == "queue_full"
    world.operate(ops.Delete, "b", "cancelled")
    assert world.push("d", queue="fourth").items[0].state == "ready"
    assert list(queue_stats(world.document)) == ["first", "fourth", "third"]
    world.operate(ops.Delete, "a", "cancelled")
    world.apply(ops.Pause(request=world.request(), queue="first"))
    assert world.push("e", queue="fifth").items[0].error.code == "queue_full"
    world.reload()
    assert list(queue_stats(world.document)) == ["first", "fourth", "third"]
    world.apply(ops.Resume(request=world.request(), queue="first"))
    world.push("e", queue="fifth")
    assert list(queue_stats(world.document)) == ["fifth", "fourth", "third"]


def test_refusals_that_are_remembered_are_bounded_in_bytes() -> None:
    """A repeat that is refused is written down (S12): that must not make a full document larger."""
    world = World(max_bytes=1 << 20, max_jobs=1)
    world.push("only")
    most = 10_000
    ids = [f"job-{number}" for number in range(most)]
    refused = world.push(*ids, request="1-a:1", repeat=True).items
    assert {item.error.code for item in refused} == {"queue_full"}
    assert len(world.reload()) < 100_000, "those that follow each other are kept as one"
    again = world.push(*ids, request="1-a:1", repeat=True).items
    assert {(item.error.code, item.error.final) for item in again} == {("queue_full", True)}
    # Those that alternate are not, so that at some time no more is remembered.
    large = [ops.NewJob(id="only", task="another"), ops.NewJob(id="new", task="t")] * (most // 2)
    repeats = (ops.Push(request=f"1-b:{n}", jobs=tuple(large), repeat=True) for n in range(1, 20))
    with pytest.raises(Overloaded, match="MAX_BYTES"):
        deque(map(world.apply, repeats))
    size_bytes = world.document.requests.size_bytes
    world.reload()
    assert world.document.requests.size_bytes == size_bytes
    assert world.claim("1-w:1"), "a claim always fits (S13)"


def test_a_claim_finds_room_also_where_no_further_client_is_remembered() -> None:
    world = World(max_clients=1)
    world.push("a", "b", request="1-a:1")
    with pytest.raises(Overloaded):
        world.push("c", request="1-b:1")
    (grant,) = world.claim("1-w:1")
    assert grant.id == "a"
    assert [each.id for each in world.claim("1-w:1")] == ["a"], "the same claim, repeated"
    world.complete(grant.token)
    assert not world.claim("1-w:1"), "and remembered"
    assert [each.id for each in world.claim("1-w:2")] == ["b"]
