"""The port under fuzz: a real daphne, and peers that speak HTTP or websockets badly, or not at all.

An input is what a peer sends, from the first byte on or after a good handshake. The peer then stops
sending. It is answered, closed with a code, or dropped; and somebody else is served all the while.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Coroutine, Iterator
from typing import Any, Final, TypeVar

from hypothesis import strategies as st
from twisted.python import log

from objq.server.reactor import reactor_loop
from objq.server.serving import Server
from tests.fuzz import corpus
from tests.fuzz.guard import Violation
from tests.fuzz.targets import Target, require
from tests.server.fakes import FakeBroker
from tests.server.harness import HELLO, token_for

R = TypeVar("R")

QUIET_S: Final = 0.01
"""A peer that was sent nothing for so long goes away."""

MOST_SENT_BYTES: Final = 16 * 1024 * 1024
EVERY: Final = 20
"""After so many inputs another client is looked at."""

CLOSE_CODES: Final = frozenset({1000, 1001, 1002, 1003, 1007, 1009, 1012, 1013, 4401, 4403, 4410})

MASK: Final = b"\x01\x02\x03\x04"
HANDSHAKE: Final = (
    "GET /objq/v1/ HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    "Authorization: Bearer {token}\r\n\r\n"
)


def handshake() -> bytes:
    return HANDSHAKE.format(token=token_for("manage")).encode()


def frame(payload: bytes, opcode: int = 1, *, last: bool = True, says: int | None = None) -> bytes:
    """Return a websocket frame; `says`: a length that is not the payload's."""
    size = len(payload) if says is None else says
    head = bytes([(0x80 if last else 0) | opcode])
    if size < 126:
        head += bytes([0x80 | size])
    elif size < 1 << 16:
        head += bytes([0x80 | 126]) + struct.pack(">H", size)
    else:
        head += bytes([0x80 | 127]) + struct.pack(">Q", size)
    masked = bytes(byte ^ MASK[at % 4] for at, byte in enumerate(payload))
    return head + MASK + masked


class Port:
    """Keeps one server over all inputs."""

    def __init__(self) -> None:
        self.loop = reactor_loop()
        self._server = Server(lambda address: FakeBroker(), ("127.0.0.1", 0))
        self._fed = 0
        self._logged: list[str] = []
        log.addObserver(self._observe)
        self._run(self._server.start())

    def _observe(self, event: Any) -> None:
        """Note what nobody handled: Twisted logs it and goes on."""
        if event.get("isError"):
            self._logged.append(str(log.textFromEventDict(event)))

    def _run(self, coro: Coroutine[Any, Any, R]) -> R:
        return self.loop.run_until_complete(asyncio.wait_for(coro, 120))

    def close(self) -> None:
        self._run(self._server.stop())
        log.removeObserver(self._observe)

    def feed(self, data: bytes) -> Iterator[str]:
        self._fed += 1
        outcome = self._run(self._send(data))
        logged, self._logged = self._logged, []
        require(not logged, "\n".join(logged))
        if self._fed % EVERY == 0:
            self._run(self._check_others())
        return iter((outcome,))

    async def _send(self, data: bytes) -> str:
        reader, writer = await asyncio.open_connection(*self._server.address)
        received = bytearray()
        begin = handshake()
        try:
            with contextlib.suppress(ConnectionError):
                if data.startswith(begin):  # what follows is for whoever has agreed to it
                    writer.write(begin)
                    received += await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
                    data = data[len(begin) :]
                writer.write(data)
                # What is refused is not read to its end.
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(writer.drain(), 1)
                while part := await asyncio.wait_for(reader.read(1 << 16), QUIET_S):
                    received += part
                    require(len(received) <= MOST_SENT_BYTES, "far too much was sent")
                return f"ended: {_said(bytes(received))}"
            return f"dropped: {_said(bytes(received))}"
        except TimeoutError:
            return f"left open: {_said(bytes(received))}"
        finally:
            writer.transport.abort()
            await asyncio.sleep(0.001)  # for the server to notice

    async def _check_others(self) -> None:
        reader, writer = await asyncio.open_connection(*self._server.address)
        try:
            writer.write(handshake())
            received = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
            writer.write(frame(corpus.text_of(HELLO)))
            while b'"broker"' not in received:
                part = await asyncio.wait_for(reader.read(1 << 16), 30)
                if not part:
                    raise Violation("another client was not served")
                received += part
        finally:
            writer.transport.abort()


