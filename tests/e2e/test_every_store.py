"""1,000 jobs, pushed by many clients and run by 2 workers: each exactly once, on each store."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.stack import CLIENTS, Stack, a_stack, free_port
from tests.http1 import Message
from tests.proxy import Action, Answer, Exchange, Proxy
from tests.servers import ObjectServer

JOBS = 1000

CROWD = 250
"""Clients at a store of one write a second: each is acked every other write, however many."""

SLOTS = 60
"""Of each of its workers: what runs between two writes has to be claimed by one of them."""

SLOW_WRITE_S = 1.5
FEWER_JOBS = 200


def run_all(stack: Stack, jobs: int, clients: int = CLIENTS, slots: int = 4) -> None:
    for name in ("worker-1", "worker-2"):
        stack.worker(name, "--concurrency", str(slots))
    report = stack.push(jobs, clients)
    assert report["errors"] == []
    assert len(set(report["ids"])) == jobs
    assert report["values"] == [number * 2 for number in range(jobs)], stack.logs()
    assert stack.runs() == dict.fromkeys(range(jobs), 1), stack.logs()
    for name in ("worker-1", "worker-2", "broker"):
        assert stack.terminate(name) == 0, stack.logs()


@pytest.mark.parametrize("store", ["file", "ministack", "seaweedfs", "azurite"])
def test_a_thousand_jobs_run_once_each(
    store: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    storage = request.getfixturevalue(f"{store}_storage")
    with a_stack(tmp_path, storage) as stack:
        stack.broker("broker", free_port())
        run_all(stack, JOBS)


def test_a_thousand_jobs_run_once_each_in_memory(tmp_path: Path, memory_storage: object) -> None:
    # Only the broker's process has this store; the others are given its address.
    port = free_port()
    with a_stack(tmp_path, memory_storage) as stack:
        stack.broker("broker", port)
        stack.options = {"BROKER_URL": f"ws://127.0.0.1:{port}/objq/v1/"}
        run_all(stack, JOBS)


def test_a_thousand_jobs_run_once_each_at_one_write_a_second(
    tmp_path: Path, fake_gcs_storage: dict[str, Any]
) -> None:
    with a_stack(tmp_path, fake_gcs_storage) as stack:
        stack.broker("broker", free_port())
        run_all(stack, JOBS, CROWD, SLOTS)


class SlowObject:
    """Google's limit on one object: a write that comes too soon after the last is refused."""

    def __init__(self, least_s: float) -> None:
        self._least_s = least_s
        self._last = float("-inf")

    def __call__(self, request: Message) -> Action | None:
        if not is_write(request):
            return None
        now = time.monotonic()
        if now - self._last < self._least_s:
            return Answer(429, b'{"error": {"code": 429, "message": "rate limit exceeded"}}')
        self._last = now
        return None


def is_write(request: Message) -> bool:
    """Tell whether this writes the document (and not the probe's own object)."""
    return request.is_write and "/upload/" in request.target


def answered(status: int) -> Callable[[Exchange], bool]:
    return lambda exchange: is_write(exchange.request) and exchange.status == status


def test_a_store_that_refuses_some_writes_is_written_more_slowly_and_nothing_is_lost(
    tmp_path: Path, fake_gcs: ObjectServer, fake_gcs_storage: dict[str, Any]
) -> None:
    patient = {"ENQUEUE_TIMEOUT": 60}  # or pushes go past the broker, and it is not alone
    with Proxy(fake_gcs.url) as proxy:
        with a_stack(tmp_path, fake_gcs_storage, patient, STORAGE_EMULATOR_HOST=proxy.url) as stack:
            stack.broker("broker", free_port())
            proxy.rule = SlowObject(SLOW_WRITE_S)
            run_all(stack, FEWER_JOBS, CROWD, SLOTS)
        refused, accepted = proxy.count(answered(429)), proxy.count(answered(200))
    assert 1 <= refused <= accepted / 3
