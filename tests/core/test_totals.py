"""The totals account for every job, and a queue where they do not is named."""

from __future__ import annotations

from objq.core import ops
from objq.core.totals import Mismatch, mismatches
from tests.core.world import World


def test_the_totals_of_a_busy_queue_add_up() -> None:
    world = World()
    world.push("done", "dead", "waiting", "gone", "cancelled", "running")
    world.push("mail", queue="mail")
    world.complete(world.take())
    world.fail(world.take(), retry_after=None)
    world.operate(ops.Delete, "gone", "ready")
    world.operate(ops.Cancel, "cancelled", "ready")
    world.take()
    assert mismatches(world.document) == ()
    world.operate(ops.Retry, "dead", "dead")
    world.operate(ops.Delete, "done", "succeeded")
    assert mismatches(world.document) == ()
    world.reload()
    assert mismatches(world.document) == ()


def test_a_queue_whose_totals_do_not_add_up_is_named() -> None:
    world = World()
    world.push("a", "b")
    world.push("c", queue="mail")
    world.document.totals_of("mail").pushed += 2
    assert mismatches(world.document) == (Mismatch("mail", came=3, accounted=1),)


def test_jobs_of_a_queue_without_totals_are_missed() -> None:
    world = World()
    world.push("a")
    world.document.totals.clear()
    assert mismatches(world.document) == (Mismatch("default", came=0, accounted=1),)
