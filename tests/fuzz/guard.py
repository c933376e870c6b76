"""Watching over one input: what it may take of time and memory, and what else is a finding.

Time is CPU time of this process, so a busy machine makes no finding. Memory is the most that the
process has had resident: the input during which it rises above the bound is the one that did it.
"""

from __future__ import annotations

import contextlib
import math
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final

CPU_LIMIT_S: Final = 3.0
"""For one input of at most a frame's length: the slowest that is known takes a twentieth of it."""

MEMORY_LIMIT_BYTES: Final = 384 * 1024 * 1024
"""For a whole run, beyond what the process had at its beginning."""

STATUS: Final = Path("/proc/self/status")
CLEAR: Final = Path("/proc/self/clear_refs")
_MAXRSS_UNIT: Final = 1 if sys.platform == "darwin" else 1024


class Violation(AssertionError):
    """What a target found to be wrong with the outcome of an input."""


class Hang(BaseException):
    """The input took more CPU time than it may. Not an Exception: nobody is to handle it."""


@dataclass(kw_only=True)
class Finding:
    """`kind`: crash, hang, memory or promise."""

    kind: str
    engine: str
    detail: str
    data: bytes


@dataclass(frozen=True, kw_only=True)
class Bound:
    """When an engine has done enough: by the clock, but not before `least`, or after `most`."""

    least: int = 10
    most: float = math.inf
    until: float = math.inf
    """As the monotonic clock has it."""

    def is_reached(self, inputs: int) -> bool:
        return inputs >= self.most or (inputs >= self.least and time.monotonic() > self.until)


@dataclass(kw_only=True)
class Tally:
    """What came of the inputs of one target."""

    inputs: dict[str, int] = field(default_factory=dict)
    outcomes: dict[str, int] = field(default_factory=dict)
    most_bytes: int = 0
    slowest_s: float = 0.0
    finding: Finding | None = None


def peak_bytes() -> int:
    """Return the most memory that this process has had resident, as far as the system tells."""
    try:
        status = STATUS.read_bytes()
    except OSError:  # what there is elsewhere counts what the parent had when it forked
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _MAXRSS_UNIT
    return int(status.partition(b"VmHWM:")[2].split(maxsplit=1)[0]) * 1024


def forget_peak() -> None:
    """Let the most begin anew from what there is now, where the system can do that."""
    with contextlib.suppress(OSError):
        CLEAR.write_text("5")


class Guard:
    """Feeds inputs to a target and keeps the tally; stops at the first finding."""

    def __init__(
        self,
        feed: Callable[[bytes], Iterable[str]],
        *,
        cpu_limit_s: float = CPU_LIMIT_S,
        memory_limit_bytes: int | None = None,
    ) -> None:
        self.tally = Tally()
        self._feed = feed
        self._cpu_limit_s = cpu_limit_s
        forget_peak()
        self._most_bytes = peak_bytes() + (memory_limit_bytes or MEMORY_LIMIT_BYTES)

    @property
    def failed(self) -> bool:
        return self.tally.finding is not None

    def given(self, engine: str) -> int:
        """Return how many inputs of an engine there were."""
        return self.tally.inputs.get(engine, 0)

    def give(self, data: bytes, engine: str) -> bool:
        """Feed one input; return whether nothing is wrong with it."""
        tally = self.tally
        tally.inputs[engine] = tally.inputs.get(engine, 0) + 1
        tally.most_bytes = max(tally.most_bytes, len(data))
        began = time.process_time()
        try:
            with _alarm(self._cpu_limit_s):
                for outcome in self._feed(data):
                    tally.outcomes[outcome] = tally.outcomes.get(outcome, 0) + 1
        except Hang:
            kind, detail = "hang", f"more than {self._cpu_limit_s} s of CPU time"
            tally.finding = Finding(kind=kind, engine=engine, detail=detail, data=data)
            return False
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:
            kind = "promise" if isinstance(error, Violation) else "crash"
            detail = "".join(traceback.format_exception(error))
            tally.finding = Finding(kind=kind, engine=engine, detail=detail, data=data)
            return False
        tally.slowest_s = max(tally.slowest_s, time.process_time() - began)
        over = peak_bytes() - self._most_bytes
        if over > 0:
            detail = f"{over:,} bytes more memory than allowed"
            tally.finding = Finding(kind="memory", engine=engine, detail=detail, data=data)
        return over <= 0


@contextlib.contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Raise Hang here when this process has used so much CPU time.

    What is raised in a finaliser or in a callback of the garbage collector, Python only reports,
    and goes on. So this rings again, after as much time, and leaves out the report.
    """
    report = sys.unraisablehook

    def ring(number: int, frame: FrameType | None) -> None:
        raise Hang

    def leave_out(unraisable: sys.UnraisableHookArgs) -> None:
        if not isinstance(unraisable.exc_value, Hang):
            report(unraisable)

    before = signal.signal(signal.SIGPROF, ring)
    sys.unraisablehook = leave_out
    signal.setitimer(signal.ITIMER_PROF, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        sys.unraisablehook = report
        signal.signal(signal.SIGPROF, before)
