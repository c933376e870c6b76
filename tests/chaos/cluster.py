"""Brokers, workers and pushers over one bucket, and everything that was done to them."""

from __future__ import annotations

import os
import random
import re
import signal
import time
import urllib.error
import urllib.request
from collections import defaultdict
from itertools import count
from pathlib import Path
from typing import Any

from django.utils.module_loading import import_string

from objq.core import codec
from objq.core.document import Document
from tests.chaos.ledger import Harm
from tests.chaos.notes import PUSHES
from tests.e2e.stack import POLL_S, Stack, free_port
from tests.objectservers import Entry

BROKERS = ("broker-1", "broker-2", "broker-3")
WORKERS = ("worker-1", "worker-2", "worker-3")
NUMBERS = 1_000_000
"""Of one pusher; the next one begins so much higher."""

ENDS_WITHIN_S = 60.0


class Cluster:
    """`entry` of `STORAGES` goes through the proxy, `around` does not. Times are monotonic."""

    def __init__(
        self, folder: Path, entry: Entry, around: Entry, timeout_s: float, seed: int
    ) -> None:
        self.timeout_s = timeout_s
        self.pushes = folder / "pushes"
        options = {
            "HEARTBEAT_TIMEOUT": timeout_s,
            "BROKER_TTL": timeout_s / 2,
            "MAX_ATTEMPTS": 100,  # a worker that is killed is no fault of the job here
            "MAX_FINISHED": 1_000_000,
            "SHUTDOWN_GRACE": timeout_s,
        }
        self.stack = Stack(folder, entry, options, {PUSHES: str(self.pushes)})
        self.ports = {name: free_port() for name in BROKERS}
        self.harms: defaultdict[int, list[Harm]] = defaultdict(list)
        self.done: defaultdict[str, int] = defaultdict(int)
        self.problems: list[str] = []
        self.random = random.Random(seed)
        self._storage = import_string(around["BACKEND"])(**around["OPTIONS"])
        self._stopped: dict[str, tuple[float, float]] = {}
        self._pushers = count(1)

    # --- starting --------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        if name in BROKERS:
            bind = f"127.0.0.1:{self.ports[name]}"
            self.stack.start(name, "-m", "django", "runbroker", "--bind", bind)
        else:
            self.stack.worker(name)

    def start_all(self) -> None:
        for name in (*BROKERS, *WORKERS):
            self.start(name)
        for name in BROKERS:
            self.stack.wait_ready(name, self.ports[name])

    def pusher(self, seconds: float, rate: float, longest_s: float) -> str:
        """Start a pusher with numbers of its own; return its name."""
        number = next(self._pushers)
        name = f"pusher-{number}"
        arguments = (number * NUMBERS, max(0.0, seconds), rate, longest_s)
        self.stack.start(name, "-m", "tests.chaos.pusher", *map(str, arguments))
        return name

    # --- harming ---------------------------------------------------------------------------------

    def kill(self, name: str) -> float:
        """End a process as a crash would; return when."""
        pid, at = self.stack.processes[name].pid, time.monotonic()
        self.stack.kill(name)
        self.harms[pid].append(Harm(at))
        self.done[f"kill {name.partition('-')[0]}"] += 1
        return at

    def stop(self, name: str, seconds: float) -> None:
        """Send SIGSTOP; `wake` sends SIGCONT when its time has come."""
        os.kill(self.stack.processes[name].pid, signal.SIGSTOP)
        now = time.monotonic()
        self._stopped[name] = now, now + seconds
        self.done[f"stop {name.partition('-')[0]}"] += 1

    def wake(self, *, everybody: bool = False) -> None:
        for name, (began, until) in list(self._stopped.items()):
            if everybody or time.monotonic() >= until:
                pid = self.stack.processes[name].pid
                os.kill(pid, signal.SIGCONT)
                self.harms[pid].append(Harm(began, time.monotonic()))
                del self._stopped[name]

    def unharmed(self) -> list[str]:
        """Return the processes that run; say of each that has ended by itself that it did."""
        for name, process in list(self.stack.processes.items()):
            if process.poll() is None:
                continue
            del self.stack.processes[name]
            if process.returncode != 0 or not name.startswith("pusher"):
                self.problems.append(f"{name} ended by itself with status {process.returncode}")
        return [name for name in self.stack.processes if name not in self._stopped]

    # --- looking ---------------------------------------------------------------------------------

    def document(self) -> Document:
        with self._storage.open("queue.json") as file:
            return codec.decode(file.read())

    def recorded(self) -> str | None:
        """Return the broker that the document names, whether it lives or not."""
        info = self.document().broker
        return next((n for n, port in self.ports.items() if info and f":{port}/" in info.url), None)

    def leader(self) -> str | None:
        """Return the broker that leads, if one of them says so. One that is stopped takes 5 s."""
        for name, port in self.ports.items():
            if name in self.stack.processes:
                try:
                    if self.stack.readyz(port)["leading"]:
                        return name
                except (OSError, urllib.error.URLError):
                    continue
        return None

    def commits(self, broker: str) -> tuple[float, int]:
        """Return how many seconds the commits of a broker have taken together, and their number."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[broker]}/metrics") as reply:
            text = reply.read().decode()
        seconds = _figure(text, "objq_commit_duration_seconds_sum")
        return seconds, int(_figure(text, "objq_commit_duration_seconds_count"))

    def join(self, names: list[str]) -> None:
        """Wait until these pushers, those of them that live, have ended."""
        for name in names:
            process = self.stack.processes.pop(name, None)
            if process is not None and (status := process.wait(ENDS_WITHIN_S)) != 0:
                self.problems.append(f"{name} ended with status {status}")

    def drain(self, timeout_s: float) -> bool:
        """Wait until no job waits or runs; return False if some still does."""
        deadline = time.monotonic() + timeout_s
        while self.document().jobs:
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)  # nobody tells an onlooker without a socket
        return True

    def end(self) -> None:
        """End every process as systemd would, workers first."""
        for name in sorted(self.stack.processes, reverse=True):
            try:
                status: Any = self.stack.terminate(name, ENDS_WITHIN_S)
            except TimeoutError:
                status = "none at all"
            if status != 0:
                self.problems.append(f"{name} ended at SIGTERM with status {status}")


def _figure(metrics: str, name: str) -> float:
    found = re.search(rf"^{name} (\S+)$", metrics, re.MULTILINE)
    assert found is not None, metrics
    return float(found[1])