def _said(received: bytes) -> str:
    """Return the status, and the code of the close if there was one."""
    if not received:
        return "nothing"
    head, _, rest = received.partition(b"\r\n\r\n")
    status = head[9:12].decode("latin-1")
    require(received.startswith(b"HTTP/1.") and status.isdigit(), f"no HTTP: {received[:60]!r}")
    require(not status.startswith("5"), f"status {status}")
    if status != "101":
        return status
    code = _close_code(rest)
    require(code is None or code in CLOSE_CODES, f"closed with {code}")
    return "101" if code is None else f"101, close {code}"


def _close_code(data: bytes) -> int | None:
    """Return the code in the first close frame of what a server sent."""
    at = 0
    while at + 2 <= len(data):
        opcode, size = data[at] & 15, data[at + 1] & 127
        at += 2
        if size >= 126:
            width = 2 if size == 126 else 8
            size = int.from_bytes(data[at : at + width], "big")
            at += width
        if opcode == 8:
            return int.from_bytes(data[at : at + 2], "big") if size >= 2 else 1005
        at += size
    return None


def _seeds() -> list[bytes]:
    begin, hello = handshake(), frame(corpus.text_of(HELLO))
    good = begin + hello
    beat = corpus.text_of(corpus.MESSAGES[3])
    liars = (0, 125, 126, 65_535, 65_536, 5 * 1024 * 1024, 2**31, 2**63 - 1, 2**63, 2**64 - 1)
    return [
        good,
        good + frame(beat),
        *(good + frame(beat, opcode) for opcode in range(16)),
        *(good + frame(beat, last=False) + frame(b"}", opcode) for opcode in (0, 1, 8, 9)),
        *(good + frame(beat, says=size) for size in liars),
        good + frame(b"\xff\xfe"),
        good + frame(b"\xed\xa0\x80"),
        good + frame(b"") * 500 + frame(b"p", 9) * 500,
        good + frame(b"\x03\xe8", 8),
        good + frame(b"\xff\xff\xff", 8),
        good + frame(b" " * 1_100_000),
        good + b"\xc1\x80" + MASK,  # a bit that belongs to a compression nobody agreed on
        good + b"\x81\x05hello",  # not masked
        *(begin + frame(text) for text in corpus.frames() if len(text) < 20_000),
        *(begin.replace(b"13", version) for version in (b"0", b"99", b"-1", b"x" * 5000)),
        begin.replace(b"Bearer ", b"Bearer x"),
        begin.replace(b"Host", b"Origin"),
        begin.replace(b"/objq/v1/", b"/" + b"a" * 20_000),
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 5000 + b"\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 3,
        b"POST /readyz HTTP/1.1\r\nContent-Length: 9\r\n\r\n123456789",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 500,
        b"\r\n" * 1000,
        b"\x00" * 100_000,
    ]


def target(port: Port) -> Target:
    good = handshake() + frame(corpus.text_of(HELLO))
    pieces = st.builds(
        frame,
        corpus.hostile_frames | st.binary(max_size=200),
        st.integers(0, 15),
        last=st.booleans(),
        says=st.none() | st.integers(0, 2**64 - 1),
    )
    return Target(
        name="port",
        feed=port.feed,
        seeds=_seeds,
        strategy=st.lists(pieces | st.binary(max_size=50), max_size=4).map(
            lambda parts: good + b"".join(parts)
        ),
    )
