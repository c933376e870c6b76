"""One connection to a broker: requests out, answers back to whoever waits for them.

Everything that is asked within one turn of the event loop goes out in one frame, and whatever is
asked while a frame is on its way goes into the next. Requests are answered in any order. When the
connection ends, all that wait get `LinkLost`; each caller was told when its request was handed to
the socket, and repeats it over another link, with the same ids.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from objq import wire
from objq.client.seam import ConnectionEnded, Transport
from objq.clock import Clock
from objq.core import ops
from objq.errors import ObjqError, Overloaded, Unavailable, Unknown

logger = logging.getLogger("objq.client")

MAX_OUTBOX_BYTES: Final = 16 * 1024 * 1024
MAX_WAITING: Final = 10_000
"""Requests of one link that wait for their answer; beyond, new ones get `overloaded` at once."""

MAX_DELTAS: Final = 64
"""Deltas that wait for a watcher; beyond, they are dropped and it needs a snapshot."""

RETRY_AFTER_S: Final = 0.5
CLOSE_TIMEOUT_S: Final = 2.0
LAST_WORDS_S: Final = 1.0
"""To read what the peer said before it closed, when a send is what finds that it did."""


CLOSED: Final = "This client is closed."


class ClientClosed(Unavailable):
    """Nothing more is sent, since the client was closed."""

    def __init__(self) -> None:
        super().__init__(CLOSED)


class LinkLost(Exception):
    """The link ended before the answer came. `error` is the broker's reason, if it gave one."""

    def __init__(self, message: str, error: ObjqError | None = None) -> None:
        super().__init__(message)
        self.error = error


class _Waiting:
    __slots__ = ("future", "mark_sent", "name")

    def __init__(self, name: str, mark_sent: Callable[[], None]) -> None:
        self.name = name
        self.mark_sent = mark_sent
        self.future: asyncio.Future[ops.Answer] = asyncio.get_running_loop().create_future()


class Stream:
    """The deltas of one `watch`, for one reader."""

    def __init__(self) -> None:
        self._deltas: deque[ops.Delta] = deque()
        self._missed = False
        self._end: LinkLost | None = None
        self._filled = asyncio.Event()

    def put(self, delta: ops.Delta) -> None:
        """Keep a delta; if too many wait, drop them all."""
        if len(self._deltas) >= MAX_DELTAS:
            self._deltas.clear()
            self._missed = True
        if not self._missed:
            self._deltas.append(delta)
        self._filled.set()

    def end(self, end: LinkLost) -> None:
        self._end = end
        self._filled.set()

    async def get(self) -> ops.Delta | None:
        """Return the next delta, or None if some were dropped.

        Raises LinkLost, also when the broker has ended the watch.
        """
        while not self._deltas:
            if self._missed:
                return None
            if self._end is not None:
                raise self._end
            self._filled.clear()
            await self._filled.wait()
        return self._deltas.popleft()


def _nobody_asks() -> None:
    """Stand in for a caller that need not know when its request was sent."""


