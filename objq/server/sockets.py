"""The open sockets of one broker, so that all can be closed at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final, Protocol

from objq import wire
from objq.core import ops
from objq.server.seam import Broker

CLOSE_GOING_AWAY: Final = 1001
CLOSE_RESET: Final = 1012


class Socket(Protocol):
    def shut(self, code: int) -> None: ...


class Sockets:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.requests: Counter[tuple[type, str]] = Counter()
        """Answered requests, by the class of the op and "ok" or the error's code."""
        self._delta: tuple[ops.Delta, bytes] | None = None
        self._open: dict[Socket, None] = {}  # in the order in which they came
        self._empty: asyncio.Event = asyncio.Event()
        self._empty.set()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, socket: Socket) -> None:
        self._open[socket] = None
        self._empty.clear()

    def discard(self, socket: Socket) -> None:
        self._open.pop(socket, None)
        if not self._open:
            self._empty.set()

    def encoded(self, delta: ops.Delta) -> bytes:
        """Return the bytes of a delta, which is encoded once for all who watch."""
        if self._delta is None or self._delta[0] is not delta:
            self._delta = delta, wire.encode_delta_body(delta)
        return self._delta[1]

    async def wait_empty(self) -> None:
        """Return when no socket is open."""
        await self._empty.wait()

    def reset(self) -> None:
        """Close all sockets and drop unread what came in over them (promise S4)."""
        for socket in list(self._open):
            socket.shut(CLOSE_RESET)

    def going_away(self) -> None:
        """Close all sockets, after the answers that are ready."""
        for socket in list(self._open):
            socket.shut(CLOSE_GOING_AWAY)
