"""Short runs of what `make chaos` and `make overload` do for minutes, and their ledger itself."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from msgspec import Raw

from objq.core.codec import seal
from objq.core.document import Document
from objq.core.ops import Complete, Completion, DocumentSettings, NewJob, Push, TakeClaim
from objq.core.rules import apply
from tests.chaos import ledger, overload
from tests.chaos.ledger import Harm, Run
from tests.chaos.run import Plan, run
from tests.servers import ObjectServer

NOW_MS = 1_764_430_000_000
T_S = 6.0


def test_every_acked_job_is_accounted_for_after_kills_pauses_and_a_bad_store(
    seaweedfs: ObjectServer, tmp_path: Path
) -> None:
    plan = Plan(seconds=6, seed=7, kills=1, timeout_s=4, idle_s=2)
    report = run(seaweedfs.url, tmp_path, plan)
    assert report["problems"] == []
    assert report["ledger"]["ok"] > 0
    assert report["failover"]["kills"] == 1


async def test_a_broker_under_three_times_its_load_refuses_politely_and_recovers() -> None:
    report = await overload.run(seconds=3)
    assert report["problems"] == []
    assert report["during"]["refused"]["overloaded"] > 0


# --- the ledger sees what it is for --------------------------------------------------------------


def a_document(*numbers: int) -> Document:
    """Return a document in which each number was pushed under an id of its own, and has run."""
    document = Document.new("ledger", DocumentSettings(), NOW_MS)
    seal(document, "first", NOW_MS, leading=True)  # request ids are drawn from a version
    tokens = (f"token-{place}" for place in itertools.count())
    for place, number in enumerate(numbers):
        job = NewJob(id=f"job-{place}", task="tests.nothing", args=Raw(f"[{number}]".encode()))
        for op in (
            Push(request=f"1-ledger:{place + 1}", jobs=(job,)),
            TakeClaim(claim=f"claim-{place}"),
            Complete(items=(Completion(token=f"token-{place}"),)),
        ):
            apply(document, op, NOW_MS, mint=lambda: next(tokens), epoch=1)
    return document


def a_push(told: str = "ok") -> ledger.Push:
    return ledger.Push(1, began=0.0, told=told, detail="job-0", ended=1.0)


ONCE = {1: [Run(pid=9, began=1.0, ended=2.0)]}
TWICE = {1: [Run(pid=9, began=1.0), Run(pid=8, began=20.0, ended=21.0)]}
KILLED = Harm(began=1.5)
STOPPED = Harm(began=1.5, ended=1.5 + T_S)
STOPPED_BRIEFLY = Harm(began=1.5, ended=1.5 + T_S / 2)


@pytest.mark.parametrize(
    ("word", "push", "runs", "numbers"),
    [
        ("lost", a_push(), {}, []),
        ("lost", a_push(), {1: [Run(pid=9, began=1.0)]}, [1]),
        ("lost", a_push(), ONCE, []),
        ("lost", a_push("unknown"), {}, [1]),
        ("unexpected", a_push("refused"), ONCE, [1]),
        ("unexpected", a_push(), {**ONCE, 2: ONCE[1]}, [1]),
        ("duplicated", a_push(), ONCE, [1, 1]),
        ("duplicated", a_push(), TWICE, [1]),
    ],
)
def test_the_ledger_names_the_fault(
    word: str, push: ledger.Push, runs: dict[int, list[Run]], numbers: list[int]
) -> None:
    account = ledger.settle({1: push}, runs, {}, a_document(*numbers), T_S)
    assert account.figures()[word] == 1
    assert account.problems[0].startswith(f"{word}: ")


@pytest.mark.parametrize(
    ("harm", "faults"),
    [(KILLED, 0), (STOPPED, 0), (STOPPED_BRIEFLY, 1), (Harm(began=30.0), 1)],
)
def test_a_second_run_needs_a_reason(harm: Harm, faults: int) -> None:
    account = ledger.settle({1: a_push()}, TWICE, {9: [harm]}, a_document(1), T_S)
    assert account.figures()["duplicated"] == faults == len(account.problems)
    assert account.ran_again.total() == 1 - faults


def test_what_was_not_told_may_have_run_or_not() -> None:
    for told in ("unknown", "open"):
        assert not ledger.settle({1: a_push(told)}, {}, {}, a_document(), T_S).problems
        account = ledger.settle({1: a_push(told)}, ONCE, {}, a_document(1), T_S)
        assert account.figures()["recovered"] == 1
        assert not account.problems
