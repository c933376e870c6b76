"""Every (state, operation) pair does what the table says, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from objq.core import ops
from objq.core.totals import mismatches
from objq.core.transitions import OPERATIONS, STATES, TABLE
from tests.core.world import World

OPERATOR = {"cancel": ops.Cancel, "retry": ops.Retry, "delete": ops.Delete, "run_now": ops.RunNow}


def a_job(state: str) -> tuple[World, str]:
    """Return a world with job "j" in the state, and the last token it was held under."""
    world = World()
    if state == "absent":
        return world, "never"
    world.push("j", run_after=world.now + 1000 if state == "scheduled" else None)
    if state == "cancelled":
        world.operate(ops.Cancel, "j", "ready")
    if state not in ("running", "succeeded", "dead"):
        return world, "never"
    token = world.take()
    if state == "dead":
        world.fail(token, retry_after=None)
    if state == "succeeded":
        world.complete(token)
    return world, token


def perform(world: World, operation: str, token: str, state: str) -> str | None:
    """Apply the operation; return the code of the refusal, if it was refused."""
    stale = token if state == "running" else "stale"
    outcome: Any = None
    if operation == "push":
        later = world.now + 1000 if state == "scheduled" else None
        outcome = world.push("j", run_after=later).items[0]
    elif operation == "claim":
        world.claim("again")
    elif operation == "complete":
        outcome = world.complete(stale)
    elif operation == "fail":
        outcome = world.fail(stale)
    elif operation == "release":
        outcome = world.release(stale)
    elif operation == "expire":
        world.expire(stale)
    else:
        outcome = world.operate(OPERATOR[operation], "j", state if state != "absent" else "ready")
    return outcome.error.code if outcome is not None and outcome.error else None


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("state", STATES)
def test_the_table_holds(state: str, operation: str) -> None:
    world, token = a_job(state)
    assert world.state("j") == state
    refused = perform(world, operation, token, state)
    wanted = TABLE[state, operation]
    if wanted in ("claim_lost", "conflict", "not_found"):
        assert refused == wanted
        assert world.state("j") == state
    else:
        assert refused is None
        after = wanted.split(" or ")[0] if wanted != "no change" else state
        assert world.state("j") == after
    assert mismatches(world.document) == ()
    world.reload()
    assert mismatches(world.document) == ()
