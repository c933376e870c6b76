"""Prefixes are drawn from a seq seen at most half of the window before (S7)."""

from __future__ import annotations

import random

import pytest

from objq.client.request_ids import RequestIds
from objq.core.requests import RequestKey, parse_request
from objq.errors import Unavailable
from objq.ids import Ids


class HandClock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return 0


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def ids(clock: HandClock) -> RequestIds:
    return RequestIds(clock, Ids(random.Random(1)), window_s=120)


def draw(ids: RequestIds) -> RequestKey:
    key = parse_request(ids.draw())
    assert key is not None
    return key


def test_nothing_is_drawn_before_a_seq_was_seen(ids: RequestIds) -> None:
    assert not ids.is_fresh()
    with pytest.raises(Unavailable):
        ids.draw()


def test_prefix_lasts_half_the_window_from_when_its_seq_was_seen(
    ids: RequestIds, clock: HandClock
) -> None:
    ids.saw(7, clock.now)
    clock.now += 59
    first = draw(ids)
    ids.saw(8, clock.now)
    clock.now += 1
    second = draw(ids)
    clock.now += 1
    third = draw(ids)
    assert (first.seq, first.number) == (7, 1)
    assert (second.prefix, second.number) == (first.prefix, 2)
    assert (third.seq, third.number) == (8, 1)
    clock.now += 60
    assert not ids.is_fresh()


def test_late_answer_does_not_make_an_old_seq_fresh(ids: RequestIds, clock: HandClock) -> None:
    ids.saw(7, clock.now)
    ids.saw(6, clock.now - 100)
    clock.now += 61
    assert not ids.is_fresh()


def test_expired_prefix_is_used_no_more(ids: RequestIds, clock: HandClock) -> None:
    ids.saw(7, clock.now)
    request = ids.draw()
    ids.abandon(request)
    assert not ids.is_fresh()
    clock.now += 1
    ids.saw(9, clock.now)
    fresh = draw(ids)
    assert fresh.seq == 9
    ids.abandon(request)
    assert draw(ids).prefix == fresh.prefix, "an old one says nothing of the new"


def test_two_processes_never_draw_the_same() -> None:
    clock = HandClock()
    made = [RequestIds(clock, Ids(), 120) for _ in range(2)]
    for one in made:
        one.saw(7, clock.now)
    assert made[0].draw() != made[1].draw()
