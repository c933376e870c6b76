"""What the checker must see: a deliberate fault in the real code (see `mutants`)."""

from __future__ import annotations

import pytest

from tests.sim.mutants import MUTANTS, caught_by


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_caught(name: str) -> None:
    assert caught_by(name) is not None
