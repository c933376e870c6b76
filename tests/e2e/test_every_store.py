"""1,000 jobs, pushed by 20 clients and run by 2 workers: each exactly once, on each store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.stack import Stack, a_stack, free_port

JOBS = 1000


def run_all(stack: Stack, jobs: int) -> None:
    stack.worker("worker-1")
    stack.worker("worker-2")
    report = stack.push(jobs)
    assert report["errors"] == []
    assert len(set(report["ids"])) == jobs
    assert report["values"] == [number * 2 for number in range(jobs)], stack.logs()
    assert stack.runs() == dict.fromkeys(range(jobs), 1), stack.logs()
    for name in ("worker-1", "worker-2", "broker"):
        assert stack.terminate(name) == 0, stack.logs()


@pytest.mark.parametrize("store", ["file", "ministack", "seaweedfs", "azurite", "fake_gcs"])
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
