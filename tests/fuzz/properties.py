"""Hypothesis as an engine: batches of examples until the time is over, shrunk if one fails."""

from __future__ import annotations

import time
from typing import Final

import hypothesis
from hypothesis import HealthCheck, Phase

from tests.fuzz.guard import Guard
from tests.fuzz.targets import Target

BATCH: Final = 200


class Failed(AssertionError):
    """An example that is a finding, for Hypothesis to shrink."""


def run(target: Target, guard: Guard, seed: int, until: float) -> None:
    """Give examples to the guard until the monotonic clock says `until`."""
    while time.monotonic() < until and not guard.failed:
        _batch(target, guard, seed, until)
        seed += 1


def _batch(target: Target, guard: Guard, seed: int, until: float) -> None:
    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=BATCH,
        database=None,
        deadline=None,
        derandomize=False,
        print_blob=False,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @hypothesis.given(target.strategy)
    def one(data: bytes) -> None:
        if time.monotonic() < until and not guard.give(data[: target.most_bytes], "hypothesis"):
            raise Failed

    try:
        one()
    except Failed:  # the guard has the smallest example, which came last
        return
