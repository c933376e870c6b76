"""A socket to a broker, spoken by hand: many requests under way, each answered by its id."""

from __future__ import annotations

import asyncio
import itertools
import json
import secrets
from collections.abc import Sequence
from typing import Any, Self

from websockets.asyncio.client import ClientConnection, connect

REQUESTS_PER_PREFIX = 20_000
"""A prefix is to be young, and at the rates of these tests it is by then."""

Message = dict[str, Any]


class Line:
    """Use as an async context manager. A socket that ends fails all that wait for it."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}"}
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._ids = itertools.count(1)
        self._requests = itertools.count(1)
        self._prefix = ""
        self._seq = 0
        self._socket: ClientConnection
        self._reader: asyncio.Task[None]

    async def __aenter__(self) -> Self:
        self._socket = await connect(
            self._url, additional_headers=self._headers, compression=None, ping_interval=None
        )
        self._reader = asyncio.create_task(self._read())
        reply = await self.ask({"op": "hello", "client": "overload"})
        self._seq = reply["ok"]["seq"]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._socket.close()
        await self._reader

    def request(self) -> str:
        """Return a new request id, from a recent seq (S7)."""
        number = next(self._requests)
        if not self._prefix or number % REQUESTS_PER_PREFIX == 0:
            self._prefix = f"{self._seq}-{secrets.token_hex(8)}"
        return f"{self._prefix}:{number}"

    async def ask(self, message: Message) -> Message:
        (future,) = await self.send([message])
        return await future

    async def send(self, messages: Sequence[Message]) -> list[asyncio.Future[Message]]:
        """Send the messages in one frame; return what their replies will be set on."""
        ids = [next(self._ids) for _ in messages]
        loop = asyncio.get_running_loop()
        futures = [self._waiting.setdefault(each, loop.create_future()) for each in ids]
        frame = [{"id": each, **message} for each, message in zip(ids, messages, strict=True)]
        await self._socket.send(json.dumps(frame))
        return futures

    async def _read(self) -> None:
        try:
            async for text in self._socket:
                replies = json.loads(text)
                for reply in replies if isinstance(replies, list) else [replies]:
                    self._answer(reply)
        except Exception as error:  # the socket's end, or a reply that is not understood
            self._end(error)
        else:
            self._end(ConnectionError("the socket was closed"))

    def _answer(self, reply: Message) -> None:
        future = self._waiting.pop(reply["id"], None)  # None is about the socket, which then ends
        self._seq = max(self._seq, reply.get("ok", {}).get("position", (0, 0))[1])
        if future is not None and not future.done():
            future.set_result(reply)

    def _end(self, error: Exception) -> None:
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(error)
