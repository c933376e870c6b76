"""What a command prints, or cannot print, while it goes on: no line is worth its end."""

from __future__ import annotations

import io
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest
from django.core.management.base import OutputWrapper

from objq.lines import log_to_stderr, say
from tests.commands.conftest import Queue
from tests.core.world import World
from tests.e2e.stack import ROOT, Stack, free_port
from tests.objectservers import Entry


class Full(io.StringIO):
    """A file on a disk that has no room left."""

    def flush(self) -> NoReturn:
        raise OSError(28, "No space left on device")


class Closed(io.StringIO):
    def write(self, text: str) -> NoReturn:
        raise ValueError("I/O operation on closed file.")


def test_a_line_has_the_form_of_the_log() -> None:
    out = io.StringIO()
    say(OutputWrapper(out), "Leading.")
    assert out.getvalue().endswith(" INFO Leading.\n")


@pytest.mark.parametrize("out", [Full(), Closed()])
def test_a_line_that_cannot_be_printed_is_logged(
    out: io.StringIO, caplog: pytest.LogCaptureFixture
) -> None:
    say(OutputWrapper(out), "Leading.")
    (record,) = caplog.records
    assert record.message.startswith("Leading. (not printed: ")


def test_logs_are_shown_unless_the_project_sends_them_somewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logger = logging.getLogger("objq")
    for name, value in {"handlers": [], "propagate": False, "level": logging.NOTSET}.items():
        monkeypatch.setattr(logger, name, value)
    log_to_stderr(1)
    log_to_stderr(3)
    assert len(logger.handlers) == 1
    assert logger.level == logging.INFO


# --- whole processes -----------------------------------------------------------------------------


@pytest.fixture
def stack(file_storage: Entry, tmp_path: Path) -> Stack:
    return Stack(tmp_path, file_storage, {}, {})


@contextmanager
def running(stack: Stack, *arguments: str, stdout: int) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "django", *arguments],
        env=stack.environment(),
        cwd=ROOT,
        stdout=stdout,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_broker_whose_lines_nobody_reads_leads_and_hands_over(queue: Queue, stack: Stack) -> None:
    port = free_port()
    reading, writing = os.pipe()
    os.close(reading)
    with running(stack, "runbroker", "--bind", f"127.0.0.1:{port}", stdout=writing) as process:
        os.close(writing)
        stack.processes["broker"] = process
        stack.wait_ready("broker", port)
        stack.until(lambda: stack.readyz(port)["leading"])
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert b"Leading at" in err
    assert b"(not printed: " in err
    assert b"Exception ignored" not in err
    assert json.loads(queue.data)["broker"] is None


def test_a_watch_whose_reader_has_gone_ends_quietly(queue: Queue, stack: Stack) -> None:
    world = World()
    world.push("a")
    queue.put_world(world)
    arguments = ("objq_stats", "--json", "--watch", "0.05")
    with running(stack, *arguments, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["queues"]
        process.stdout.close()
        err = process.stderr.read()
        assert (process.wait(timeout=60), err) == (0, b"")
