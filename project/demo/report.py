"""What the demo prints: one line of progress, and the figures at the end."""

from __future__ import annotations

import math
import shutil
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from collections.abc import Sequence

PLAIN_EVERY_S: Final = 5.0
SHORTEST, LONGEST = 8, 40
"""Of the bar, in characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """How far it is. `running` is None when the queue could not be asked."""

    pushed: int
    running: int | None
    indexed: int
    failed: int
    total: int


class Progress:
    """Draws the stage on one line of a terminal; elsewhere prints a line now and then."""

    def __init__(self, out: TextIO = sys.stdout) -> None:
        self.out = out
        self.tty = out.isatty()
        fancy = (out.encoding or "").lower().replace("-", "") == "utf8"
        self.signs = ("█", "▒", "░") if fancy else ("#", "+", ".")
        self.began = time.monotonic()
        self.printed = -math.inf
        self.open = False

    def show(self, stage: Stage) -> None:
        now = time.monotonic()
        if not self.tty and now - self.printed < PLAIN_EVERY_S:
            return
        self.printed = now
        took_s = now - self.began
        rate = f"  {stage.indexed / took_s:.0f}/s" if took_s >= 1 else ""
        running = "?" if stage.running is None else stage.running
        text = (
            f"pushed {stage.pushed:,}  running {running}  indexed {stage.indexed:,}"
            f" of {stage.total:,}" + (f"  failed {stage.failed}" if stage.failed else "")
        )
        if not self.tty:
            print(f"  {text}", file=self.out, flush=True)
            return
        self.open = True
        text = f"  {text}{rate}"
        width = shutil.get_terminal_size().columns - 1
        bar = self.bar(stage, min(max(width - len(text) - 2, SHORTEST), LONGEST))
        print(f"\r{f'  {bar}{text}'[:width]:<{width}}", end="", file=self.out, flush=True)

    def bar(self, stage: Stage, length: int) -> str:
        """Return a bar of indexed, then pushed, then what is still to come."""
        done = min(length * stage.indexed // max(stage.total, 1), length)
        pushed = min(length * stage.pushed // max(stage.total, 1), length)
        full, half, empty = self.signs
        return (full * done + half * (pushed - done)).ljust(length, empty)

    def end(self) -> None:
        """Leave the line, so that the next thing printed has one of its own."""
        if self.open:
            print(file=self.out, flush=True)
            self.open = False


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least `share` (0 to 1) of all are not above."""
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)]


def spread(values: Sequence[float]) -> str:
    """Return p50 and p99 of values in milliseconds."""
    if not values:
        return "not measured"
    return f"p50 {duration(percentile(values, 0.5))}   p99 {duration(percentile(values, 0.99))}"


def duration(value_ms: float) -> str:
    return f"{value_ms:,.0f} ms" if value_ms < 10_000 else f"{value_ms / 1000:,.1f} s"
