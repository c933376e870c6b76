"""An HTTP proxy in front of one server, which misbehaves exactly as a test tells it to.

In the process of a test::

    with Proxy(server.url) as proxy:
        proxy.rule = every_nth_write(10, CutReply())
        ...                                     # clients use proxy.url

or in its own, which ends when its standard input does::

    python -m tests.proxy http://127.0.0.1:9000 --cut-every 10

It understands enough HTTP/1.1 for the clients of object stores: persistent connections, bodies
with a length or in chunks, `Expect: 100-continue`. A rule is asked once for each request, when it
has been read whole, and returns what to do with it.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

MAX_HEAD_BYTES: Final = 256 * 1024
REMEMBERED: Final = 10_000
START_TIMEOUT_S: Final = 10.0


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
    def is_write(self) -> bool:
        return self.method in ("PUT", "POST", "PATCH")


# --- what can be done with a request -------------------------------------------------------------


@dataclass(frozen=True)
class Forward:
    """Pass it on, without the headers `strip`; `delay_s` before that, or when `until` is set."""

    strip: tuple[str, ...] = ()
    delay_s: float = 0.0
    until: threading.Event | None = None


@dataclass(frozen=True)
class CutReply(Forward):
    """Pass it on, wait for the server's whole answer, and close the connection without it."""


@dataclass(frozen=True)
class Drop:
    """Close the connection; the server never sees the request."""


