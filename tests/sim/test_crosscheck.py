"""The checker and the exhaustive search agree on small histories: neither of them is blind."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.sim import exhaustive
from tests.sim.asworld import world_of
from tests.sim.author import Author
from tests.sim.checker import check
from tests.sim.crosscheck import Tally, drawn_history, every_history
from tests.sim.expiry import Expiries
from tests.sim.lives import Lives
from tests.sim.runs import base_seed
from tests.sim.spoil import SPOILS
from tests.sim.versions import Walk


def test_both_judge_alike_every_history_of_two_events_and_what_can_be_spoilt_in_it() -> None:
    tally = Tally()
    for batches, small in every_history(2):
        tally.judge(batches, small)
    assert not tally.disagreements, tally.disagreements[:3]
    assert tally.good > 100
    assert sum(tally.caught.values()) > 3_000
    assert tally.still_good > 500  # so neither says no to everything


def test_both_judge_longer_ones_alike_that_are_drawn_anew_for_each_commit() -> None:
    tally = Tally()
    rng = random.Random(base_seed())
    for _ in range(25):
        tally.judge(*drawn_history(rng))
    assert not tally.disagreements, tally.disagreements[:3]


STORY = (
    *(("push",), ("push",), ("claim",), ("start",), ("crash",), ("claim_elsewhere",)),
    *(("complete_without_answer",), ("repeat",), ("look",), ("take_over",), ("push_later",)),
    *(("claim_elsewhere",), ("start",), ("release",), ("claim_elsewhere",), ("fail",)),
    *(("claim_elsewhere",), ("complete",)),
)

ENDING = (("push",), ("claim",), ("start",), ("release",), ("claim_elsewhere",), ("complete",))
SHORT = (
    (("push",), ("push",)),
    (("push",), ("take_over",)),
    (("push",), ("claim",), ("crash",), ("claim_elsewhere",), ("complete",), ("repeat", "look")),
)


def test_every_way_to_spoil_is_found_somewhere() -> None:
    tally = Tally()
    for story in (STORY, ENDING):
        tally.judge(story, Author().write(story))
    assert not tally.disagreements, tally.disagreements[:3]
    assert tally.caught.keys() == {spoil.__name__ for spoil in SPOILS}


def test_a_good_history_is_one_for_the_checker_of_worlds() -> None:
    assert check(world_of(Author().write(STORY))).problems == []


@pytest.mark.parametrize(
    ("where", "name", "says"),
    [
        (Walk, "_check_gone", None),
        (Walk, "_check_leader", None),
        (Walk, "_check_chain", None),
        (Walk, "_check_order", None),
        (Expiries, "check", None),
        (Lives, "check_order", None),
        (Lives, "check_change", None),
        (exhaustive, "_report_holds", True),
        (exhaustive, "_runs_hold", True),
        (exhaustive, "_reads_hold", True),
        (exhaustive, "_chain_holds", True),
        (exhaustive, "_was_lost_unstarted", False),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_a_judge_that_is_blind_to_something_is_contradicted(
    where: Any, name: str, says: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(where, name, lambda *args: says)
    tally = Tally()
    for story in SHORT:
        tally.judge(story, Author().write(story))
    assert tally.disagreements
