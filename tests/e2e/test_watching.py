"""The operator's looks against a real broker: list, workers, history, watch and `/metrics`."""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings

import objq
from objq.client.shared import shared
from objq.client.watching import Disconnected, Event
from objq.core import ops
from tests.e2e.stack import Stack, a_stack, free_port

BACKEND = "objq.backend.ObjqBackend"


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    """Return processes over a folder, which this process uses too."""
    place = {
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {"location": str(tmp_path / "store")},
    }
    tasks = {"default": {"BACKEND": BACKEND, "QUEUES": [], "OPTIONS": {"STORAGE": "objq"}}}
    with (
        override_settings(STORAGES={"objq": place}, TASKS=tasks),
        a_stack(tmp_path, place) as running,
    ):
        yield running
        shared.reset()


def job(number: int, task: str = "shop.tasks.send") -> ops.NewJob:
    return ops.NewJob(id=f"job-{number:03}", task=task)


def test_pages_workers_history_and_metrics(stack: Stack) -> None:
    address = stack.broker("broker", free_port())
    client = objq.connect()
    client.push([job(number) for number in range(120)])
    (grant,) = client.claim(worker="tester").jobs
    page = client.list(ops.Filter(states=("ready",)), limit=100)
    rest = client.list(ops.Filter(states=("ready",)), limit=100, cursor=page.cursor)
    assert (len(page.jobs), len(rest.jobs), page.total, rest.cursor) == (100, 19, 119, None)
    (held,) = client.list(ops.Filter(states=("running",))).jobs
    assert (held.id, held.worker) == (grant.id, "tester")
    (worker,) = client.workers().workers
    assert (worker.name, worker.connected, worker.holds) == ("tester", False, 1)
    assert client.history().every_s == 10.0
    with urllib.request.urlopen(f"{address}/metrics", timeout=10) as reply:
        assert reply.headers["Content-Type"].startswith("text/plain")
        lines = reply.read().decode().splitlines()
    assert 'objq_jobs{queue="default",state="ready"} 119.0' in lines
    assert 'objq_requests_total{op="list",outcome="ok"} 3.0' in lines
    assert "objq_job_wait_seconds_count 1.0" in lines


def test_a_watch_sees_changes_and_survives_the_broker(stack: Stack) -> None:
    first, second = free_port(), free_port()
    stack.leader("leader", first)
    stack.broker("standby", second)
    client = objq.connect()
    with client.watch() as watch:
        snapshot = watch.next(30)
        assert isinstance(snapshot, ops.Statistics) and not snapshot.queues
        client.push([job(1)])
        delta = watch.next(30)
        assert isinstance(delta, ops.Delta)
        assert [(row.id, row.state) for row in delta.jobs] == [("job-001", "ready")]
        stack.kill("leader")
        events: list[Event | None] = [watch.next(60), watch.next(60)]
        assert isinstance(events[0], Disconnected)
        assert isinstance(events[1], ops.Statistics) and events[1].epoch == 2
        assert events[1].queues["default"].ready == 1
    assert watch.next(30) is None


async def test_many_loops_watch_through_the_shared_client(stack: Stack) -> None:
    await asyncio.to_thread(stack.broker, "broker", free_port())
    client = await objq.aconnect()
    watches = [client.watch() for _ in range(3)]
    snapshots: list[Any] = [await anext(watch) for watch in watches]
    assert {type(snapshot) for snapshot in snapshots} == {ops.Statistics}
    await client.push([job(1)])
    for watch in watches:
        delta = await anext(watch)
        assert isinstance(delta, ops.Delta) and delta.jobs[0].id == "job-001"
        await watch.aclose()
        assert await anext(watch, None) is None
