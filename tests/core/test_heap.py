"""Jobs that leave from the middle of a line are not kept in memory until they come to its head."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from objq.core import ops
from objq.core.heap import SLACK, Heap
from objq.core.job import Job
from tests.core.world import World


def a_job(number: int) -> Job:
    return Job(
        id=str(number), queue="q", state="ready", priority=0, order=number, raw=b"", pushed_at=0
    )


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 999)), max_size=300))
def test_the_head_is_the_least_and_those_that_left_are_no_more_than_half(
    steps: list[tuple[bool, int]],
) -> None:
    present: dict[int, Job] = {}
    heap: Heap[tuple[int, Job]] = Heap(lambda entry: entry[1].order in present)
    for number, (comes, which) in enumerate(steps):
        if comes or not present:
            present[number] = a_job(number)
            heap.add((number, present[number]))
        else:
            job = present.pop(sorted(present)[which % len(present)])
            heap.leave(job)
        assert len(heap.entries) <= 2 * len(present) + SLACK + 1
    while present:
        head = heap.head()
        assert head is not None
        assert head[0] == min(present)
        heap.leave(present.pop(head[0]))
    assert heap.head() is None


def test_an_entry_costs_a_bounded_number_of_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many leave from the middle; the heap is looked through again and again for it."""
    looks = 0

    def is_current(entry: tuple[int, Job]) -> bool:
        nonlocal looks
        looks += 1
        return entry[1].order in present

    rebuilt = 0

    def count(entries: list[tuple[int, Job]]) -> None:
        nonlocal rebuilt
        rebuilt += 1
        heapify(entries)

    heapify = heapq.heapify
    monkeypatch.setattr("heapq.heapify", count)
    most = 10_000
    present = {number: a_job(number) for number in range(most)}
    heap: Heap[tuple[int, Job]] = Heap(is_current)
    for number, job in present.items():
        heap.add((number, job))
    for number in reversed(range(1, most)):
        heap.leave(present.pop(number))
    assert rebuilt > 1
    assert looks <= 4 * most
    assert len(heap.entries) <= SLACK + 2


def cancel_and_delete(world: World, job_id: str, state: str) -> None:
    world.operate(ops.Cancel, job_id, state)
    world.operate(ops.Delete, job_id, "cancelled")


def delete(world: World, job_id: str, state: str) -> None:
    world.operate(ops.Delete, job_id, state)


@pytest.mark.parametrize("ending", [cancel_and_delete, delete])
@pytest.mark.parametrize("state", ["scheduled", "ready"])
def test_jobs_that_left_before_their_turn_are_let_go(
    state: str, ending: Callable[[World, str, str], None]
) -> None:
    """Their text stayed in memory until they would have been next, if ever: a queue may be paused,
    and a job may have been put off for years."""
    world = World()
    later = world.now + 1_000_000 if state == "scheduled" else None
    world.push("first", run_after=later and later - 1)
    for number in range(500):
        world.push(f"j{number}", run_after=later)
        ending(world, f"j{number}", state)
    held = world.document.indexed({state}, ["default"], 10_000)
    assert held is not None
    assert len(held) <= 2 + SLACK + 1
    world.pass_ms(2_000_000)
    assert [grant.id for grant in world.claim("c", 10)] == ["first"]


def test_few_jobs_are_found_through_the_indexes_also_where_many_have_left() -> None:
    world = World()
    world.push("first")
    for number in range(500):
        world.push(f"j{number}")
        delete(world, f"j{number}", "ready")
    assert world.document.indexed({"ready"}, ["default"], 100) is not None
