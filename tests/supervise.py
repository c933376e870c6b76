"""Servers for the tests: started once for a whole run, and gone for sure when it ends.

Each server runs under a supervisor of its own (this file, run as a script) that ends it as soon as
the owner, the process that the run was started as, is no more: after a normal end, Ctrl-C or a
`kill -9` alike. A file lock that the supervisor inherits locked, and nobody else can hold while it
lives, tells whether it does; the lock of the folder makes sure that of several workers of
pytest-xdist only one starts the server.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

START_TIMEOUT_S: Final = 60.0
START_ATTEMPTS: Final = 3
LOCK_DESCRIPTOR: Final = 3
"""Where the supervisor finds its own lock."""


class CannotStart(Exception):
    """The server cannot run on this machine; the message says why."""


class Launch(NamedTuple):
    """How to start a server: `ready` raises OSError until it can be used."""

    command: Sequence[str]
    environ: Mapping[str, str]
    url: str
    ready: Callable[[], None]


def start_once(folder: Path, owner: int, prepare: Callable[[Path], Launch]) -> str:
    """Return the URL of the server of this folder, starting it if nobody has.

    Raises CannotStart, also for everybody who asks again.
    """
    folder.mkdir(parents=True, exist_ok=True)
    state = folder / "state.json"
    with locked(folder / "start.lock"):
        if state.exists():
            known = json.loads(state.read_text())
            if known["error"]:
                raise CannotStart(known["error"])
            if not _is_free(folder / "alive.lock"):
                return str(known["url"])
        try:
            url = _start(folder, owner, prepare)
        except CannotStart as exc:
            state.write_text(json.dumps({"url": "", "error": str(exc)}))
            raise
        state.write_text(json.dumps({"url": url, "error": ""}))
        return url


def stop_all(parent: Path) -> None:
    """End every server under this folder, and return when they are gone."""
    for pid_file in parent.glob("*/supervisor.pid"):
        if not _is_free(pid_file.with_name("alive.lock")):
            with suppress(ProcessLookupError):
                os.kill(int(pid_file.read_text()), signal.SIGTERM)
    for lock_file in parent.glob("*/alive.lock"):
        with locked(lock_file):
            pass


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait for the lock on this file, and hold it."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def free_ports(count: int, offset: int = 0) -> list[int]:
    """Return ports of 127.0.0.1 on which, and on those `offset` above, nobody listens."""
    ports: list[int] = []
    while len(ports) < count:
        port = random.randrange(20_000, 32_000) if offset else 0
        with socket.socket() as first, socket.socket() as second:
            try:
                first.bind(("127.0.0.1", port))
                port = first.getsockname()[1]
                if offset:
                    second.bind(("127.0.0.1", port + offset))
            except OSError:
                continue
        if port not in ports:
            ports.append(port)
    return ports


def _start(folder: Path, owner: int, prepare: Callable[[Path], Launch]) -> str:
    for _ in range(START_ATTEMPTS):  # another process may take a free port before the server does
        launch = prepare(folder)
        _spawn(folder, owner, launch)
        if _wait_until_ready(folder, launch):
            return launch.url
    log = (folder / "log.txt").read_text(errors="replace")
    raise CannotStart(f"The server {folder.name} does not start:\n{log[-2000:]}")


def _spawn(folder: Path, owner: int, launch: Launch) -> None:
    with (folder / "alive.lock").open("a") as lock, (folder / "log.txt").open("a") as log:
        fcntl.flock(lock, fcntl.LOCK_EX)
        descriptor, output = lock.fileno(), log.fileno()
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, __file__, str(owner), str(folder), *launch.command],
            {**os.environ, **launch.environ},
            file_actions=[
                # Not straight to 3: that may be the log's.
                (os.POSIX_SPAWN_DUP2, descriptor, 1000),
                (os.POSIX_SPAWN_DUP2, output, 1),
                (os.POSIX_SPAWN_DUP2, output, 2),
                (os.POSIX_SPAWN_DUP2, 1000, LOCK_DESCRIPTOR),
                (os.POSIX_SPAWN_CLOSE, 1000),
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            ],
            setsid=True,  # Ctrl-C is for the run, which ends its servers itself
        )
    (folder / "supervisor.pid").write_text(str(pid))


def _wait_until_ready(folder: Path, launch: Launch) -> bool:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if _is_free(folder / "alive.lock"):
            return False
        try:
            launch.ready()
            return True
        except OSError:
            time.sleep(0.05)
    os.kill(int((folder / "supervisor.pid").read_text()), signal.SIGTERM)
    return False


def _is_free(lock_file: Path) -> bool:
    with lock_file.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def supervise(owner: int, folder: str, command: Sequence[str]) -> None:
    """Run the command until it ends, the owner ends, or SIGTERM comes; then kill its group."""
    os.set_inheritable(LOCK_DESCRIPTOR, False)
    signal.signal(signal.SIGTERM, _leave)
    # What a test server holds is thrown away, so that nothing is lost by not asking it to stop.
    with subprocess.Popen(command, cwd=folder, start_new_session=True) as child:
        try:
            _wait_for_end(owner, child)
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)


def _wait_for_end(owner: int, child: subprocess.Popen[bytes]) -> None:
    try:
        processes = [os.pidfd_open(owner), os.pidfd_open(child.pid)]
    except ProcessLookupError:
        return
    except AttributeError:  # not Linux
        while child.poll() is None and _exists(owner):
            time.sleep(0.2)
        return
    select.select(processes, [], [])


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _leave(*_: object) -> NoReturn:
    raise SystemExit(0)


if __name__ == "__main__":
    supervise(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
