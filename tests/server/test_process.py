"""Whole processes: how `serve` and `runbroker` start, what they print, and how they end."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from objq.server.serving import MAX_FILES

ROOT = Path(__file__).parents[2]
END_TIMEOUT_S = 60.0

SETTINGS = """
from tests.settings import *

STORAGES = {{
    **STORAGES,
    "objq": {{
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {{"location": {folder!r}}},
    }},
}}
"""


@contextlib.contextmanager
def running(
    *arguments: str, settings: str = "tests.settings", path: str = ""
) -> Iterator[subprocess.Popen[str]]:
    paths = [path, str(ROOT), str(ROOT / "dashboard")]
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": settings,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PYTHONWARNINGS": "error",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", *arguments],
        env=environment,
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    watchdog = threading.Timer(END_TIMEOUT_S, process.kill)
    watchdog.start()
    try:
        yield process
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate()[1]
    return line


def end_of(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    assert process.stdout is not None
    out = process.stdout.read()  # with what came along with the last line that was read
    _, err = process.communicate()
    return process.returncode, out, err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_gracefully(number: signal.Signals) -> None:
    with running("tests.server.served", "plain") as process:
        assert line_of(process).startswith("Leading at ")
        process.send_signal(number)
        assert line_of(process) == f"{number.name}: stops; once more to end at once.\n"
        assert line_of(process) == "Handed over: another broker may lead now.\n"
        assert end_of(process) == (0, "stopped\n", "")


def test_it_may_have_as_many_clients_as_the_system_allows() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with running("tests.server.served", "limited") as process:
        line_of(process)
        soft, _ = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        assert soft == (min(hard, MAX_FILES) if hard != resource.RLIM_INFINITY else MAX_FILES)


def test_a_second_signal_ends_it_at_once() -> None:
    with running("tests.server.served", "stubborn") as process:
        line_of(process)
        process.send_signal(signal.SIGTERM)
        assert line_of(process) == "SIGTERM: stops; once more to end at once.\n"
        assert line_of(process) == "stopping\n"
        process.send_signal(signal.SIGINT)  # which belongs to the first
        while process.poll() is None:
            time.sleep(0.05)
            process.send_signal(signal.SIGTERM)
        status, out, err = end_of(process)
        assert (status, out) == (1, "")
        assert "unknown outcome" in err


def test_when_the_grace_is_over_it_ends_with_status_1_whatever_its_threads_do() -> None:
    with running("tests.server.served", "late") as process:
        line_of(process)
        process.send_signal(signal.SIGTERM)
        assert end_of(process) == (1, "SIGTERM: stops; once more to end at once.\n", "")


def test_a_broker_that_dies_ends_the_process_loudly() -> None:
    with running("tests.server.served", "broken") as process:
        status, _, err = end_of(process)
        assert status == 1
        assert "broken on purpose" in err


def test_runbroker_leads_serves_and_steps_down(tmp_path: Path) -> None:
    (tmp_path / "site_settings.py").write_text(SETTINGS.format(folder=str(tmp_path / "queue")))
    document = tmp_path / "queue" / "queue.json"
    command = ("django", "runbroker", "--bind", "127.0.0.1:0")
    with running(*command, settings="site_settings", path=str(tmp_path)) as process:
        line = line_of(process)
        stamp = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} INFO "
        leads = r"Leading at (ws://127\.0\.0\.1:(\d+)/objq/v1/) in epoch 1 of"
        found = re.match(stamp + leads, line)
        assert found is not None
        assert f"[{document.as_uri()}]" in line
        recorded: Any = json.loads(document.read_bytes())["broker"]
        assert recorded["url"] == found[1]
        with urllib.request.urlopen(f"http://127.0.0.1:{found[2]}/readyz", timeout=30) as reply:
            ready = json.load(reply)
        assert (ready["broker"], ready["state"]) == (recorded["id"], "leading")

        with running(*command, settings="site_settings", path=str(tmp_path)) as standby:
            assert re.search(
                r" INFO Standing by at ws://127\.0\.0\.1:\d+/objq/v1/; ", line_of(standby)
            )
            process.send_signal(signal.SIGTERM)
            status, out, err = end_of(process)
            assert (status, err) == (0, "")
            assert re.search(r" INFO SIGTERM: stops;.*\n.* INFO Handed over: ", out)
            assert " in epoch 2 of " in line_of(standby)
            standby.send_signal(signal.SIGTERM)
            assert end_of(standby)[0] == 0
    assert json.loads(document.read_bytes())["broker"] is None


def test_runbroker_names_a_taken_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        bind = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(CommandError, match=f"{bind}: another process listens there"):
            call_command("runbroker", "--bind", bind)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--bind", "nonsense:x"], "HOST:PORT"),
        (["--backend", "defualt"], "Did you mean default"),
        (["--advertise", "http://x", "--bind", "127.0.0.1:0"], "--advertise"),
        (["--advertise", "ws://0.0.0.0:1", "--bind", "127.0.0.1:0"], "anybody can connect"),
    ],
)
def test_runbroker_says_what_is_wrong(arguments: list[str], says: str) -> None:
    with pytest.raises(CommandError, match=says):
        call_command("runbroker", *arguments)


def test_runbroker_refuses_a_storage_that_it_cannot_write_through(settings: Any) -> None:
    settings.STORAGES = {**settings.STORAGES, "objq": {"BACKEND": "tests.server.fakes.NoStorage"}}
    with pytest.raises(CommandError, match="conditionally"):
        call_command("runbroker", "--bind", "127.0.0.1:0")
