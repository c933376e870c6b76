"""The demo as people run it: real processes, on a few files of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import HTTPCookieProcessor, build_opener

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parent.parent.parent
DEADLINE_S = 90.0

Demo = subprocess.Popen[str]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Demo]]:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(12):
        (source / f"module_{number}.py").write_text(f'"""Number {number}."""\n' * 50)
    (source / "not_text.py").write_bytes(b"\xff\xff")
    (source / "empty.py").touch()
    started: list[Demo] = []

    def begin(*arguments: str) -> Demo:
        demo = subprocess.Popen(
            [sys.executable, "-m", "project.demo", "--source", str(source), *arguments],
            cwd=ROOT,
            env={**os.environ, "OBJQ_DEMO_DATA": str(tmp_path / "data"), "PYTHONUNBUFFERED": "1"},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        started.append(demo)
        return demo

    yield begin
    for demo in started:
        demo.kill()
        demo.communicate()


def members(tmp_path: Path) -> list[int]:
    """Return the processes that work in the test's folder, except the demo itself."""
    mark = f"OBJQ_DEMO_DATA={tmp_path / 'data'}/".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:  # it has ended, or is another user's
            continue
    return found


def wait_until(true: Callable[[], bool]) -> None:
    until = time.monotonic() + DEADLINE_S
    while not true():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.05)


def read_until(demo: Demo, text: str) -> str:
    assert demo.stdout is not None
    seen = ""
    for line in demo.stdout:
        seen += line
        if text in line:
            return seen
    raise AssertionError(f"The demo ended without {text!r}:\n{seen}")


def test_once_does_it_all_and_leaves_nothing(start: Callable[..., Demo], tmp_path: Path) -> None:
    demo = start("--once")
    output, _ = demo.communicate(timeout=DEADLINE_S)
    assert demo.returncode == 0, output
    assert "13 modules in" in output
    assert "found by search       13 of 13 pages" in output
    assert "1 file that is no readable text, as not_text.py" in output
    assert "enqueue to start      p50" in output
    assert "2 workers" in output
    assert "dashboard" not in output  # nobody is there to look at it
    assert list((tmp_path / "data").iterdir()) == []
    assert members(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")
def test_however_it_ends_no_process_is_left(
    start: Callable[..., Demo], tmp_path: Path, number: signal.Signals
) -> None:
    demo = start()
    (door,) = re.findall(r"dashboard: (http://\S+)", read_until(demo, "Watch it on"))
    with build_opener(HTTPCookieProcessor()).open(door, timeout=DEADLINE_S) as reply:
        assert reply.url.endswith("/admin/objq_dashboard/queue/")  # and not the login page
    assert "/admin/objq_dashboard/queue/" in read_until(demo, "Ctrl-C stops everything.")
    assert len(members(tmp_path)) == 5
    demo.send_signal(number)
    demo.wait(DEADLINE_S)
    wait_until(lambda: not members(tmp_path))
    assert demo.returncode == (-9 if number == signal.SIGKILL else 0)


def test_a_broker_that_dies_ends_it_with_the_reason(
    start: Callable[..., Demo], tmp_path: Path
) -> None:
    demo = start()
    read_until(demo, "Ctrl-C stops everything.")
    brokers = [
        pid
        for pid in members(tmp_path)
        if b"runbroker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    os.kill(brokers[0], signal.SIGKILL)
    output, _ = demo.communicate(timeout=DEADLINE_S)
    assert demo.returncode == 1
    assert "The broker ended by itself (killed by SIGKILL)" in output
    assert "Leading at ws://127.0.0.1:" in output
    assert members(tmp_path) == []
