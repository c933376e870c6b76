"""docs/wire.md is enough to write a client from: one in JavaScript works against a real broker."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.stack import Stack, a_stack, free_port
from tests.objectservers import CACHE
from tests.servers import skip_or_fail
from tests.supervise import locked

WS = "ws@8.18.3"
HERE = Path(__file__).parent
END_TIMEOUT_S = 60.0


def install_ws() -> Path:
    """Return the folder with the package `ws`, from a cache that outlives the run."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        skip_or_fail("The client needs Node.js and npm: apt-get install nodejs npm")
    folder = CACHE / "ws"
    folder.mkdir(parents=True, exist_ok=True)
    stamp = folder / f"{WS}.installed"
    with locked(folder / "install.lock"):
        if not stamp.exists():
            command = [npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund", WS]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                skip_or_fail(f"npm cannot install {WS}: {done.stderr[-500:]}")
            stamp.touch()
    return folder


@contextmanager
def a_client(token: str, brokers: list[str]) -> Iterator[subprocess.Popen[str]]:
    """Start the scenario; end it for sure."""
    modules = {"OBJQ_NODE_MODULES": str(install_ws() / "node_modules" / "any.js")}
    process = subprocess.Popen(
        ["node", str(HERE / "scenario.mjs"), token, *brokers],
        env={**os.environ, **modules},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def steps_until(process: subprocess.Popen[str], last: str) -> dict[str, dict[str, Any]]:
    """Return what the client tells, up to the step `last`."""
    assert process.stdout is not None
    steps: dict[str, dict[str, Any]] = {}
    for line in process.stdout:
        told = json.loads(line)
        steps[told.pop("step")] = told
        if last in steps:
            return steps
    assert process.stderr is not None
    raise AssertionError(f"the client has ended: {process.stderr.read()}")


def make_token(stack: Stack, role: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "django", "objq_token", "--role", role, "--ttl", "1h"],
        env=stack.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.fixture
def two_brokers(file_storage: Any, tmp_path: Path) -> Iterator[tuple[Stack, list[str]]]:
    install_ws()
    with a_stack(tmp_path, file_storage) as stack:
        leader = stack.leader("leader", free_port())
        addresses = [leader, stack.broker("standby", free_port())]
        yield stack, addresses


def test_a_client_in_javascript_does_a_workers_work_and_survives_its_broker(
    two_brokers: tuple[Stack, list[str]],
) -> None:
    stack, addresses = two_brokers
    with a_client(make_token(stack, "work"), addresses) as process:
        steps = steps_until(process, "holding")
        check_work(steps)
        stack.kill("leader")
        assert process.stdin is not None
        process.stdin.write("the leader is dead\n")
        process.stdin.flush()
        ended = steps_until(process, "ended")["ended"]
        assert process.wait(END_TIMEOUT_S) == 0, stack.logs()
    third = steps["claimed"]["jobs"][2]
    assert ended["items"] == [{"id": third["id"], "token": third["token"], "state": "succeeded"}]
    assert [job["state"] for job in ended["jobs"]] == ["succeeded", "dead", "succeeded"]
    assert ended["jobs"][0]["result"] == {"done": "grün"}
    assert ended["jobs"][2]["history"][0]["worker"] == "node"
    assert (ended["opened"], ended["epoch"]) == (2, 2)


def check_work(steps: dict[str, dict[str, Any]]) -> None:
    """Check the steps up to the one in which the third job is held."""
    assert steps["pushed"]["role"] == "work"
    assert [item["state"] for item in steps["pushed"]["items"]] == ["ready"] * 3
    jobs = steps["claimed"]["jobs"]
    assert [job["id"] for job in jobs] == [item["id"] for item in steps["pushed"]["items"]]
    assert [job["attempt"] for job in jobs] == [1, 1, 1]
    assert (jobs[0]["args"], jobs[0]["kwargs"]) == (
        [1, "zwei", {"drei": 3}],
        {"deep": [None, True]},
    )
    assert [(job["lost"], job["cancel"]) for job in steps["beaten"]["jobs"]] == [(False, False)] * 3
    reported = steps["reported"]
    assert reported["completed"][0]["state"] == "succeeded"
    assert reported["again"] == reported["completed"]
    assert reported["failed"][0]["state"] == "dead"
    assert reported["late"][0]["error"]["code"] == "claim_lost"
    assert steps["refused"]["code"] == "forbidden"
    assert steps["holding"]["opened"] == 1
