"""No broker: workers and pushers write the document themselves, side by side, and meet a broker."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.stack import Stack, a_stack, free_port
from tests.proxy import CutReply, Proxy, every_nth_write

DIRECT = {"MODE": "direct"}
JOBS = 200
"""Each pusher's: every commit of every process contends for the one object."""

MIXED = 100

PATIENT = {**DIRECT, "ENQUEUE_TIMEOUT": 60}
"""What is shown here is that nothing is lost or doubled, not how fast a loaded machine is."""


def pushing(stack: Stack, count: int) -> Callable[[], dict[str, Any]]:
    """Start a pusher beside this; return what waits for its end and returns its report."""
    reports: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: reports.append(stack.push(count)))
    thread.start()

    def join() -> dict[str, Any]:
        thread.join()
        assert reports, stack.logs()
        return reports[0]

    return join


def all_ran(stack: Stack, reports: list[dict[str, Any]], count: int) -> None:
    for report in reports:
        assert report["errors"] == [], stack.logs()
        assert report["values"] == [number * 2 for number in range(count)], stack.logs()
    assert stack.runs() == dict.fromkeys(range(count), len(reports)), stack.logs()


@pytest.mark.parametrize(
    ("store", "clients", "slots"),
    [
        ("file", 20, 4),
        ("seaweedfs", 20, 4),
        ("azurite", 20, 4),
        ("fake_gcs", 100, 50),  # each process keeps to one write a second
    ],
)
def test_jobs_run_once_each_without_any_broker(
    store: str, clients: int, slots: int, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    storage = request.getfixturevalue(f"{store}_storage")
    with a_stack(tmp_path, storage, PATIENT) as stack:
        for name in ("worker-1", "worker-2"):
            stack.worker(name, "--concurrency", str(slots))
        all_ran(stack, [stack.push(JOBS, clients)], JOBS)
        for name in ("worker-1", "worker-2"):
            assert stack.terminate(name) == 0, stack.logs()


def test_lost_replies_lose_and_double_nothing(
    seaweedfs_storage: dict[str, Any], tmp_path: Path
) -> None:
    endpoint = seaweedfs_storage["OPTIONS"]["endpoint_url"]
    with Proxy(endpoint, every_nth_write(5, CutReply())) as proxy:
        options = {**seaweedfs_storage["OPTIONS"], "endpoint_url": proxy.url}
        with a_stack(tmp_path, {**seaweedfs_storage, "OPTIONS": options}, PATIENT) as stack:
            stack.worker("worker-1")
            stack.worker("worker-2")
            pushers = [pushing(stack, MIXED) for _ in range(2)]
            all_ran(stack, [join() for join in pushers], MIXED)


def test_direct_processes_meet_a_broker_that_comes_is_killed_and_comes_again(
    file_storage: dict[str, Any], tmp_path: Path
) -> None:
    port = free_port()
    with a_stack(tmp_path, file_storage, PATIENT) as stack:
        stack.worker("worker-1")
        stack.worker("worker-2")
        alone = pushing(stack, MIXED)
        stack.leader("broker", port)
        pushers = [pushing(stack, MIXED) for _ in range(2)]
        stack.until(lambda: stack.ran() >= MIXED * 3 // 2)
        stack.kill("broker")
        stack.broker("broker", port)
        all_ran(stack, [alone(), *(join() for join in pushers)], MIXED)
        stack.until(lambda: stack.readyz(port)["leading"])
        assert stack.terminate("broker") == 0, stack.logs()
        last = stack.push(1)  # nobody leads any more
        assert last["values"] == [0], stack.logs()
        for name in ("worker-1", "worker-2"):
            assert stack.terminate(name) == 0, stack.logs()


def test_direct_and_brokered_processes_share_one_queue(
    seaweedfs_storage: dict[str, Any], tmp_path: Path
) -> None:
    brokered = a_stack(tmp_path, seaweedfs_storage, {"ENQUEUE_TIMEOUT": 60})
    with brokered as through, a_stack(tmp_path, seaweedfs_storage, PATIENT) as alone:
        through.broker("broker", free_port())
        through.worker("worker-brokered")
        alone.worker("worker-direct")
        pushers = [pushing(stack, MIXED) for stack in (through, alone)]
        all_ran(through, [join() for join in pushers], MIXED)
        assert alone.terminate("worker-direct") == 0, alone.logs()
        assert through.terminate("worker-brokered") == 0, through.logs()
        assert through.terminate("broker") == 0, through.logs()


def test_the_jobs_of_a_direct_worker_that_is_killed_run_again(
    file_storage: dict[str, Any], tmp_path: Path
) -> None:
    options = {**DIRECT, "HEARTBEAT_TIMEOUT": 3}
    with a_stack(tmp_path, file_storage, options) as stack:
        stack.worker("worker-1")
        stack.enqueue("stall", 1, 2, 3)
        stack.until(lambda: stack.ran() == 3)
        stack.until(lambda: all(claim["started_at"] for claim in stack.claims(file_storage)))
        stack.kill("worker-1")
        stack.worker("worker-2")
        stack.until(lambda: stack.ran() == 6)
        stack.until(lambda: not stack.claims(file_storage))
        assert stack.runs() == {1: 2, 2: 2, 3: 2}
        assert stack.terminate("worker-2") == 0, stack.logs()
