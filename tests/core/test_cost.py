"""No rule looks at all jobs: an operation costs the same however many wait (design §9)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from objq.core import ops, rules
from tests.core.world import World

FEW, MANY = 200, 5000


def steps_of(call: Callable[[], Any]) -> int:
    """Return how many lines of Python a call takes: no clock, and the same each time.

    Each turn of a loop counts, also of one in a comprehension.
    """
    steps = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal steps
        steps += event in ("call", "line")
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return steps


def a_world(jobs: int) -> World:
    """A queue in which some jobs run, some died, some wait for their time and `jobs` are ready."""
    world = World()
    world.push(*(f"d{number}" for number in range(5)), max_attempts=1)
    for _ in range(5):
        world.fail(world.take())
    world.push(*(f"j{number}" for number in range(jobs)))
    world.push(*(f"s{number}" for number in range(jobs)), run_after=world.now + 3_600_000)
    world.claim("1-w:1", 5)
    return world


OPERATIONS: dict[str, Callable[[World], Any]] = {
    "push": lambda world: world.push("new"),
    "claim": lambda world: world.claim("1-w:9"),
    "claim from two queues": lambda world: world.claim("1-w:9", 1, "default", "mail"),
    "complete": lambda world: world.complete(next(iter(world.document.claims))),
    "fail": lambda world: world.fail(next(iter(world.document.claims))),
    "release": lambda world: world.release(next(iter(world.document.claims))),
    "expire": lambda world: world.expire(*world.document.claims),
    "cancel": lambda world: world.operate(ops.Cancel, "j150", "ready"),
    "delete": lambda world: world.operate(ops.Delete, "j150", "ready"),
    "run now": lambda world: world.operate(ops.RunNow, "s150", "scheduled"),
    "retry": lambda world: world.operate(ops.Retry, "d0", "dead"),
    "get": lambda world: world.job("j150"),
    "tick": lambda world: rules.tick(world.document, world.now + 1, 1),
    "tidy": lambda world: rules.tidy(world.document),
    "when the next is due": lambda world: world.document.next_due(),
}


def steps_with(jobs: int, operation: Callable[[World], Any]) -> int:
    world = a_world(jobs)
    return steps_of(lambda: operation(world))


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_takes_as_many_steps_with_many_jobs_as_with_few(name: str) -> None:
    few, many = (steps_with(jobs, OPERATIONS[name]) for jobs in (FEW, MANY))
    assert few > 1
    assert many <= few * 1.5


@pytest.mark.parametrize(
    "scan",
    [
        lambda world: [job for job in world.document.jobs],  # noqa: C416 - the loop is what counts
        lambda world: sum(1 for job in world.document.jobs),
    ],
)
def test_a_look_at_all_jobs_would_be_seen(scan: Callable[[World], Any]) -> None:
    assert steps_with(MANY, scan) > 20 * steps_with(FEW, scan)
