"""Signals, and what a worker's process keeps from its jobs."""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Iterator

import pytest

from objq.stopping import ONE_REQUEST_S
from objq.worker import process
from objq.worker.process import ProcessOptions, WorkerProcess
from objq.worker.streams import shared_streams
from tests.virtual import VirtualClock


class Clock(VirtualClock):
    """One that stands still until it is set."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


class Exited(BaseException):
    """Stands for the end of the process, with its status."""


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def worker(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerProcess]:
    def exit_at_once(code: int) -> None:
        raise Exited(code)

    monkeypatch.setattr(process, "exit_at_once", exit_at_once)
    options = ProcessOptions(alias="default", queues=("default",), concurrency=1)
    made = WorkerProcess(options, clock)
    yield made
    made._loop.close()


def test_signals_that_come_together_are_one_request(worker: WorkerProcess, clock: Clock) -> None:
    """The terminal and a process manager both pass on one Ctrl-C, within milliseconds."""
    worker._on_signal(signal.SIGINT, None)
    worker._on_signal(signal.SIGTERM, None)
    clock.now += ONE_REQUEST_S - 0.001
    worker._on_signal(signal.SIGTERM, None)
    clock.now += 0.001
    with pytest.raises(Exited, match=str(128 + signal.SIGINT)):
        worker._on_signal(signal.SIGINT, None)


def test_no_job_can_close_the_streams_that_all_share(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    stream = io.TextIOWrapper(written)
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "stderr", None)
    with shared_streams():
        with sys.stdout:
            print("written", flush=True)
        sys.stdout.close()
        print("and more", flush=True)
        monkeypatch.setattr(sys, "stdout", None)
    assert sys.stdout is stream
    assert written.getvalue() == b"written\nand more\n"
    stream.close()
    assert stream.closed
