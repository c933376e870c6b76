"""Brokers, workers and pushers as real processes over one store, ended for sure."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 60.0
CLIENTS = 20
"""Threads of a pusher that enqueue at the same time."""

POLL_S = 0.05


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Stack:
    """Processes that share one store. `env` adds to their environment."""

    def __init__(
        self, folder: Path, storage: Any, options: dict[str, Any], env: dict[str, str]
    ) -> None:
        self.folder = folder
        self.ledger = folder / "ledger"
        self.options = options
        self.storage = storage
        self.extra = env
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.e2e.settings",
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "dashboard"))),
            "OBJQ_TEST_STORAGE": json.dumps(self.storage),
            "OBJQ_TEST_OPTIONS": json.dumps(self.options),
            "OBJQ_TEST_LEDGER": str(self.ledger),
            **self.extra,
        }

    def start(
        self,
        name: str,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        inherit: Sequence[int] = (),
    ) -> subprocess.Popen[bytes]:
        """Start `python ARGUMENTS` with its output in the folder.

        `env` is this process's alone; `inherit` are file descriptors that it is given.
        """
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(  # our own commands
                [sys.executable, *arguments],
                env={**self.environment(), **(env or {})},
                cwd=ROOT,
                pass_fds=inherit,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.processes[name] = process
        return process

    def broker(self, name: str, port: int) -> str:
        """Start a broker and wait until it leads or stands by; return its address for people."""
        self.start(name, "-m", "django", "runbroker", "--bind", f"127.0.0.1:{port}")
        self.wait_ready(name, port)
        return f"http://127.0.0.1:{port}"

    def leader(self, name: str, port: int) -> str:
        """Start a broker and wait until it leads; return its address for people."""
        address = self.broker(name, port)
        self.until(lambda: self.readyz(port)["leading"])
        return address

    def worker(self, name: str, *arguments: str) -> None:
        self.start(name, "-m", "django", "objq_worker", "--concurrency", "4", *arguments)

    def push(self, count: int, clients: int = CLIENTS, timeout_s: float = 300.0) -> dict[str, Any]:
        """Run a pusher to its end and return its report."""
        done = subprocess.run(  # our own commands
            [sys.executable, "-m", "tests.e2e.pusher", str(count), str(clients)],
            env=self.environment(),
            cwd=ROOT,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
        assert done.returncode == 0, f"{done.stderr.decode()[-4000:]}\n{self.logs()}"
        report: dict[str, Any] = json.loads(done.stdout)
        return report

    def enqueue(self, task: str, *numbers: int) -> None:
        """Enqueue one of `tests.e2e.tasks` for each number."""
        code = (
            "import sys, django; django.setup(); from tests.e2e import tasks\n"
            "for number in sys.argv[2:]: getattr(tasks, sys.argv[1]).enqueue(int(number))"
        )
        command = [sys.executable, "-c", code, task, *map(str, numbers)]
        subprocess.run(command, env=self.environment(), cwd=ROOT, check=True, timeout=60)

    def until(self, condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
        """Wait for what no process tells anybody."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, self.logs()
            time.sleep(POLL_S)

    def claims(self, storage: Any) -> list[dict[str, Any]]:
        """Return the live claims in the document of a storage in a folder."""
        path = Path(storage["OPTIONS"]["location"]) / "queue.json"
        jobs = json.loads(path.read_bytes())["jobs"]
        return [{"started_at": None, **job["claim"]} for job in jobs if "claim" in job]

    def wait_ready(self, name: str, port: int) -> dict[str, Any]:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            process = self.processes[name]
            assert process.poll() is None, f"{name} has ended\n{self.logs()}"
            with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError):
                return self.readyz(port)
            time.sleep(POLL_S)  # a process that starts tells nobody
        raise AssertionError(f"{name} is not ready\n{self.logs()}")

    def readyz(self, port: int) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as reply:
            answer: dict[str, Any] = json.load(reply)
            return answer

    def kill(self, name: str) -> None:
        """Kill a process as a crash would, and reap it."""
        process = self.processes.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def terminate(self, name: str, timeout_s: float = 30.0) -> int:
        """End a process as systemd would; return its exit status."""
        process = self.processes.pop(name)
        process.terminate()
        return process.wait(timeout_s)

    def runs(self) -> Counter[int]:
        """Return how often each number was run."""
        if not self.ledger.exists():
            return Counter()
        return Counter(map(int, self.ledger.read_text().split()))

    def ran(self) -> int:
        return sum(self.runs().values())

    def logs(self) -> str:
        parts = [
            f"--- {log.name}\n{log.read_text()[-3000:]}"
            for log in sorted(self.folder.glob("*.log"))
        ]
        return "\n".join(parts)

    def close(self) -> None:
        for name in list(self.processes):
            self.kill(name)


@contextlib.contextmanager
def a_stack(
    folder: Path, storage: Any, options: dict[str, Any] | None = None, **env: str
) -> Iterator[Stack]:
    stack = Stack(folder, storage, options or {}, env)
    try:
        yield stack
    finally:
        stack.close()
