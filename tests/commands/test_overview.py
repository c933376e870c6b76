"""Whether somebody takes what is ready, as commands and the dashboard are told."""

from __future__ import annotations

from typing import Any

from objq.core.ops import AllWorkers, QueueStats, Statistics, WorkerView
from objq.overview import is_silent, takers, untaken


def workers(*views: WorkerView, total: int | None = None) -> AllWorkers:
    return AllWorkers(workers=views, total=len(views) if total is None else total)


def worker(name: str, **changes: Any) -> WorkerView:
    values = {"connected": True, "queues": ("default",), "slots": 2, "holds": 1}
    return WorkerView(name=name, **{**values, **changes})


def test_a_worker_is_silent_when_three_of_its_heartbeats_are_missing() -> None:
    assert [is_silent(ago_s, 30.0) for ago_s in (None, 0.0, 15.0, 15.1)] == [
        False, False, False, True
    ]  # fmt: skip


def test_takers_are_told_apart_by_whether_they_are_heard_of() -> None:
    heard, silent = worker("heard", heard_ago_s=1.0), worker("silent", heard_ago_s=16.0)
    lost, other = worker("lost", connected=False), worker("other", queues=("mail",))
    known = workers(heard, silent, lost, other)
    found = takers("default", known, 30.0)
    assert found == ([heard], [silent])
    assert found is not None
    assert (found.slots, found.are_busy) == (2, False)
    busy = takers("default", workers(worker("busy", holds=2), silent), 30.0)
    assert busy is not None
    assert busy.are_busy
    assert takers("default", workers(heard, total=501), 30.0) is None


def test_a_queue_is_untaken_when_nobody_is_connected_to_take_from_it() -> None:
    queues = {
        "default": QueueStats(ready=1),
        "mail": QueueStats(ready=1),
        "paused": QueueStats(ready=1, paused=True),
        "empty": QueueStats(),
    }
    stats = Statistics(
        document="d", seq=1, epoch=1, at=0, broker=None, size_bytes=1, heartbeat_timeout_s=30.0,
        queues=queues,
    )  # fmt: skip
    assert untaken(stats, workers(worker("silent", heard_ago_s=16.0))) == ["mail"]
