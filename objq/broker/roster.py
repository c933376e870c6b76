"""Who is connected to this broker and says that it works, and what each holds (`workers`).

A worker is known by its name. One that is not connected, or not to this broker any more, is known
by its claims alone.
"""

from __future__ import annotations

import heapq
from itertools import islice
from typing import Final

from objq.broker.leases import Leases
from objq.clock import Clock
from objq.core import ops
from objq.core.document import Document

MAX_WORKERS: Final = 500
MAX_RUNNING: Final = 20
"""Per worker."""

MAX_RUNNING_OF_ALL: Final = 2_000


class Seat:
    """A connected worker. `hear` is called whenever something came from it."""

    __slots__ = ("_clock", "connected_at", "heard_at", "hello")

    def __init__(self, hello: ops.Hello, clock: Clock) -> None:
        self.hello = hello
        self.connected_at = clock.wall_ms()
        self._clock = clock
        self.hear()

    def hear(self) -> None:
        self.heard_at = self._clock.monotonic()


class Roster:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seats: dict[Seat, None] = {}

    def __len__(self) -> int:
        return len(self._seats)

    def join(self, hello: ops.Hello) -> Seat:
        """Add a worker that has said hello; give the seat back to `leave` when its socket ends."""
        seat = Seat(hello, self._clock)
        self._seats[seat] = None
        return seat

    def leave(self, seat: Seat) -> None:
        self._seats.pop(seat, None)

    def look(self, document: Document, leases: Leases) -> ops.AllWorkers:
        """Return the workers by name, with what they hold in this document."""
        held: dict[str, list[tuple[float, str]]] = {}
        now = self._clock.monotonic()
        for token, job in document.claims.items():
            assert job.claim is not None
            ago_s = leases.heard_ago_s(token, now) or 0.0
            held.setdefault(job.claim.worker, []).append((ago_s, token))
        # Of two sockets under one name the newer counts: the older has not been missed yet.
        seats = {seat.hello.worker or "": seat for seat in self._seats}
        names = sorted(seats.keys() | held.keys())
        room = _Room(MAX_RUNNING_OF_ALL)
        workers = tuple(
            self._view(name, seats.get(name), held.get(name, []), document, now, room)
            for name in islice(names, MAX_WORKERS)
        )
        return ops.AllWorkers(workers=workers, total=len(names))

    def _view(
        self,
        name: str,
        seat: Seat | None,
        held: list[tuple[float, str]],
        document: Document,
        now: float,
        room: _Room,
    ) -> ops.WorkerView:
        longest = heapq.nlargest(room.take(min(MAX_RUNNING, len(held))), held)
        running = tuple(document.claims[token].running(ago_s) for ago_s, token in longest)
        ago_s = min([ago_s for ago_s, _ in held], default=None)
        if seat is None:
            return ops.WorkerView(
                name=name, connected=False, heard_ago_s=ago_s, holds=len(held), running=running
            )
        hello, socket_ago_s = seat.hello, now - seat.heard_at
        return ops.WorkerView(
            name=name,
            connected=True,
            client=hello.client,
            version=hello.version,
            host=hello.host,
            queues=hello.queues,
            slots=hello.slots,
            connected_at=seat.connected_at,
            heard_ago_s=socket_ago_s if ago_s is None else min(ago_s, socket_ago_s),
            holds=len(held),
            running=running,
        )


class _Room:
    """So many of something for everybody together."""

    def __init__(self, count: int) -> None:
        self._left = count

    def take(self, wanted: int) -> int:
        got = min(wanted, self._left)
        self._left -= got
        return got
