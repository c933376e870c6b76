"""As much HTTP/1.1 as the clients of object stores speak, for the proxy.

Bodies with a length or in chunks, persistent connections, `Expect: 100-continue`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

MAX_HEAD_BYTES: Final = 256 * 1024


@dataclass(frozen=True)
class Message:
    """A request or a reply: its first line, its header as it came, and its body."""

    start: str
    headers: tuple[tuple[str, str], ...]
    body: bytes = b""

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    def without(self, names: Iterable[str]) -> Message:
        unwanted = {name.lower() for name in names}
        kept = tuple((key, value) for key, value in self.headers if key.lower() not in unwanted)
        return Message(self.start, kept, self.body)

    def encode(self) -> bytes:
        lines = [self.start, *(f"{key}: {value}" for key, value in self.headers)]
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + self.body

    @property
    def method(self) -> str:
        return self.start.split(" ")[0]

    @property
    def target(self) -> str:
        return self.start.split(" ")[1]

    @property
    def status(self) -> int:
        return int(self.start.split(" ")[1])

    @property
    def closes(self) -> bool:
        return (self.header("Connection") or "").lower() == "close"

    @property
    def is_write(self) -> bool:
        return self.method in ("PUT", "POST", "PATCH")


class Peer:
    """One side's connection, in messages."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def receive_request(self) -> Message | None:
        """Return the next request, or None at the end of the connection."""
        head = await self._head()
        if head is None:
            return None
        if (head.header("Expect") or "").lower() == "100-continue":
            self.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return await self._with_body(head, bodiless=head.header("Content-Length") is None)

    async def receive_reply(self, method: str) -> Message:
        """Return the reply, with a length if it has a body."""
        while True:
            head = await self._head()
            if head is None:
                raise ConnectionResetError("The server closed the connection.")
            if head.status >= 200:
                break
        bodiless = method == "HEAD" or head.status in (204, 304)
        if bodiless or _has_end(head):
            return await self._with_body(head, bodiless)
        # The end of the connection, of which the upstream side takes notice, is that of the body.
        body = await self.reader.read()
        return Message(head.start, (*head.headers, ("Content-Length", str(len(body)))), body)

    async def send(self, message: Message) -> None:
        self.writer.write(message.encode())
        await self.writer.drain()

    def close(self) -> None:
        self.writer.close()

    async def _head(self) -> Message | None:
        try:
            text = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        except asyncio.IncompleteReadError as exc:
            if exc.partial:
                raise
            return None
        start, *lines = text[:-4].split("\r\n")
        pairs = (line.partition(":") for line in lines)
        return Message(start, tuple((key, value.strip()) for key, _, value in pairs))

    async def _with_body(self, head: Message, bodiless: bool) -> Message:
        if "chunked" in (head.header("Transfer-Encoding") or "").lower():
            body = await self._chunks()
            plain = head.without(("Transfer-Encoding", "Content-Length"))
            length = ("Content-Length", str(len(body)))
            return Message(head.start, (*plain.headers, length), body)
        if bodiless:
            return head
        body = await self.reader.readexactly(int(head.header("Content-Length") or 0))
        return Message(head.start, head.headers, body)

    async def _chunks(self) -> bytes:
        parts = []
        while True:
            size = int((await self.reader.readuntil(b"\r\n")).split(b";")[0], 16)
            parts.append(await self.reader.readexactly(size))
            await self.reader.readuntil(b"\r\n")
            if size == 0:
                return b"".join(parts)


class Upstream:
    """The way to the server: one connection, kept as long as the server keeps it."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._peer: Peer | None = None

    async def exchange(self, request: Message) -> Message:
        peer = self._peer
        # A kept connection that the server has closed meanwhile is not the client's concern.
        if peer is None or peer.reader.at_eof():
            self.close()
            reader, writer = await asyncio.open_connection(*self._address, limit=MAX_HEAD_BYTES)
            peer = self._peer = Peer(reader, writer)
        await peer.send(request)
        reply = await peer.receive_reply(request.method)
        if reply.closes:
            self.close()
        return reply

    def close(self) -> None:
        if self._peer is not None:
            self._peer.close()
            self._peer = None


def _has_end(head: Message) -> bool:
    return head.header("Content-Length") is not None or head.header("Transfer-Encoding") is not None
