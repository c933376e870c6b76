"""Where a test and the tasks in other processes meet, so that tests wait for events, not a while.

A task connects, says who it is and waits for a word; the test learns that it runs, and decides
what becomes of it.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

PATIENCE_S = 60.0


class Guest(NamedTuple):
    """A task that waits. `pid` is its process."""

    name: str
    pid: int
    attempt: int
    writer: asyncio.StreamWriter

    def go_on(self) -> None:
        self.writer.write(b"go on\n")
        self.writer.close()


class MeetingPoint:
    def __init__(self) -> None:
        self.port = 0
        self._writers: list[asyncio.StreamWriter] = []
        self._arrived: asyncio.Queue[Guest] = asyncio.Queue()

    async def next(self) -> Guest:
        """Return the next task that has come; tasks that died since are not told apart."""
        return await asyncio.wait_for(self._arrived.get(), PATIENCE_S)

    def close(self) -> None:
        for writer in self._writers:
            writer.close()

    async def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        said: dict[str, Any] = json.loads(await reader.readline())
        await self._arrived.put(Guest(**said, writer=writer))


@asynccontextmanager
async def meeting_point() -> AsyncIterator[MeetingPoint]:
    point = MeetingPoint()
    server = await asyncio.start_server(point._welcome, "127.0.0.1", 0)
    point.port = server.sockets[0].getsockname()[1]
    try:
        yield point
    finally:
        server.close()
        point.close()


def meet(port: int, **said: Any) -> None:
    """Say who one is and wait for the word; called in a task."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as connection:
        connection.sendall(json.dumps(said).encode() + b"\n")
        connection.recv(100)
