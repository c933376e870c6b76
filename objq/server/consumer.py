"""One websocket of the broker, as a channels consumer (design §7).

It carries messages between a socket and the broker and decides nothing about jobs.

Opening. The token is in `Authorization: Bearer …`. A socket that is refused is first accepted, then
told why in one frame, `{"id": null, "error": {…}}`, and closed with a code of its own, because most
websocket clients show neither the body nor the reason of a refused handshake:

=====  =============================================================================================
4401   `unauthorized`: no token, or one that is forged, has ended or is for another document
4403   `forbidden`: the request carries an `Origin`, so it comes from a page in a browser
4410   `not_broker`: the token is for another broker; read `queue.json` again
1001   the broker is going away: repeat what was not answered elsewhere, with the same ids
1012   the broker was paused or deposed and reads nothing more here; repeat as for 1001
1013   more requests wait on this socket than the hard limits allow
=====  =============================================================================================

Then `hello` comes first. Every request is answered when the broker has its answer, in no particular
order; what is answered in one turn of the loop goes out in one frame. After a `watch` was answered,
deltas follow, until another takes its place. While the peer leaves what it was sent unread, it gets
no deltas; the next one that it gets shows by its `after` that some are missing.

Bounds. Beyond `SOFT_*` waiting requests, a socket's pushes, claims and the like get `overloaded`;
reports of the outcome of jobs, releases and heartbeats still get through. Beyond `HARD_*` the
socket is closed. While `MAX_OUT_BYTES` of answers wait to be sent, what was only looked up is
`overloaded` too, however small the question was. What is on its way out is bounded by the server,
which drops a peer that does not read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

import msgspec
from channels.consumer import AsyncConsumer

from objq import wire
from objq.broker.roster import Seat
from objq.core import ops
from objq.errors import (
    Forbidden,
    Invalid,
    NotBroker,
    ObjqError,
    Overloaded,
    Rejected,
    Unauthorized,
    Unavailable,
    Unknown,
)
from objq.server.sockets import Sockets
from objq.tokens import Role, read_token, role_allows

logger = logging.getLogger("objq.server")

SOFT_REQUESTS: Final = 10_000
SOFT_BYTES: Final = 16 * 1024 * 1024
HARD_REQUESTS: Final = 2 * SOFT_REQUESTS
HARD_BYTES: Final = 2 * SOFT_BYTES
"""Per socket: requests that wait for the broker, and their bytes on the wire."""

MAX_OUT_BYTES: Final = 8 * 1024 * 1024
"""Per socket: answers of one turn of the loop, beyond which nothing is looked up for it."""

RETRY_AFTER_S: Final = 1.0

CLOSE_OVERLOADED: Final = 1013
CLOSE_CODES: Final[dict[type[ObjqError], int]] = {
    Unauthorized: 4401,
    Forbidden: 4403,
    NotBroker: 4410,
}

OK: Final = "ok"
BEHIND: Final = "objq.behind"
"""The ASGI extension by which a server tells whether the peer leaves what it was sent unread."""

Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]


def _never() -> bool:
    return False


def _changes_nothing(op: object) -> bool:
    return isinstance(op, ops.Lookup) and not isinstance(op, ops.Watch)


class Consumer(AsyncConsumer):  # type: ignore[misc]  # channels has no types
    """One socket. It runs on the event loop only, without channel layer, database or threads."""

    def __init__(self, sockets: Sockets) -> None:
        self._sockets = sockets
        self._broker = sockets.broker
        self._loop = asyncio.get_running_loop()
        self._role: Role | None = None
        self._hello: ops.Hello | None = None
        self._seat: Seat | None = None
        self._watch: int | None = None
        """The id of the `watch` that was answered last: deltas carry it."""
        self._watch_asked: int | None = None
        self._waiting: dict[asyncio.Future[Any], wire.Incoming] = {}
        self._waiting_bytes = 0
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._sender: asyncio.Task[None] | None = None
        self._shut = False
        self._close_code: int | None = None

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        # The base class makes a task for each message and asks for a channel layer: this one needs
        # neither, and a frame handled in place costs a third of that.
        self._send = send
        self._is_behind: Callable[[], bool] = scope.get("extensions", {}).get(BEHIND, _never)
        self._headers = scope["headers"]
        self._sockets.add(self)
        try:
            message = await receive()
            while message["type"] != "websocket.disconnect":
                await self.dispatch(message)
                message = await receive()
        finally:
            self._gone()

    async def dispatch(self, message: dict[str, Any]) -> None:
        if self._shut:
            return
        if message["type"] == "websocket.receive":
            text = message.get("text")
            self._frame(message["bytes"] if text is None else text)
        elif message["type"] == "websocket.connect":
            await self._connect()

    def shut(self, code: int) -> None:
        """Read nothing more, send the answers that are ready, and close."""
        if self._shut:
            return
        self._shut = True
        self._leave()
        self._close_code = code
        self._wake_sender()

    # --- opening ---------------------------------------------------------------------------------

    async def _connect(self) -> None:
        await self._send({"type": "websocket.accept"})
        try:
            self._role = self._authenticate(self._headers)
        except ObjqError as error:
            self._reply(wire.encode_error(None, error))
            self.shut(CLOSE_CODES.get(type(error), CLOSE_CODES[Unauthorized]))

    def _authenticate(self, headers: Iterable[tuple[bytes, bytes]]) -> Role:
        named = dict(headers)
        if b"origin" in named:
            raise Forbidden("Pages in a browser do not talk to the broker: send no Origin header.")
        scheme, _, token = named.get(b"authorization", b"").decode("latin-1").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise Unauthorized(
                "The header `Authorization: Bearer TOKEN` is missing: objq's own clients send it; "
                "for others make a token with `manage.py objq_token`."
            )
        return read_token(token.strip(), self._broker.document, self._broker.id)

    def _welcome(self, hello: ops.Hello) -> ops.Welcome:
        assert self._role is not None
        welcome = self._broker.welcome(self._role)
        if hello.document is not None and hello.document != welcome.document:
            raise NotBroker(
                f"This broker serves document {welcome.document}, not {hello.document}: "
                "read queue.json again."
            )
        self._hello = hello
        self._sit_down(hello)
        limits = {
            **welcome.limits,
            "frame_bytes": wire.MAX_FRAME_BYTES,
            "frame_messages": wire.MAX_FRAME_MESSAGES,
            "waiting_requests": SOFT_REQUESTS,
            "waiting_bytes": SOFT_BYTES,
        }
        return msgspec.structs.replace(welcome, limits=limits)

    # --- requests --------------------------------------------------------------------------------

    def _sit_down(self, hello: ops.Hello) -> None:
        if self._seat is not None:
            self._broker.roster.leave(self._seat)
        self._seat = None if hello.worker is None else self._broker.roster.join(hello)

    def _frame(self, frame: str | bytes) -> None:
        if self._seat is not None:
            self._seat.hear()
        for incoming in wire.decode_frame(frame):
            if self._shut:  # the broker has noticed a pause while it took one of these
                return
            self._request(incoming)

    def _request(self, incoming: wire.Incoming) -> None:
        request_id, op = incoming.id, incoming.op
        if isinstance(op, Rejected):
            self._refuse(incoming, op)
            return
        assert request_id is not None
        try:
            if isinstance(op, ops.Hello):
                self._reply(wire.encode_answer(request_id, self._welcome(op)))
                self._sockets.requests[ops.Hello, OK] += 1
                return
            self._admit(op)
            if isinstance(op, ops.Watch):
                future = self._begin_watch(request_id)
            else:
                future = self._broker.submit(self._named(op))
        except Exception as error:
            self._refuse(incoming, error)
            return
        if future.done():
            self._answer(incoming, future)
            return
        self._waiting[future] = incoming
        self._waiting_bytes += incoming.size_bytes
        future.add_done_callback(self._answered)

    def _named(self, op: ops.Op) -> ops.Op:
        """Put the worker's name from `hello` into a claim without one."""
        if isinstance(op, ops.TakeClaim) and not op.worker and self._hello and self._hello.worker:
            return msgspec.structs.replace(op, worker=self._hello.worker)
        return op

    def _admit(self, op: ops.Op) -> None:
        assert self._role is not None
        if self._hello is None:
            raise Invalid("Say hello first: the first request on a socket is `hello`.")
        name = ops.op_name(op)
        if not role_allows(self._role, name):
            raise Forbidden(f"A token with the role {self._role} does not allow {name}.")
        count, size_bytes = len(self._waiting), self._waiting_bytes
        if count < SOFT_REQUESTS and size_bytes < SOFT_BYTES:
            return
        if not isinstance(op, ops.NEVER_SHED):
            raise Overloaded(
                f"{count:,} requests ({size_bytes:,} bytes) wait on this socket already.",
                retry_after_s=RETRY_AFTER_S,
            )
        if count >= HARD_REQUESTS or size_bytes >= HARD_BYTES:
            self.shut(CLOSE_OVERLOADED)
            raise Overloaded("Too many requests wait on this socket.", retry_after_s=RETRY_AFTER_S)

    def _begin_watch(self, request_id: int) -> asyncio.Future[ops.Answer]:
        self._broker.unwatch(self)
        self._watch, self._watch_asked = None, request_id
        return self._broker.watch(self)

    def tell(self, delta: ops.Delta) -> bool:
        """Send a delta, unless the snapshot has yet to be sent or the peer reads too slowly."""
        if self._shut:
            return True
        if self._watch is None or self._is_behind():
            return False
        self._reply(wire.encode_delta(self._watch, self._sockets.encoded(delta)))
        return True

    def refuse(self, error: ObjqError) -> bool:
        """Tell that the watch has ended, unless the snapshot has yet to be sent."""
        if self._watch is None and not self._shut:
            return False
        if self._watch is not None and not self._shut:
            self._reply(wire.encode_error(self._watch, error))
        self._watch = self._watch_asked = None
        return True

    # --- answers ---------------------------------------------------------------------------------

    def _answered(self, future: asyncio.Future[Any]) -> None:
        incoming = self._waiting.pop(future, None)
        if incoming is None:  # the socket was shut before
            return
        self._waiting_bytes -= incoming.size_bytes
        self._answer(incoming, future)

    def _answer(self, incoming: wire.Incoming, future: asyncio.Future[Any]) -> None:
        assert incoming.id is not None
        if future.cancelled():
            error: BaseException | None = Unavailable("The broker has dropped this request.")
        else:
            error = future.exception()
        if error is None and self._out_bytes > MAX_OUT_BYTES and _changes_nothing(incoming.op):
            error = Overloaded(
                f"{self._out_bytes:,} bytes of answers wait on this socket already.",
                retry_after_s=RETRY_AFTER_S,
            )
        if error is None:
            try:
                self._reply(wire.encode_answer(incoming.id, future.result(), incoming.refused))
                self._sockets.requests[type(incoming.op), OK] += 1
                if incoming.id == self._watch_asked and isinstance(incoming.op, ops.Watch):
                    self._watch = incoming.id
                return
            except Exception as unencodable:
                error = unencodable
        self._refuse(incoming, error)

    def _refuse(self, incoming: wire.Incoming, error: BaseException) -> None:
        if not isinstance(error, ObjqError):
            logger.error(
                "A request has failed in a way that is a bug.",
                exc_info=error,
                extra={"event": "request_failed"},
            )
            error = Unknown("The broker failed at this request (see its log); it may be applied.")
        self._sockets.requests[type(incoming.op), error.code] += 1
        self._reply(wire.encode_error(incoming.id, error))

    def _reply(self, message: bytes) -> None:
        self._out.append(message)
        self._out_bytes += len(message)
        self._wake_sender()

    def _wake_sender(self) -> None:
        # The task starts on the loop's next turn, so all answers of this one share its frames.
        if self._sender is None:
            self._sender = self._loop.create_task(self._send_out())

    async def _send_out(self) -> None:
        try:
            while self._out:
                messages, self._out, self._out_bytes = self._out, [], 0
                for text in wire.frames(messages):
                    await self._send({"type": "websocket.send", "text": text})
            if self._close_code is not None:
                await self._send({"type": "websocket.close", "code": self._close_code})
        except Exception:
            # Whoever waits for them meets the end of the socket, and asks again over another.
            logger.exception("Answers could not be sent.", extra={"event": "send_failed"})
        finally:
            self._sender = None

    # --- the end ---------------------------------------------------------------------------------

    def _leave(self) -> None:
        """Be nobody to the broker any more."""
        self._leave_waiting()
        self._broker.unwatch(self)
        if self._seat is not None:
            self._broker.roster.leave(self._seat)
            self._seat = None

    def _leave_waiting(self) -> None:
        """Answer what has its answer just now; tell the broker that nobody waits for the rest."""
        waiting, self._waiting, self._waiting_bytes = self._waiting, {}, 0
        for future, incoming in waiting.items():
            if future.done():
                self._answer(incoming, future)
            else:
                future.cancel()

    def _gone(self) -> None:
        self._shut = True
        self._sockets.discard(self)
        self._leave()
        self._out.clear()
