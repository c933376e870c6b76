"""A socket without a network: the consumer's ASGI ends, held by the test."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from objq.server.consumer import Consumer
from objq.server.sockets import Sockets
from objq.tokens import Role, make_token
from tests.server.fakes import DOCUMENT, FakeBroker

HELLO = {"id": 0, "op": "hello", "client": "test", "worker": "w1"}


def bearer(token: str) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", f"Bearer {token}".encode())]


def token_for(role: Role = "work", broker: str = "broker-1") -> str:
    return make_token(role, DOCUMENT, broker)


class FakeSocket:
    def __init__(
        self, sockets: Sockets, headers: list[tuple[bytes, bytes]], extensions: dict[str, Any]
    ) -> None:
        self._to_app: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._from_app: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        scope: dict[str, Any] = {"type": "websocket", "path": "/objq/v1/", "headers": headers}
        scope["extensions"] = extensions
        self.consumer = Consumer(sockets)
        self._to_app.put_nowait({"type": "websocket.connect"})
        self.task = asyncio.create_task(self.consumer(scope, self._to_app.get, self._from_app.put))

    def send_text(self, text: str) -> None:
        self._to_app.put_nowait({"type": "websocket.receive", "text": text})

    def send_bytes(self, data: bytes) -> None:
        self._to_app.put_nowait({"type": "websocket.receive", "bytes": data})

    def send(self, *messages: Any) -> None:
        """Send one frame."""
        self.send_text(json.dumps(messages[0] if len(messages) == 1 else messages))

    async def event(self) -> dict[str, Any]:
        return await asyncio.wait_for(self._from_app.get(), 10)

    async def frame(self) -> Any:
        """Return the next frame, which has to come before a close."""
        event = await self.event()
        assert event["type"] == "websocket.send", event
        return json.loads(event["text"])

    async def closed(self) -> int:
        """Return the code of the close, which has to come next."""
        event = await self.event()
        assert event["type"] == "websocket.close", event
        return int(event["code"])

    async def ask(self, message: Any) -> Any:
        self.send(message)
        return await self.frame()

    @property
    def silent(self) -> bool:
        return self._from_app.empty()

    async def leave(self) -> None:
        self._to_app.put_nowait({"type": "websocket.disconnect", "code": 1006})
        await asyncio.wait_for(self.task, 10)


class Wire:
    """A fake broker and as many sockets to it as a test opens."""

    def __init__(self) -> None:
        self.broker = FakeBroker()
        self.sockets = Sockets(self.broker)
        self.opened: list[FakeSocket] = []

    async def connect(
        self, headers: list[tuple[bytes, bytes]], extensions: dict[str, Any] | None = None
    ) -> FakeSocket:
        socket = FakeSocket(self.sockets, headers, extensions or {})
        self.opened.append(socket)
        assert (await socket.event())["type"] == "websocket.accept"
        return socket

    async def open(self, role: Role = "work") -> FakeSocket:
        """Return a socket that has said hello."""
        socket = await self.connect(bearer(token_for(role)))
        assert "ok" in await socket.ask(HELLO)
        return socket


@asynccontextmanager
async def open_wire() -> AsyncIterator[Wire]:
    wire = Wire()
    try:
        yield wire
    finally:
        for socket in wire.opened:
            if not socket.task.done():
                await socket.leave()
