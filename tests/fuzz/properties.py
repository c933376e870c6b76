"""Hypothesis as an engine: batches of examples until there were enough, shrunk if one fails."""

from __future__ import annotations

from typing import Final

import hypothesis
from hypothesis import HealthCheck, Phase

from tests.fuzz.guard import Bound, Guard
from tests.fuzz.targets import Target

ENGINE: Final = "hypothesis"
BATCH: Final = 200


class Failed(AssertionError):
    """An example that is a finding, for Hypothesis to shrink."""


def run(target: Target, guard: Guard, seed: int, bound: Bound) -> None:
    """Give examples to the guard until the bound is reached, or one fails."""
    while not guard.failed and not bound.is_reached(guard.given(ENGINE)):
        _batch(target, guard, seed, bound)
        seed += 1


def _batch(target: Target, guard: Guard, seed: int, bound: Bound) -> None:
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
        # Beyond the bound there is still shrinking, which gives the same again.
        if not guard.failed and bound.is_reached(guard.given(ENGINE)):
            return
        if not guard.give(data[: target.most_bytes], ENGINE):
            raise Failed

    try:
        one()
    except Failed:  # the guard has the smallest example, which came last
        return
