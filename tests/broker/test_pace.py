"""The interval between writes: stretched by throttling, within bounds, and back again."""

from __future__ import annotations

import random

import pytest

from objq.broker.pace import MAX_INTERVAL_S, Pace
from objq.core.ops import DocumentSettings
from objq.ids import Ids
from objq.store.base import Throttled


def throttled(least_s: float = 0.0, most_s: float | None = None) -> Pace:
    pace = Pace(least_s, Ids(random.Random(1)))
    if most_s is not None:
        pace.limit(most_s)
    for _ in range(20):
        pace.fail(Throttled("slow down"))
    return pace


def test_throttling_stretches_the_interval_up_to_a_limit() -> None:
    assert throttled().interval_s == MAX_INTERVAL_S
    assert throttled(most_s=0.5).interval_s == 0.5
    assert throttled(least_s=1.0, most_s=0.5).interval_s == 1.0  # the store's own pace is kept


def test_a_limit_that_is_learnt_later_holds_at_once() -> None:
    pace = throttled()
    pace.limit(0.5)
    assert pace.interval_s == 0.5


@pytest.mark.parametrize("timeout_s", [6.0, 30.0, 600.0])
def test_a_holder_may_lose_a_dozen_races_within_its_timeout(timeout_s: float) -> None:
    settings = DocumentSettings(heartbeat_timeout_s=timeout_s)
    assert 12 * settings.write_apart_s <= timeout_s
    assert settings.write_apart_s <= settings.broker_ttl_s / 4


def test_what_was_not_throttled_brings_the_interval_back_also_if_it_met_a_conflict() -> None:
    won, lost = throttled(), throttled()
    for _ in range(40):
        won.succeed(0.1)
        lost.conflicted()
    assert won.interval_s == lost.interval_s == 0.0
