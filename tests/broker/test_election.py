"""The table of `objq.broker.election`, row by row."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from objq.broker.election import Action, Election, ProbeResult, Reach
from objq.core.document import Header
from objq.core.ops import BrokerInfo, Challenge
from objq.ids import Ids

TTL_S = 10.0
READY = ProbeResult(Reach.ANSWERED, "leader", leading=True, store_ok=True)
NO_STORE = ProbeResult(Reach.ANSWERED, "leader", leading=True, store_ok=False)
NOT_LEADING = ProbeResult(Reach.ANSWERED, "leader", leading=False, store_ok=True)
OTHER = ProbeResult(Reach.ANSWERED, "other", leading=True, store_ok=True)
REFUSED = ProbeResult(Reach.REFUSED)
UNREACHABLE = ProbeResult(Reach.UNREACHABLE)
PROXY = "wss://h/objq/v1/"


def election() -> Election:
    return Election("me", TTL_S, Ids(random.Random(3)))


def header(
    *,
    broker: str | None = "leader",
    url: str = "ws://h:1/",
    epoch: int = 1,
    challenge: str | None = None,
    seq: int = 5,
) -> Header:
    return Header(
        objq=1,
        document="d",
        seq=seq,
        epoch=epoch,
        commit=f"c{seq}",
        broker=BrokerInfo(id=broker, url=url, since=0, version="0") if broker else None,
        challenge=Challenge(id=challenge, by="x", at=0) if challenge else None,
    )


def rounds(
    made: Election,
    *steps: tuple[float, Header | None, ProbeResult | None],
    bound_here: bool = False,
) -> Action:
    action = Action.WAIT
    for now, found, probe in steps:
        action = made.decide(found, probe, bound_here=bound_here, now=now).action
    return action


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param([(0, None, None)], Action.CREATE, id="no document"),
        pytest.param([(0, header(broker=None), None)], Action.TAKE_OVER, id="nobody leads"),
        pytest.param([(0, header(broker="me"), READY)], Action.TAKE_OVER, id="own take-over"),
        pytest.param([(0, header(), READY)], Action.WAIT, id="in order"),
        pytest.param(
            [(0, header(challenge="c"), READY), (99, header(challenge="c"), READY)],
            Action.WAIT,
            id="in order, challenged by somebody else",
        ),
        pytest.param(
            [(0, header(), READY), (1, header(), REFUSED)], Action.TAKE_OVER, id="reached, refuses"
        ),
        pytest.param(
            [(0, header(), NO_STORE), (1, header(), REFUSED)],
            Action.TAKE_OVER,
            id="reached without a store, refuses",
        ),
        pytest.param(
            [(0, header(), READY), (1, header(epoch=2), REFUSED)],
            Action.WAIT,
            id="refuses, but was reached in another epoch",
        ),
        pytest.param([(0, header(), REFUSED)], Action.WAIT, id="refuses, never reached"),
        pytest.param(
            [(0, header(url=PROXY), READY), (1, header(url=PROXY), REFUSED)],
            Action.WAIT,
            id="a proxy was reached, and refuses for a moment",
        ),
        pytest.param(
            [(0, header(url=PROXY), READY), *[(t, header(url=PROXY), REFUSED) for t in (1, 4)]],
            Action.CHALLENGE,
            id="a proxy was reached, and refuses for long",
        ),
        pytest.param(
            [(0, header(), OTHER), (1, header(), REFUSED)],
            Action.WAIT,
            id="another id was reached there, refuses",
        ),
        pytest.param([(0, header(), UNREACHABLE)], Action.WAIT, id="unreachable for a moment"),
        *[
            pytest.param(
                [(0, header(), probe), (2.5, header(), probe)],
                Action.CHALLENGE,
                id=f"for long: {name}",
            )
            for name, probe in {
                "unreachable": UNREACHABLE,
                "refuses, never reached": REFUSED,
                "another id": OTHER,
                "no store": NO_STORE,
                "not leading": NOT_LEADING,
            }.items()
        ],
        pytest.param(
            [(0, header(), UNREACHABLE), (1, header(), READY), (3, header(), UNREACHABLE)],
            Action.WAIT,
            id="in order meanwhile",
        ),
        pytest.param(
            [(0, header(challenge="c"), UNREACHABLE), (9.9, header(challenge="c"), UNREACHABLE)],
            Action.WAIT,
            id="a challenge stands, not for long enough",
        ),
        pytest.param(
            [(0, header(challenge="c"), NO_STORE), (10, header(challenge="c", seq=9), NO_STORE)],
            Action.TAKE_OVER,
            id="a challenge stands unanswered, over direct pushes",
        ),
        pytest.param(
            [(0, header(challenge="c"), NO_STORE), (10, header(challenge="d"), NO_STORE)],
            Action.WAIT,
            id="another challenge stands",
        ),
        pytest.param(
            [
                (0, header(), UNREACHABLE),
                (3, header(challenge="c"), UNREACHABLE),
                (4, header(seq=7), UNREACHABLE),
                (8, header(seq=7), UNREACHABLE),
            ],
            Action.WAIT,
            id="the challenge was answered",
        ),
    ],
)
def test_each_row_of_the_table(
    steps: list[tuple[float, Header | None, ProbeResult | None]], expected: Action
) -> None:
    assert rounds(election(), *steps) is expected


def test_the_address_that_this_process_has_bound_is_taken_over_at_once() -> None:
    assert rounds(election(), (0, header(), OTHER), bound_here=True) is Action.TAKE_OVER


@pytest.mark.parametrize("bound_here", [True, False])
def test_a_broker_deposed_while_alive_only_challenges(bound_here: bool) -> None:
    made = election()
    made.lose("me2")
    assert rounds(made, (0, header(), READY), (1, header(), REFUSED)) is Action.WAIT
    assert rounds(made, (4, header(), REFUSED), bound_here=bound_here) is Action.CHALLENGE
    standing = header(challenge="c")
    assert rounds(made, (5, standing, REFUSED), (15, standing, REFUSED)) is Action.TAKE_OVER
    assert rounds(made, (16, header(broker=None), None)) is Action.TAKE_OVER


def test_answered_challenges_back_off_and_a_quiet_time_forgives() -> None:
    made = election()
    now = 0.0
    challenged_at: list[float] = []
    standing = False
    while now < 2000:
        found = header(challenge=f"c{len(challenged_at)}" if standing else None)
        standing = (
            made.decide(found, UNREACHABLE, bound_here=False, now=now).action is Action.CHALLENGE
        )
        if standing:
            challenged_at.append(now)
        now += 0.5
    gaps = [b - a for a, b in pairwise(challenged_at)]
    assert gaps[0] <= TTL_S + 1
    assert max(gaps) <= 16 * TTL_S + 1
    assert gaps[-1] >= 8 * TTL_S
    assert len(gaps) <= 25


def test_challenges_that_a_busy_leader_answers_at_once_back_off_as_well() -> None:
    """It commits before the standby looks again, which never sees its own challenge stand."""
    made = election()
    now, seq = 0.0, 5
    challenged_at: list[float] = []
    while now < 300:
        action = made.decide(header(seq=seq), UNREACHABLE, bound_here=False, now=now).action
        seq += 2
        if action is Action.CHALLENGE:
            challenged_at.append(now)
        now += 0.5
    assert len(challenged_at) <= 12
    assert made.decide(header(seq=seq), READY, bound_here=False, now=now).action is Action.WAIT


def test_a_challenge_that_was_not_written_is_no_answered_one() -> None:
    made = election()
    steps = [(0, header(), UNREACHABLE), (3, header(), UNREACHABLE)]
    assert rounds(made, *steps) is Action.CHALLENGE
    assert rounds(made, (3.1, header(seq=6), UNREACHABLE)) is Action.CHALLENGE


def test_a_challenge_that_stands_below_direct_pushes_is_no_answered_one() -> None:
    made = election()
    rounds(made, (0, header(), UNREACHABLE), (3, header(), UNREACHABLE))
    standing = header(challenge="c", seq=9)
    assert rounds(made, (3.3, standing, UNREACHABLE)) is Action.WAIT
    made.forget()  # a pause: only an answer would have backed off
    later = [(t, header(seq=9), UNREACHABLE) for t in (4, 7)]
    assert rounds(made, *later) is Action.CHALLENGE


def test_a_pause_of_the_standby_starts_the_time_of_a_challenge_over() -> None:
    made = election()
    standing = header(challenge="c")
    rounds(made, (0, standing, UNREACHABLE))
    made.forget()
    assert rounds(made, (60, standing, UNREACHABLE)) is Action.WAIT
    assert rounds(made, (70, standing, UNREACHABLE)) is Action.TAKE_OVER
