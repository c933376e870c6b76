"""All operations in any order, with repeats and stale tokens: the promises of the queue's rules.

The machine keeps a model that is as plain as possible (lists and dicts, no indexes) and compares.
"""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from objq.core import codec, ops
from objq.core.totals import mismatches
from tests.core.world import World

QUEUES = ("default", "mail")
some = st.randoms(use_true_random=False)


class Queue(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World(max_jobs=12, result_ttl_s=1e9, dead_ttl_s=1e9, dedupe_window_s=1e9)
        self.pushed: list[str] = []
        self.deleted: set[str] = set()
        self.order: list[str] = []  # waiting and running ids in push order
        self.priority: dict[str, int] = {}
        self.queue: dict[str, str] = {}
        self.held: dict[str, str] = {}  # live token → job
        self.ended: list[tuple[str, str]] = []  # (token, outcome)
        self.sent: list[tuple[Any, Any]] = []  # requests that were applied, with their answers
        self.succeeded: dict[str, int] = {}
        self.started: set[str] = set()

    # --- helpers --------------------------------------------------------------------------------

    def send(self, op: Any) -> Any:
        answer = self.world.apply(op)
        self.sent.append((op, answer))
        return answer

    def bytes_now(self) -> bytes:
        return codec.encode(self.world.document)

    def left(self, token: str, outcome: str) -> str:
        job_id = self.held.pop(token)
        self.ended.append((token, outcome))
        if self.world.state(job_id) not in ("ready", "scheduled"):
            self.order.remove(job_id)
        return job_id

    # --- rules ----------------------------------------------------------------------------------

    @rule(
        count=st.integers(1, 3),
        queue=st.sampled_from(QUEUES),
        priority=st.sampled_from((0, 0, 0, 5)),
        delay_ms=st.sampled_from((None, None, 500)),
        most=st.integers(1, 3),
    )
    def push(self, count: int, queue: str, priority: int, delay_ms: int | None, most: int) -> None:
        jobs = tuple(
            ops.NewJob(
                id=f"job-{len(self.pushed) + n}",
                task="tasks.t",
                queue=queue,
                priority=priority,
                run_after=self.world.now + delay_ms if delay_ms else None,
                max_attempts=most,
            )
            for n in range(count)
        )
        answer = self.send(ops.Push(request=self.world.request(), jobs=jobs))
        for job, item in zip(jobs, answer.items, strict=True):
            self.pushed.append(job.id)
            if item.error is not None:
                assert item.error.code == "queue_full"
                self.deleted.add(job.id)
                continue
            self.order.append(job.id)
            self.priority[job.id], self.queue[job.id] = priority, queue

    @rule(most=st.integers(1, 3), queues=st.sampled_from((QUEUES, ("mail",), ("default",))))
    def claim(self, most: int, queues: tuple[str, ...]) -> None:
        document = self.world.document
        ready = [job_id for job_id in self.order if self.world.state(job_id) == "ready"]
        here = [
            j for j in ready if self.queue[j] in queues and not document.is_paused(self.queue[j])
        ]
        wanted = sorted(here, key=lambda j: -self.priority[j])  # stable: push order within
        alone = {job_id for job_id in here if self.world.job(job_id).alone}
        answer = self.send(ops.TakeClaim(claim=self.world.request(), queues=queues, max=most))
        got = [grant.id for grant in answer.jobs]
        assert got == wanted[: len(got)], "S8: first in, first out"
        assert len(got) == min(most, len(wanted)) or alone & set(wanted[: len(got) + 1])
        assert len(got) == 1 or not alone & set(got), "S10: granted alone"
        for grant in answer.jobs:
            assert grant.token not in self.held
            assert grant.id not in self.held.values(), "S5: one live claim"
            assert grant.attempt <= grant.max_attempts, "S10"
            self.held[grant.token] = grant.id

    @precondition(lambda self: self.held)
    @rule(random=some)
    def complete(self, random: Any) -> None:
        token = random.choice(sorted(self.held))
        outcome = self.world.complete(token)
        assert outcome.error is None, "a live token is always honoured"
        job_id = self.left(token, "complete")
        self.succeeded[job_id] = self.succeeded.get(job_id, 0) + 1
        assert self.succeeded[job_id] == 1, "S6: a job finishes once"

    @precondition(lambda self: self.held)
    @rule(random=some, pause_s=st.sampled_from((msgspec.UNSET, 0.0, 0.5, None)))
    def fail(self, random: Any, pause_s: Any) -> None:
        token = random.choice(sorted(self.held))
        assert self.world.fail(token, retry_after=pause_s).error is None
        self.left(token, "fail")

    @precondition(lambda self: self.held)
    @rule(random=some)
    def release(self, random: Any) -> None:
        token = random.choice(sorted(self.held))
        before = self.world.job(self.held[token])
        assert self.world.release(token).error is None
        after = self.world.job(self.left(token, "release"))
        burnt = before.claim is not None and before.claim.started_at is not None
        assert after.attempts == before.attempts - burnt

    @precondition(lambda self: self.held)
    @rule(random=some, started=st.booleans())
    def expire(self, random: Any, started: bool) -> None:
        token = random.choice(sorted(self.held))
        if started:
            self.world.start(token)
        before = self.world.job(self.held[token])
        assert before.claim is not None
        unstarted = before.claim.started_at is None
        assert self.world.expire(token) == 1
        after = self.world.job(self.left(token, "expire"))
        if unstarted and not before.cancel_requested:
            assert (after.state, after.attempts, after.alone) == ("ready", before.attempts, True)

    @precondition(lambda self: self.ended)
    @rule(random=some, what=st.sampled_from(("complete", "fail", "release", "expire")))
    def use_a_token_again(self, random: Any, what: str) -> None:
        token, outcome = random.choice(self.ended)
        before = self.bytes_now()
        if what == "expire":
            assert self.world.expire(token) == 0
        else:
            repeated = getattr(self.world, what)(token)
            if repeated.error is None:
                assert what == outcome, "S6: only the outcome that was applied is told again"
            else:
                assert repeated.error.code == "claim_lost"
        assert self.bytes_now() == before, "S6: a stale token changes nothing"

    @precondition(lambda self: self.sent)
    @rule(random=some)
    def repeat_a_request(self, random: Any) -> None:
        op, answer = random.choice(self.sent)
        before = self.bytes_now()
        again = self.world.apply(op)
        if isinstance(op, ops.TakeClaim) and not answer.jobs:
            for grant in again.jobs:  # nothing was granted the first time, so it may be now
                self.held[grant.token] = grant.id
            return
        if isinstance(op, ops.TakeClaim):
            still = [grant.id for grant in answer.jobs if grant.token in self.held]
            assert [grant.id for grant in again.jobs] == still, "S7: those still held, never more"
        elif all(item.error for item in answer.items):
            # Refused and not recorded: a repeat is a new try.
            for item in again.items:
                if item.error is None and isinstance(op, ops.Push):
                    new = next(job for job in op.jobs if job.id == item.id)
                    self.deleted.discard(new.id)
                    self.order.append(new.id)
                    self.priority[new.id], self.queue[new.id] = new.priority, new.queue
            self.sent.append((op, again))
            return
        assert self.bytes_now() == before, "S7: one effect"

    @precondition(lambda self: self.pushed)
    @rule(random=some, kind=st.sampled_from((ops.Cancel, ops.Delete, ops.RunNow, ops.Retry)))
    def operate(self, random: Any, kind: type[ops.JobsRequest]) -> None:
        job_id = random.choice(self.pushed)
        state = self.world.state(job_id)
        if state == "absent":
            return
        before = self.bytes_now()
        outcome = self.world.operate(kind, job_id, state)
        after = self.world.state(job_id)
        if outcome.error is not None:
            assert outcome.error.code in ("conflict", "queue_full")
            assert self.bytes_now() == before
        elif kind is ops.Retry:
            self.order.append(job_id)
            assert self.world.job(job_id).attempts == 0
        elif kind is ops.Delete:
            self.deleted.add(job_id)
            if job_id in self.order:
                self.order.remove(job_id)
        elif after == "cancelled":
            self.order.remove(job_id)

    @rule(queue=st.sampled_from(QUEUES), paused=st.booleans())
    def pause(self, queue: str, paused: bool) -> None:
        kind = ops.Pause if paused else ops.Resume
        self.world.apply(kind(request=self.world.request(), queue=queue))
        assert self.world.document.is_paused(queue) == paused

    @rule(milliseconds=st.sampled_from((1, 400, 5000)))
    def time_passes(self, milliseconds: int) -> None:
        self.world.pass_ms(milliseconds)

    @rule(by_ms=st.sampled_from((-3_600_000, 3_600_000)))
    def clock_steps(self, by_ms: int) -> None:
        at = self.world.document.at
        self.world.now = max(1, self.world.now + by_ms)
        self.world.pass_ms(0)
        self.world.reload()
        assert self.world.document.at >= at, "S15: times in the file never go back"

    @rule()
    def another_broker_reads_it(self) -> None:
        before = self.world.document
        self.world.reload()
        after = self.world.document
        assert after.counts == {q: c for q, c in before.counts.items() if any(c.values())} or all(
            after.counts.get(q, {}).get(s, 0) == n
            for q, c in before.counts.items()
            for s, n in c.items()
        )
        assert after.bytes == before.bytes
        assert set(after.claims) == set(before.claims)
        assert set(after.ended) == set(before.ended)
        assert (a.id if (a := after.next_ready(QUEUES)) else None) == (
            b.id if (b := before.next_ready(QUEUES)) else None
        )

    # --- always ---------------------------------------------------------------------------------

    @invariant()
    def nothing_is_lost(self) -> None:
        for job_id in self.pushed:
            assert (self.world.state(job_id) == "absent") == (job_id in self.deleted), "S1"

    @invariant()
    def claims_are_what_was_granted(self) -> None:
        assert set(self.world.document.claims) == set(self.held), "S5"

    @invariant()
    def attempts_keep_the_limit(self) -> None:
        for job in self.world.document.jobs.values():
            view = job.view()
            assert view.attempts <= view.max_attempts, "S10"

    @invariant()
    def totals_add_up(self) -> None:
        assert mismatches(self.world.document) == ()

    @invariant()
    def the_file_keeps_push_order(self) -> None:
        assert list(self.world.document.jobs) == self.order

    @invariant()
    def nothing_scheduled_is_early(self) -> None:
        for job in self.world.document.jobs.values():
            if job.state == "scheduled":
                assert job.run_after is not None  # S15


Queue.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestQueue = Queue.TestCase
