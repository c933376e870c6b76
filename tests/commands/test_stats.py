"""`objq_stats` asks the broker, and reads the document itself when none answers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError

import objq
from objq.core import ops
from objq.core.ops import BrokerInfo, QueueStats, Running, Statistics
from objq.overview import Overview, as_text
from tests.commands.conftest import Queue, configured, recorded, run
from tests.core.world import World
from tests.e2e.stack import Stack
from tests.objectservers import Entry


def a_world() -> World:
    world = World()
    world.push("a", "b", "c")
    world.push("m", queue="mail")
    world.take()
    return world


def row(out: str, name: str) -> list[str]:
    (found,) = [line.split() for line in out.splitlines() if line.startswith(name)]
    return found


def test_a_broker_is_asked(queue: Queue, live: Stack) -> None:
    objq.connect().push([ops.NewJob(id=f"job-{number}", task="t") for number in range(3)])
    said = run("objq_stats")
    assert "leads" in said.out
    assert "queue.json itself" not in said.out
    assert row(said.out, "default")[1:6] == ["3", "0", "0", "0", "0"]
    told = json.loads(run("objq_stats", "--json").out)
    assert (told["source"], told["why"]) == ("broker", None)
    assert told["queues"]["default"]["totals"]["pushed"] == 3


def test_without_a_broker_the_document_is_read_at_once(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("objq.overview.connect", None)  # nobody is there to be asked
    queue.put_world(a_world())
    said = run("objq_stats")
    assert "Read from queue.json itself. No broker is recorded." in said.out
    assert row(said.out, "default")[1:6] == ["2", "0", "1", "0", "0"]
    assert row(said.out, "mail")[1] == "1"
    assert row(said.out, "tasks.t")[1:4] == ["default", "w", "1"]


def test_a_broker_that_is_gone_is_named_and_the_document_is_read(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("objq.overview.ANSWER_TIMEOUT_S", 0.3)
    world = a_world()
    world.document.broker = recorded()
    queue.put_world(world)
    told = json.loads(run("objq_stats", "--json").out)
    assert told["source"] == "document"
    assert "ws://127.0.0.1:9/" in told["why"]
    assert told["queues"]["mail"]["ready"] == 1
    assert "is recorded as leader" in run("objq_stats").out


def test_in_direct_mode_nobody_is_asked(
    settings: Any, file_storage: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("objq.overview.connect", None)
    with configured(settings, file_storage, MODE="direct") as queue:
        queue.put_world(a_world())
        assert 'MODE is "direct"' in run("objq_stats").out


def test_without_a_document_it_says_what_to_do(queue: Queue) -> None:
    with pytest.raises(CommandError, match="runbroker"):
        run("objq_stats")


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "1e9"])
def test_a_watch_takes_a_time_that_can_be_waited(queue: Queue, seconds: str) -> None:
    with pytest.raises(CommandError, match="above 0, and at most 86,400"):
        run("objq_stats", f"--watch={seconds}")


# --- watching ------------------------------------------------------------------------------------


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Let a watch sleep no time, and end with its third round as by Ctrl-C."""
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("objq.management.commands.objq_stats.time.sleep", sleep)
    return slept


def test_watching_shows_the_figures_again_and_again(queue: Queue, rounds: list[float]) -> None:
    queue.put_world(a_world())
    lines = run("objq_stats", "--json", "--watch").out.splitlines()
    assert [json.loads(line)["seq"] for line in lines] == [2, 2, 2]
    assert rounds == [2.0] * 3


def test_watching_goes_on_when_the_document_cannot_be_read_for_a_while(
    queue: Queue, rounds: list[float]
) -> None:
    queue.put(b"what is this?")
    said = run("objq_stats", "--watch", "0.5")
    assert said.err.count("not a document of objq") == 3
    assert rounds == [0.5] * 3


def test_a_watching_process_ends_quietly_with_ctrl_c(
    queue: Queue, file_storage: Entry, tmp_path: Path
) -> None:
    queue.put_world(a_world())
    process = subprocess.Popen(
        [sys.executable, "-m", "django", "objq_stats", "--json", "--watch", "0.05"],
        env=Stack(tmp_path, file_storage, {}, {}).environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert [json.loads(process.stdout.readline())["seq"] for _ in range(3)] == [2, 2, 2]
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert (process.returncode, err) == (0, "")


# --- the table -----------------------------------------------------------------------------------


def test_the_table_shows_what_stands_out() -> None:
    running = [
        Running(
            id=f"job-{number}", queue="mail", task="shop.send", worker="w-1", claimed_at=0,
            attempt=2, started=number != 1, heard_ago_s=12.0 - number,
        )
        for number in range(12)
    ]  # fmt: skip
    figures = Statistics(
        document="d",
        seq=48_213,
        epoch=7,
        at=88_000,
        broker=BrokerInfo(id="b", url="ws://h:1/objq/v1/", since=0, version="0"),
        size_bytes=12_345,
        heartbeat_timeout_s=30.0,
        queues={
            "default": QueueStats(ready=1_234_567, oldest_ready_at=30_000),
            "mail": QueueStats(running=12, paused=True),
        },
        running=tuple(running),
    )
    assert as_text(Overview(figures, None, 90_000)).splitlines()[:8] == [
        "ws://h:1/objq/v1/ leads, since 1.5 min.",
        "Document d, epoch 7, seq 48,213, last commit 2 s ago, jobs of 12,345 bytes.",
        "",
        "queue              ready  scheduled  running  dead  finished  oldest ready",
        "default        1,234,567          0        0     0         0  1 min",
        "mail (paused)          0          0       12     0         0",
        "",
        "running    queue  worker  attempt  for          heard ago  id",
    ]
    lines = as_text(Overview(figures, None, 90_000)).splitlines()
    assert lines[8] == "shop.send  mail   w-1           2  1.5 min      12 s       job-0"
    assert lines[9] == "shop.send  mail   w-1           2  not started  11 s       job-1"
    assert lines[-1] == "… and 2 more that were heard of later."
