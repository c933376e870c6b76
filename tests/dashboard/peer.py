"""The server's and the browser's part around an ASGI application of a websocket."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

TIMEOUT_S: Final = 30.0

Application = Callable[[dict[str, Any], Any, Any], Awaitable[None]]


class Peer:
    def __init__(self, application: Application, scope: dict[str, Any]) -> None:
        self._in: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._out: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._task = asyncio.ensure_future(application(scope, self._in.get, self._out.put))

    def put(self, event: dict[str, Any]) -> None:
        self._in.put_nowait(event)

    async def event(self) -> dict[str, Any]:
        """Return what the application sends next."""
        return await asyncio.wait_for(self._out.get(), TIMEOUT_S)

    async def ended(self) -> None:
        """Wait until the application is done; raise what it raised."""
        await asyncio.wait_for(self._task, TIMEOUT_S)

    async def message(self) -> Any:
        event = await self.event()
        assert event["type"] == "websocket.send", event
        return json.loads(event["text"])

    def answer(self, text: str = '{"got":true}') -> None:
        self.put({"type": "websocket.receive", "text": text})

    async def next(self) -> Any:
        message = await self.message()
        self.answer()
        return message

    async def close(self) -> int:
        event = await self.event()
        assert event["type"] == "websocket.close", event
        code: int = event["code"]
        return code

    def is_silent(self) -> bool:
        return self._out.empty()


@contextlib.asynccontextmanager
async def accepted(application: Application, scope: dict[str, Any]) -> AsyncIterator[Peer]:
    """Connect, and at the end leave."""
    peer = Peer(application, scope)
    peer.put({"type": "websocket.connect"})
    assert (await peer.event())["type"] == "websocket.accept"
    yield peer
    peer.put({"type": "websocket.disconnect", "code": 1001})
    await peer.ended()