@dataclass(frozen=True)
class Answer:
    """Answer in the server's place, which never sees the request."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


Action = Forward | CutReply | Drop | Answer
Rule = Callable[[Message], Action | None]
"""None means to pass the request on."""


def s3_error(status: int, code: str, retry_after_s: int | None = None) -> Answer:
    """Return an answer as S3 gives it."""
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>injected</Message></Error>"
    headers = (("Content-Type", "application/xml"),)
    if retry_after_s is not None:
        headers += (("Retry-After", str(retry_after_s)),)
    return Answer(status, body.encode(), headers)


def every_nth_write(n: int, action: Action, containing: str = "") -> Rule:
    """Return a rule that does this to the nth, 2nth, … write whose target contains a text."""
    lock = threading.Lock()
    seen = 0

    def rule(request: Message) -> Action | None:
        nonlocal seen
        if not request.is_write or containing not in request.target:
            return None
        with lock:
            seen += 1
            return action if seen % n == 0 else None

    return rule


def next_write(action: Action, containing: str = "") -> Rule:
    """Return a rule that does this to the first write only."""
    done = threading.Event()

    def rule(request: Message) -> Action | None:
        if done.is_set() or not request.is_write or containing not in request.target:
            return None
        done.set()
        return action

    return rule


def always(action: Action) -> Rule:
    return lambda request: action


# --- the proxy -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Exchange:
    """What became of a request; `status` is 0 if nobody answered it."""

    request: Message  # without its body
    action: Action
    status: int


@dataclass
class Proxy:
    """Runs in a thread of its own between `with` and its end. `rule` may change at any time."""

    upstream: str
    rule: Rule | None = None
    port: int = 0
    exchanges: deque[Exchange] = field(default_factory=lambda: deque(maxlen=REMEMBERED))

    def __post_init__(self) -> None:
        parts = urlsplit(self.upstream)
        self._address = (parts.hostname or "", parts.port or 80)
        self._changed = threading.Condition()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._failure: OSError | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(START_TIMEOUT_S):
            raise TimeoutError("The proxy does not start.")
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with suppress(RuntimeError):  # the loop has ended by itself
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def count(self, wanted: Callable[[Exchange], bool]) -> int:
        with self._changed:
            return sum(map(wanted, self.exchanges))

    def wait_for(
        self, wanted: Callable[[Exchange], bool], count: int = 1, timeout_s: float = 30.0
    ) -> None:
        """Wait until so many exchanges are of the wanted kind. Raises TimeoutError."""
        with self._changed:
            enough = self._changed.wait_for(
                lambda: sum(map(wanted, self.exchanges)) >= count, timeout_s
            )
        if not enough:
            raise TimeoutError(f"Fewer than {count} such exchanges within {timeout_s} s.")

    # --- in the proxy's thread ---

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        try:
            server = await asyncio.start_server(
                self._connected, "127.0.0.1", self.port, limit=MAX_HEAD_BYTES, backlog=1024
            )
        except OSError as exc:
            self._failure = exc
            self._ready.set()
            return
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._converse(Peer(reader, writer)))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _converse(self, client: Peer) -> None:
        server = Upstream(self._address)
        try:
            while True:
                request = await client.receive_request()
                if request is None or not await self._handle(request, client, server):
                    return
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            return  # either side went away, which is its right
        finally:
            client.close()
            server.close()

    async def _handle(self, request: Message, client: Peer, server: Upstream) -> bool:
        """Do what the rule says; return whether the connection goes on."""
        action = (self.rule and self.rule(request)) or Forward()
        if isinstance(action, Forward):
            return await self._forward(request, action, client, server)
        # First the record: whoever has the reply may look for it.
        self._record(request, action, action.status if isinstance(action, Answer) else 0)
        if isinstance(action, Drop):
            return False
        await client.send(reply_of(action, request))
        return True

    async def _forward(
        self, request: Message, action: Forward, client: Peer, server: Upstream
    ) -> bool:
        await asyncio.sleep(action.delay_s)
        if action.until is not None:
            await asyncio.to_thread(action.until.wait)
        try:
            reply, lasting = await server.exchange(request.without(("Expect", *action.strip)))
        except (OSError, asyncio.IncompleteReadError):
            self._record(request, action, 0)
            return False
        self._record(request, action, reply.status)
        if isinstance(action, CutReply):
            return False
        await client.send(reply)
        return lasting

    def _record(self, request: Message, action: Action, status: int) -> None:
        with self._changed:
            bare = Message(request.start, request.headers)
            self.exchanges.append(Exchange(bare, action, status))
            self._changed.notify_all()


def reply_of(answer: Answer, request: Message) -> Message:
    body = b"" if request.method == "HEAD" else answer.body
    headers = (*answer.headers, ("Content-Length", str(len(body))))
    return Message(f"HTTP/1.1 {answer.status} Injected", headers, body)


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

    async def receive_reply(self, method: str) -> tuple[Message, bool]:
        """Return the reply, and whether another may follow on this connection."""
        while True:
            head = await self._head()
            if head is None:
                raise ConnectionResetError("The server closed the connection.")
            if head.status >= 200:
                break
        bodiless = method == "HEAD" or head.status in (204, 304)
        endless = not bodiless and not _has_end(head)
        if endless:
            body = await self.reader.read()
            head = Message(head.start, (*head.headers, ("Content-Length", str(len(body)))), body)
        else:
            head = await self._with_body(head, bodiless)
        closing = (head.header("Connection") or "").lower() == "close"
        return head, not (endless or closing)

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

    async def exchange(self, request: Message) -> tuple[Message, bool]:
        peer = self._peer
        # A kept connection that the server has closed meanwhile is not the client's concern.
        if peer is None or peer.reader.at_eof():
            self.close()
            reader, writer = await asyncio.open_connection(*self._address, limit=MAX_HEAD_BYTES)
            peer = self._peer = Peer(reader, writer)
        await peer.send(request)
        reply, lasting = await peer.receive_reply(request.method)
        if not lasting:
            self.close()
        return reply, lasting

    def close(self) -> None:
        if self._peer is not None:
            self._peer.close()
            self._peer = None


def _has_end(head: Message) -> bool:
    return head.header("Content-Length") is not None or head.header("Transfer-Encoding") is not None


# --- in a process of its own ---------------------------------------------------------------------


def rule_of(options: argparse.Namespace) -> Rule:
    rules: list[Rule] = []
    if options.cut_every:
        rules.append(every_nth_write(options.cut_every, CutReply(), options.containing))
    if options.answer_every:
        n, _, status = options.answer_every.partition(":")
        rules.append(every_nth_write(int(n), Answer(int(status)), options.containing))
    passed_on = Forward(tuple(options.strip), options.delay)

    def rule(request: Message) -> Action | None:
        actions = (each(request) for each in rules)
        return next((action for action in actions if action is not None), passed_on)

    return rule


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.proxy", description=__doc__)
    parser.add_argument("upstream", metavar="URL")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument(
        "--cut-every", type=int, metavar="N", help="cut the reply of each Nth write"
    )
    parser.add_argument(
        "--answer-every", metavar="N:STATUS", help="answer each Nth write with this"
    )
    parser.add_argument("--strip", action="append", default=[], metavar="HEADER")
    parser.add_argument("--delay", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--containing", default="", help="count only writes whose target has this")
    options = parser.parse_args()
    with Proxy(options.upstream, rule_of(options), options.port) as proxy:
        print(proxy.url, flush=True)
        with suppress(KeyboardInterrupt):
            sys.stdin.read()


if __name__ == "__main__":
    main()
