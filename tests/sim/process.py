"""A simulated process: a loop, clocks of its own, seeded randomness; it can stop, go on and die."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any, Final, cast

from objq.ids import Ids
from tests.sim.loop import ProcessLoop, Timeline

DRIFT: Final = 1e-3
"""How much faster or slower than the world a clock may go."""

WALL_MS: Final = 1_764_000_000_000
"""What a right wall clock shows when the world begins."""


class Killed(BaseException):
    """Ends the code of a process that was killed while it was stopped in the middle of it."""


class Clock:
    """The clocks of one process. Monotonic clocks of two have nothing in common, nor their pace.

    `drift` is the wall clock's, `rate` is what a second of the world is on the monotonic one.
    """

    def __init__(
        self, process: Process, base_s: float, rate: float, offset_ms: int, drift: float
    ) -> None:
        self._process = process
        self._base_s = base_s
        self._rate = rate
        self._drift = drift
        self._steps: list[tuple[float, int]] = [(0.0, offset_ms)]

    def monotonic(self) -> float:
        self._process.maybe_stop()
        return self._base_s + self._process.timeline.now * self._rate

    def wall_ms(self) -> int:
        self._process.maybe_stop()
        return self.wall_at(self._process.timeline.now)

    def step(self, by_ms: int) -> None:
        """Let the wall clock jump."""
        self._steps.append((self._process.timeline.now, self._steps[-1][1] + by_ms))

    def wall_at(self, at: float) -> int:
        """Return what the wall clock showed at this time of the world."""
        offset_ms = next(by for since, by in reversed(self._steps) if since <= at)
        return WALL_MS + int(at * 1000 * (1 + self._drift)) + offset_ms

    def highest_wall_ms(self, until: float) -> int:
        """Return the most that the wall clock has shown by then."""
        times = [at for at, _ in self._steps[1:] if at <= until]
        before = [self.wall_at(at - 1e-9) for at in times]
        return max([self.wall_at(until), *before])


class Process:
    """One incarnation of a process. `place` is the machine it runs on: what networks know."""

    def __init__(self, timeline: Timeline, place: str, name: str, seed: str) -> None:
        self.timeline = timeline
        self.place = place
        self.name = name
        rng = random.Random(f"{seed}/{name}")
        rate = 1 + rng.uniform(-DRIFT, DRIFT)
        # Types ask for all of a loop's methods; the code under test asks for these.
        self.loop: ProcessLoop = cast(Any, ProcessLoop)(
            timeline, base_s=rng.uniform(0, 10_000), rate=rate
        )
        self.clock = Clock(
            self,
            base_s=rng.uniform(0, 100_000),
            rate=rate,
            offset_ms=int(rng.gauss(0, 2_000)),
            drift=rng.uniform(-DRIFT, DRIFT),
        )
        self.ids = Ids(rng)
        self.began_at = timeline.now
        self.died_at: float | None = None
        self.pauses: list[tuple[float, float]] = []
        """When it was stopped, and until when."""
        self._stop_s: float | None = None
        self._in_code = False

    @property
    def is_alive(self) -> bool:
        return self.died_at is None

    @property
    def is_frozen(self) -> bool:
        return self.loop.is_frozen

    def start(self, coro: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        return self.loop.create_task(coro, name=name)

    def pause(self, seconds: float) -> None:
        """Stop between two callbacks, as SIGSTOP does, and go on after so many seconds."""
        if self._freeze(seconds) and seconds < float("inf"):
            self.timeline.call_later(seconds, self.resume)

    def pause_at_clock(self, seconds: float) -> None:
        """Stop the next time the process looks at a clock: in the middle of its code."""
        self._stop_s = seconds

    def maybe_stop(self) -> None:
        if self._stop_s is None or asyncio._get_running_loop() is not self.loop:
            return
        seconds, self._stop_s = self._stop_s, None
        if not self._freeze(seconds):
            return
        self._in_code = True
        self.timeline.run(self.timeline.now + seconds, lambda: not self._in_code)
        self._in_code = False
        if not self.is_alive:
            raise Killed(self.name)
        self.resume()

    def resume(self) -> None:
        """Go on, as SIGCONT does."""
        if self._in_code:
            self._in_code = False  # its code goes on when those who stopped later have done so
        elif self.is_frozen:
            self.loop.thaw()
            begin, _ = self.pauses.pop()
            self.pauses.append((begin, self.timeline.now))

    def _freeze(self, seconds: float) -> bool:
        if self.is_frozen or not self.is_alive:
            return False
        self.loop.freeze()
        self.pauses.append((self.timeline.now, self.timeline.now + seconds))
        return True

    def kill(self) -> None:
        """End as kill -9 does: no code of it runs any more."""
        if self.is_alive:
            self.died_at = self.timeline.now
            self._in_code = False
            self.loop.kill()

    def was_paused(self, since: float, until: float) -> bool:
        """Tell whether it stood still at any time between the two."""
        return any(begin < until and end > since for begin, end in self.pauses)
