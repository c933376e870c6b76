"""An HTTP proxy in front of one server, which misbehaves exactly as a test tells it to.

In the process of a test::

    with Proxy(server.url) as proxy:
        proxy.rule = every_nth_write(10, CutReply())
        ...                                     # clients use proxy.url

or in its own, which ends when its standard input does::

    python -m tests.proxy http://127.0.0.1:9000 --cut-every 10

A rule is asked once for each request, when it has been read whole, and returns what to do with it.
It runs in the proxy's thread: what it waits for, everybody waits for.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

from tests.http1 import MAX_HEAD_BYTES, Message, Peer, Upstream

REMEMBERED: Final = 10_000
START_TIMEOUT_S: Final = 10.0


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
    headers = [("Content-Type", "application/xml")]
    if retry_after_s is not None:
        headers.append(("Retry-After", str(retry_after_s)))
    return Answer(status, body.encode(), tuple(headers))


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
        self._errors: list[Exception] = []
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
        if exc is None and self._errors:
            raise self._errors[0]

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
        except (OSError, asyncio.IncompleteReadError):
            return  # either side went away, which is its right
        except Exception as exc:
            self._errors.append(exc)  # the rule's, or a message that is not understood
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
            reply = await server.exchange(request.without(("Expect", *action.strip)))
        except (OSError, asyncio.IncompleteReadError):
            self._record(request, action, 0)
            return False
        self._record(request, action, reply.status)
        if isinstance(action, CutReply):
            return False
        await client.send(reply)
        return not reply.closes

    def _record(self, request: Message, action: Action, status: int) -> None:
        with self._changed:
            bare = Message(request.start, request.headers)
            self.exchanges.append(Exchange(bare, action, status))
            self._changed.notify_all()


def reply_of(answer: Answer, request: Message) -> Message:
    body = b"" if request.method == "HEAD" else answer.body
    headers = (*answer.headers, ("Content-Length", str(len(body))))
    return Message(f"HTTP/1.1 {answer.status} Injected", headers, body)


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
