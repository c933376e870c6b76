"""What async jobs can do to the loop that they share, and how the others fare."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from objq.worker import taskloop
from objq.worker.taskloop import AsyncCall, LoopBroken, TaskLoop

PATIENCE_S = 30.0


class Jobs:
    """Calls on one loop, each from a thread of its own, as jobs make them."""

    def __init__(self) -> None:
        self.loop = TaskLoop()
        self._pool = ThreadPoolExecutor(4)

    def start(self, function: Callable[[], Coroutine[Any, Any, Any]]) -> Future[Any]:
        return self.start_call(AsyncCall(function))

    def start_call(self, call: AsyncCall) -> Future[Any]:
        return self._pool.submit(self.loop.call, call)

    def run(self, function: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        return self.start(function).result(PATIENCE_S)

    def neighbour(self) -> tuple[Future[Any], Callable[[], None]]:
        """Return a call that is under way and ends, with "done", when it is let go."""
        began, end = threading.Event(), asyncio.Event()
        loops: list[asyncio.AbstractEventLoop] = []

        async def wait() -> str:
            loops.append(asyncio.get_running_loop())
            began.set()
            await end.wait()
            return "done"

        def let_go() -> None:
            loops[0].call_soon_threadsafe(end.set)

        future = self.start(wait)
        assert began.wait(PATIENCE_S)
        return future, let_go

    def close(self) -> None:
        self.loop.stop()
        self._pool.shutdown()


@pytest.fixture
def jobs() -> Iterator[Jobs]:
    made = Jobs()
    yield made
    made.close()


async def nothing() -> str:
    return "ran"


def test_a_job_that_stops_the_loop_stops_nobody(
    jobs: Jobs, caplog: pytest.LogCaptureFixture
) -> None:
    async def stop() -> str:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0.01)
        return "went on"

    neighbour, let_go = jobs.neighbour()
    assert jobs.run(stop) == "went on"
    let_go()
    assert neighbour.result(PATIENCE_S) == "done"
    assert jobs.run(nothing) == "ran"
    assert [getattr(record, "event", "") for record in caplog.records] == ["loop_stopped"]


def test_a_job_that_closes_the_loop_fails_and_harms_nobody(jobs: Jobs) -> None:
    async def close() -> None:
        asyncio.get_running_loop().close()

    neighbour, let_go = jobs.neighbour()
    with pytest.raises(RuntimeError, match="running"):
        jobs.run(close)
    let_go()
    assert neighbour.result(PATIENCE_S) == "done"


def test_a_job_that_sets_another_loop_harms_nobody(jobs: Jobs) -> None:
    async def set_none() -> None:
        asyncio.set_event_loop(None)

    neighbour, let_go = jobs.neighbour()
    jobs.run(set_none)
    let_go()
    assert neighbour.result(PATIENCE_S) == "done"
    assert jobs.run(nothing) == "ran"


def test_a_job_that_cancels_all_tasks_fails_and_the_others_do_or_go_on(jobs: Jobs) -> None:
    async def cancel_all() -> None:
        for task in asyncio.all_tasks():
            task.cancel()
        await asyncio.sleep(60)

    neighbour, _ = jobs.neighbour()
    for future in (jobs.start(cancel_all), neighbour):
        assert isinstance(future.exception(PATIENCE_S), asyncio.CancelledError)
    assert jobs.run(nothing) == "ran"


def test_a_broken_loop_fails_the_calls_under_way_and_the_next_has_a_new_one(
    jobs: Jobs, caplog: pytest.LogCaptureFixture
) -> None:
    async def wait() -> None:
        tasks.append(weakref.ref(asyncio.current_task()))
        began.set()
        await asyncio.sleep(60)

    def broken(timeout: float | None = None) -> None:
        raise OSError

    async def break_it() -> None:
        # No job would do exactly this; it stands for whatever makes a loop raise.
        asyncio.get_running_loop()._selector.select = broken  # type: ignore[attr-defined]
        await asyncio.sleep(0)

    tasks: list[weakref.ref[Any]] = []
    began = threading.Event()
    neighbour = AsyncCall(wait)
    future = jobs.start_call(neighbour)
    assert began.wait(PATIENCE_S)
    thread = jobs.loop._thread
    assert thread is not None
    with pytest.raises(LoopBroken):
        jobs.run(break_it)
    with pytest.raises(LoopBroken):
        future.result(PATIENCE_S)
    assert jobs.run(nothing) == "ran"
    neighbour.cancel()  # the worker may not have heard of it yet
    thread.join(PATIENCE_S)
    assert "loop_broke" in [getattr(record, "event", "") for record in caplog.records]
    # It never goes on, and must not be collected either: that would run its `finally`, which starts
    # a thread, wherever the collector happens to run, such as while another thread is started.
    del future, neighbour
    gc.collect()
    assert tasks[0]() is not None


def test_what_a_job_left_on_the_loop_does_not_keep_it_from_ending(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taskloop, "STOP_S", 0.01)
    blocked, hold, freed = threading.Event(), threading.Event(), threading.Event()

    def block() -> None:
        blocked.set()
        hold.wait(PATIENCE_S)
        freed.set()

    async def leave_a_blocker() -> None:
        asyncio.get_running_loop().call_later(0.01, block)

    jobs.run(leave_a_blocker)
    assert blocked.wait(PATIENCE_S)
    jobs.loop.stop()
    assert not freed.is_set()
    hold.set()
