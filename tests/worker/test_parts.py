"""The parts of the loop that decide something, by themselves."""

from __future__ import annotations

from objq.worker.appetite import SHORT_JOB_S, Appetite, Ask
from objq.worker.holdings import Holdings, Stage
from tests.worker.fakes import grant

WINDOW_S = 15.0


# --- what is held ------------------------------------------------------------------------------


def test_a_job_may_start_only_shortly_after_the_sending_that_confirmed_it() -> None:
    holdings = Holdings()
    (held,) = holdings.add([grant(1)], sent_at=100.0, now=107.0)
    assert holdings.startable(114.9, WINDOW_S) is held
    assert holdings.startable(115.0, WINDOW_S) is None
    holdings.confirm(["token-1", "token-of-nobody"], 110.0)
    assert holdings.startable(124.9, WINDOW_S) is held
    holdings.confirm(["token-1"], 105.0)  # an older answer that came later
    assert holdings.startable(124.9, WINDOW_S) is held


def test_jobs_start_in_the_order_of_their_grants() -> None:
    holdings = Holdings()
    first, second, third = holdings.add([grant(n) for n in (1, 2, 3)], sent_at=0.0, now=0.0)
    first.stage, second.stage = Stage.RUNNING, Stage.STOPPED
    assert holdings.startable(1.0, WINDOW_S) is third


def test_the_same_grant_is_held_once() -> None:
    holdings = Holdings()
    assert len(holdings.add([grant(1)], sent_at=0.0, now=0.0)) == 1
    assert holdings.add([grant(1)], sent_at=9.0, now=9.0) == []
    assert len(holdings) == 1


def test_only_what_has_begun_is_told_as_started_and_what_is_lost_not_at_all() -> None:
    holdings = Holdings()
    jobs = holdings.add([grant(n) for n in range(5)], sent_at=0.0, now=0.0)
    stages = (Stage.WAITING, Stage.RUNNING, Stage.ENDED, Stage.STOPPED, Stage.RUNNING)
    for held, stage in zip(jobs, stages, strict=True):
        held.stage = stage
    jobs[4].control.lose()
    assert holdings.tokens() == ("token-0", "token-1", "token-2", "token-3")
    assert holdings.started() == ("token-1", "token-2")


# --- how much is claimed -----------------------------------------------------------------------


def ask(appetite: Appetite, *, free: int = 0, busy: int = 0, waiting: int = 0) -> Ask | None:
    return appetite.next(free=free, busy=busy, waiting=waiting, wait_s=7.5)


def after(appetite: Appetite, asked: Ask | None, jobs: int) -> Appetite:
    assert asked is not None
    appetite.answered(asked, jobs)
    return appetite


def test_at_first_free_slots_are_filled_and_then_wait() -> None:
    appetite = Appetite(prefetch=4)
    assert ask(appetite, free=4) == Ask(4, 0.0)
    after(appetite, ask(appetite, free=4), 1)
    assert ask(appetite, free=3, busy=1) == Ask(3, 7.5)


def test_short_jobs_are_prefetched_while_there_are_more() -> None:
    appetite = Appetite(prefetch=4)
    appetite.ended(SHORT_JOB_S / 10)
    assert ask(appetite, free=1, busy=3) == Ask(5, 0.0)
    after(appetite, ask(appetite, free=1, busy=3), 5)
    assert ask(appetite, busy=4, waiting=4) is None
    assert ask(appetite, busy=4, waiting=3) == Ask(1, 0.0)


def test_long_jobs_are_not_prefetched() -> None:
    appetite = Appetite(prefetch=4)
    appetite.ended(SHORT_JOB_S * 2)
    assert ask(appetite, free=1, busy=3) == Ask(1, 0.0)
    assert ask(appetite, busy=4) is None


def test_who_is_busy_asks_an_emptied_queue_again_only_after_a_job_has_ended() -> None:
    appetite = Appetite(prefetch=4)
    appetite.ended(SHORT_JOB_S / 10)
    after(appetite, ask(appetite, free=1, busy=3), 1)
    assert ask(appetite, busy=4) is None
    appetite.ended(SHORT_JOB_S / 10)
    assert ask(appetite, free=1, busy=3) == Ask(5, 0.0)


def test_after_stuck_jobs_nothing_is_prefetched_until_a_short_job_was_seen() -> None:
    appetite = Appetite(prefetch=4)
    appetite.ended(SHORT_JOB_S / 10)
    appetite.stuck()
    assert ask(appetite, busy=4) is None
    appetite.ended(SHORT_JOB_S / 10)
    assert ask(appetite, busy=4) == Ask(4, 0.0)


def test_nothing_is_claimed_when_timed_out_jobs_keep_every_slot() -> None:
    appetite = Appetite(prefetch=4)
    appetite.ended(SHORT_JOB_S / 10)
    assert ask(appetite) is None
