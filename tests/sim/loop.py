"""Many event loops in one thread on one virtual clock: one for each simulated process.

A `Timeline` runs what is ready, in the order in which it became ready; when nothing is, it jumps
to the next timer. Nothing sleeps and nothing depends on addresses or hash seeds, so that a seed
decides everything. Since each process has a loop of its own, a process can be frozen as SIGSTOP
does (what becomes ready waits until it goes on) or killed (nothing of it ever runs again).
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final

_set_running_loop: Callable[[asyncio.AbstractEventLoop | None], None] = asyncio._set_running_loop

MAX_CALLBACKS: Final = 500_000
"""Of one world: more than any takes, so that endless business without time passing is noticed."""


TICK_S: Final = 1e-6
"""The least that a timer takes."""


class Endless(AssertionError):
    """Callbacks go on and on."""


class Handle:
    """What `call_soon` and `call_at` return: a callback of one loop, or of the world (None)."""

    __slots__ = ("_when", "args", "callback", "context", "is_cancelled", "loop")

    def __init__(
        self,
        loop: ProcessLoop | None,
        callback: Callable[..., Any],
        args: tuple[Any, ...],
        context: contextvars.Context | None = None,
        when: float = 0.0,
    ) -> None:
        self.loop = loop
        self.callback = callback
        self.args = args
        self.context = context
        self.is_cancelled = False
        self._when = when

    def cancel(self) -> None:
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled

    def when(self) -> float:
        return self._when


class Timeline:
    """The virtual time of a world (seconds since it began) and all that is to happen in it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.errors: list[str] = []
        """What no callback may do: exceptions that nobody handled."""
        self.numbers = itertools.count(1)
        self._ready: deque[Handle] = deque()
        self._timers: list[tuple[float, int, Handle]] = []
        self._order = itertools.count()
        self._left = MAX_CALLBACKS

    def soon(self, handle: Handle) -> None:
        self._ready.append(handle)

    def at(self, when: float, handle: Handle) -> None:
        heapq.heappush(self._timers, (when, next(self._order), handle))

    def call_at(self, when: float, callback: Callable[..., Any], *args: Any) -> None:
        """Let the world do something at `when`; it belongs to no process."""
        self.at(when, Handle(None, callback, args))

    def call_later(self, delay_s: float, callback: Callable[..., Any], *args: Any) -> None:
        self.at(self.now + delay_s, Handle(None, callback, args))

    def run(self, until: float, stop: Callable[[], bool] | None = None) -> bool:
        """Let time pass until `until`, or until `stop`, asked between instants, says so.

        May be called by what runs within it: that is a process stopped in the middle of its code.
        """
        before = asyncio._get_running_loop()
        try:
            while True:
                self._run_ready()
                if stop is not None and stop():
                    return True
                timers = self._timers
                if not timers or timers[0][0] > until:
                    self.now = max(self.now, until)
                    return False
                self.now = max(self.now, timers[0][0])
                while timers and timers[0][0] <= self.now:
                    self._ready.append(heapq.heappop(timers)[2])
        finally:
            _set_running_loop(before)

    def _run_ready(self) -> None:
        ready = self._ready
        while ready:
            handle = ready.popleft()
            if handle.is_cancelled:
                continue
            loop = handle.loop
            if loop is not None:
                if loop.is_dead:
                    continue
                if loop.is_frozen:
                    loop.held.append(handle)
                    continue
            self._left -= 1
            if self._left < 0:
                raise Endless(f"{MAX_CALLBACKS} callbacks, the last {handle.callback!r}")
            _set_running_loop(loop)
            self._run_one(handle)

    def _run_one(self, handle: Handle) -> None:
        try:
            if handle.context is None:
                handle.callback(*handle.args)
            else:
                handle.context.run(handle.callback, *handle.args)
        except Endless:
            raise
        except Exception as error:
            self.errors.append(f"{handle.callback!r} raised {error!r}")
        except BaseException:
            if handle.loop is None or not handle.loop.is_dead:
                raise  # else it was killed in the middle of this


class _Task(asyncio.Task[Any]):
    # Sets of tasks are iterated by asyncio and by the code under test: a hash that is an address
    # would let their order differ from run to run.
    def __init__(self, coro: Coroutine[Any, Any, Any], number: int, **kwargs: Any) -> None:
        self._number = number
        super().__init__(coro, **kwargs)

    def __hash__(self) -> int:
        return self._number


class _Future(asyncio.Future[Any]):
    def __init__(self, number: int, loop: ProcessLoop) -> None:
        self._number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class ProcessLoop(asyncio.AbstractEventLoop):
    """The event loop of one process.

    `base_s`: its clock's reading when the world begins. `rate`: its seconds in one of the world.
    """

    def __init__(self, timeline: Timeline, base_s: float = 0.0, rate: float = 1.0) -> None:
        self.timeline = timeline
        self.is_frozen = False
        self.is_dead = False
        self.held: list[Handle] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self._base_s = base_s
        self._rate = rate

    def freeze(self) -> None:
        self.is_frozen = True

    def thaw(self) -> None:
        self.is_frozen = False
        held, self.held = self.held, []
        for handle in held:
            self.timeline.soon(handle)

    def kill(self) -> None:
        self.is_dead = True
        self.held.clear()

    def dispose(self) -> None:
        """Free what never ended, without letting any of it do anything more."""
        self.is_dead = True
        _set_running_loop(self)
        try:
            for task in self.tasks:
                if not task.done():
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    _close(task.get_coro())
        finally:
            _set_running_loop(None)
            self.tasks.clear()

    # --- what asyncio asks of a loop -------------------------------------------------------------

    def time(self) -> float:
        return self._base_s + self.timeline.now * self._rate

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Any = None
    ) -> Any:
        handle = Handle(self, callback, args, context)
        if not self.is_dead:
            self.timeline._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Any, *args: Any, context: Any = None
    ) -> Any:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Any = None
    ) -> Any:
        handle = Handle(self, callback, args, context, when)
        if not self.is_dead:
            # Where a delay drowns in rounding, time would not pass at all.
            at = (when - self._base_s) / self._rate
            self.timeline.at(max(at, self.timeline.now + TICK_S), handle)
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return _Future(next(self.timeline.numbers), self)

    def create_task(
        self, coro: Any, *, name: Any = None, context: Any = None, **_: Any
    ) -> asyncio.Task[Any]:
        task = _Task(coro, next(self.timeline.numbers), loop=self, name=name, context=context)
        if self.is_dead:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            _close(coro)
        else:
            self.tasks.append(task)
            if len(self.tasks) > 256:
                self.tasks = [task for task in self.tasks if not task.done()]
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if "never retrieved" not in context.get("message", ""):
            self.timeline.errors.append(f"{context.get('message')}: {context.get('exception')!r}")

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False


def _close(coro: Any) -> None:
    with contextlib.suppress(BaseException):  # what is thrown away may say what it likes
        coro.close()