class Link:
    """Made inside a running loop, for a transport that is open; say `hello` first."""

    def __init__(self, transport: Transport, clock: Clock) -> None:
        self.welcome: ops.Welcome | None = None
        self.heard_at = clock.monotonic()
        """When the last frame came in (monotonic seconds)."""
        self._clock = clock
        self._transport = transport
        self._waiting: dict[int, _Waiting] = {}
        self._watch: tuple[int, Stream] | None = None
        """The watch of this link: its request's number, and where its deltas go."""
        self._numbers = itertools.count(1)
        self._outbox: list[tuple[int, bytes]] = []
        self._outbox_bytes = 0
        self._filled = asyncio.Event()
        self._end: LinkLost | None = None
        self._tasks = [
            asyncio.create_task(self._run(self._send_all), name="objq link sends"),
            asyncio.create_task(self._run(self._receive_all), name="objq link receives"),
        ]

    @property
    def is_open(self) -> bool:
        return self._end is None

    async def hello(self, hello: ops.Hello) -> ops.Welcome:
        """Introduce the client. Raises NotBroker, Unauthorized …, and LinkLost."""
        answer = await self.call(hello)
        assert isinstance(answer, ops.Welcome)
        self.welcome = answer
        return answer

    async def call(self, op: ops.Op, mark_sent: Callable[[], None] = _nobody_asks) -> ops.Answer:
        """Return the broker's answer; wait as long as the link lasts.

        `mark_sent` is called when the request is handed to the socket. Raises the broker's error,
        TooLarge or Overloaded without having sent anything, and LinkLost.
        """
        if self._end is not None:
            raise self._end
        self._check_room(op)
        return await self._ask(next(self._numbers), op, mark_sent)

    async def watch(self) -> tuple[ops.Statistics, Stream]:
        """Return a snapshot, and where the deltas that follow it go; ends the watch before.

        Raises as `call`.
        """
        if self._end is not None:
            raise self._end
        number, stream = next(self._numbers), Stream()
        self._watch = number, stream
        snapshot = await self._ask(number, ops.Watch(), _nobody_asks)
        assert isinstance(snapshot, ops.Statistics)
        return snapshot, stream

    async def _ask(self, number: int, op: ops.Op, mark_sent: Callable[[], None]) -> ops.Answer:
        message = wire.encode_request(number, op)
        waiting = self._waiting[number] = _Waiting(ops.op_name(op), mark_sent)
        self._outbox.append((number, message))
        self._outbox_bytes += len(message)
        self._filled.set()
        try:
            return await waiting.future
        finally:
            self._waiting.pop(number, None)

    async def close(self) -> None:
        """End the link; what still waits gets LinkLost. May be called again."""
        self._ended(LinkLost("The link was closed on this side."))
        for task in self._tasks:
            task.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await asyncio.gather(*self._tasks, return_exceptions=True)
                await self._transport.close()

    def _check_room(self, op: ops.Op) -> None:
        if isinstance(op, ops.NEVER_SHED):
            return
        if len(self._waiting) >= MAX_WAITING or self._outbox_bytes >= MAX_OUTBOX_BYTES:
            raise Overloaded(
                f"{len(self._waiting)} requests of this process wait for the broker already "
                f"({self._outbox_bytes} bytes are unsent).",
                retry_after_s=RETRY_AFTER_S,
            )

    async def _run(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except ConnectionEnded as ended:
            self._ended(LinkLost(str(ended) or "The connection ended."))
        except ObjqError as error:
            self._ended(LinkLost(error.message, error))
        except Exception as bug:
            logger.exception("The link to the broker has failed in a way that is a bug.")
            self._ended(LinkLost(f"The link has failed ({bug!r})."))

    async def _send_all(self) -> None:
        while True:
            await self._filled.wait()
            self._filled.clear()
            try:
                for frame in wire.frames(self._take_outbox()):
                    await self._transport.send(frame)
            except ConnectionEnded:
                # A peer that closes says why before: that is read by the other task, if at all.
                await asyncio.wait(self._tasks[1:], timeout=LAST_WORDS_S)
                raise

    def _take_outbox(self) -> list[bytes]:
        taken, self._outbox, self._outbox_bytes = self._outbox, [], 0
        messages = []
        for number, message in taken:
            waiting = self._waiting.get(number)
            if waiting is not None:  # else its caller has gone: it need not be sent at all
                waiting.mark_sent()
                messages.append(message)
        return messages

    async def _receive_all(self) -> None:
        while True:
            frame = await self._transport.recv()
            self.heard_at = self._clock.monotonic()
            for number, answer in wire.decode_replies(frame, self._name_of):
                self._answered(number, answer)

    def _name_of(self, number: int) -> str | None:
        waiting = self._waiting.get(number)
        if waiting is not None:
            return waiting.name
        return "watch" if self._watch is not None and self._watch[0] == number else None

    def _answered(self, number: int | None, answer: ops.Answer | ops.Delta | ObjqError) -> None:
        if number is None:  # not about one request: about the socket, or a frame that was refused
            raise answer if isinstance(answer, ObjqError) else Unknown("An answer without an id.")
        if isinstance(answer, ops.Delta):
            if self._watch is not None and self._watch[0] == number:
                self._watch[1].put(answer)
            return
        waiting = self._waiting.get(number)
        if waiting is None or waiting.future.done():
            # The snapshot may just have come, and its caller not run yet.
            if isinstance(answer, ObjqError):
                self._watch_ended(number, answer)
            return
        if isinstance(answer, ObjqError):
            waiting.future.set_exception(answer)
        else:
            waiting.future.set_result(answer)

    def _watch_ended(self, number: int, error: ObjqError) -> None:
        """Take note that the broker cannot tell of changes any more: the link may serve on."""
        if self._watch is not None and self._watch[0] == number:
            self._watch[1].end(LinkLost(error.message, error))
            self._watch = None

    def _ended(self, end: LinkLost) -> None:
        if self._end is not None:
            return
        self._end = end
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()
        for waiting in self._waiting.values():
            if not waiting.future.done():
                waiting.future.set_exception(LinkLost(str(end), end.error))
        if self._watch is not None:
            self._watch[1].end(LinkLost(str(end), end.error))
        self._outbox.clear()
        self._outbox_bytes = 0
