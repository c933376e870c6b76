"""The processes of the demo: each in a group and with a log of its own, and all of them ended."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from project.demo import ROOT, DemoError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

GRACE_S: Final = 10.0
POLL_S: Final = 0.05
TAIL_LINES: Final = 25
PR_SET_PDEATHSIG: Final = 1


class Ended(DemoError):
    """A process of the demo ended by itself, or was not ready in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    name: str
    popen: subprocess.Popen[bytes]
    log: Path
    grace_s: float | None = None

    def tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
        return "\n".join(f"    {line}" for line in lines) or "    (its log is empty)"


class Stack:
    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self.folder = folder
        self.environ = dict(environ)
        self.processes: list[Process] = []

    def start(
        self,
        name: str,
        command: Sequence[str],
        *,
        inherit: int | None = None,
        grace_s: float | None = None,
    ) -> Process:
        """Start a process; `inherit` is a file descriptor that it is given.

        `grace_s` is how long it may take to end after SIGTERM, if not `GRACE_S`.
        """
        log = self.folder / f"{name}.log"
        with log.open("wb") as output:
            popen = subprocess.Popen(
                [sys.executable, *command],
                cwd=ROOT,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=() if inherit is None else (inherit,),
                # Ctrl-C reaches only the demo, which then ends the others in order.
                start_new_session=True,
                preexec_fn=end_with_parent(os.getpid()),  # noqa: PLW1509 - no thread runs yet
            )
        process = Process(name=name, popen=popen, log=log, grace_s=grace_s)
        self.processes.append(process)
        return process

    def check(self) -> None:
        """Raise Ended, with the end of its log, if a process has ended."""
        for process in self.processes:
            code = process.popen.poll()
            if code is not None:
                raise Ended(
                    f"The {process.name} ended by itself ({describe(code)}). The end of its log, "
                    f"{process.log}:\n{process.tail()}"
                )

    def wait_for(self, process: Process, ready: Callable[[], bool], timeout_s: float) -> None:
        """Ask `ready` again and again; raise Ended if a process ends or the time is over."""
        until = time.monotonic() + timeout_s
        while not ready():
            self.check()
            if time.monotonic() > until:
                raise Ended(
                    f"The {process.name} is not ready after {timeout_s:.0f} s. The end of its log, "
                    f"{process.log}:\n{process.tail()}"
                )
            time.sleep(POLL_S)

    def stop(self) -> None:
        """End all processes and wait for it; may be called twice.

        The first one started ends last: workers hand back what they hold while there is still a
        broker to hand it to. Whoever has not ended within the grace period is killed, and so are
        all of them when this is interrupted by a second Ctrl-C.
        """
        try:
            end(self.processes[1:])
            end(self.processes[:1])
        finally:
            for process in self.processes:
                send(process, signal.SIGKILL)
            for process in self.processes:
                process.popen.wait()
            self.processes.clear()


def end(processes: Sequence[Process]) -> None:
    for process in processes:
        send(process, signal.SIGTERM)
    began = time.monotonic()
    for process in processes:
        grace_s = GRACE_S if process.grace_s is None else process.grace_s
        try:
            process.popen.wait(max(began + grace_s - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            send(process, signal.SIGKILL)


def send(process: Process, number: signal.Signals) -> None:
    """Send a signal to the process's group, as long as the process has not been waited for."""
    if process.popen.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.popen.pid, number)


def describe(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"


def end_with_parent(parent: int) -> Callable[[], None] | None:
    """Return what has Linux end a child when the demo itself is killed; elsewhere there is no such.

    The library is looked up before the fork, since little is safe to do after it.
    """
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def prepare() -> None:
        prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != parent:  # it was killed before the line above
            os._exit(1)

    return prepare
