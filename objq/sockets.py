"""The open sockets of one broker, so that all can be closed at once."""

from __future__ import annotations

import asyncio
from typing import Any, Final, Protocol

from objq.core import ops

CLOSE_GOING_AWAY: Final = 1001
CLOSE_RESET: Final = 1012


class Broker(Protocol):
    """What a socket needs of `objq.broker.broker.Broker`."""

    @property
    def id(self) -> str: ...

    @property
    def document(self) -> str | None: ...

    def welcome(self, role: str) -> ops.Welcome: ...

    def submit(self, op: Any) -> asyncio.Future[Any]: ...


class Socket(Protocol):
    def shut(self, code: int) -> None: ...


class Sockets:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker
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
