"""daphne on an event loop that already runs, on a port that is already bound.

daphne's own `Server.run` starts the reactor, which works once in a process and owns it. A broker
shares its loop with the commit loop, so this starts daphne's factories only: Twisted's asyncio
reactor needs no `run()` of its own to serve sockets on a loop that runs.

Import this module only through `load_listener` of `reactor`, which sees to the reactor first.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Any, Final

import daphne.server  # first: Twisted's reactor depends on the order of imports
from daphne.http_protocol import HTTPFactory
from daphne.ws_protocol import WebSocketFactory, WebSocketProtocol
from twisted.internet import reactor
from twisted.web import http

from objq.server.consumer import BEHIND

logger = logging.getLogger("objq.server")

_HTTPChannel: Any = http.HTTPChannel  # Twisted has types for half of what is used of it here

PING_INTERVAL_S: Final = 20.0
PING_TIMEOUT_S: Final = 30.0
"""A peer that does not answer a ping for so long is dropped; so is one that never reads."""

REQUEST_TIMEOUT_S: Final = 10.0
"""From the connection to the end of its request's head, and as long for the answer to be taken."""

HANDSHAKE_TIMEOUT_S: Final = 10.0

NO_BODY: Final = (
    b"HTTP/1.1 413 Content Too Large\r\nConnection: close\r\n"
    b"Content-Type: text/plain\r\n\r\nRequests have no body here.\n"
)

MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024
"""A longer message is not read: the socket is closed with 1009. One that is over the wire's own,
lower limit is answered `too_large`, and the socket goes on."""

MAX_UNSENT_BYTES: Final = 8 * 1024 * 1024
"""What may wait for a peer that does not read, beyond the message that filled its buffers."""


class Socket(WebSocketProtocol):  # type: ignore[misc]  # no types
    """A websocket that is dropped when its peer leaves too much unread.

    Nothing else bounds what Twisted keeps for a peer: writing to it always succeeds.
    """

    _unsent_bytes: int | None = None  # None: the peer reads
    server: Any = None  # None: nothing of the handshake was understood yet

    def onOpen(self) -> None:
        # The HTTP channel that the request came in on is still registered.
        self.transport.unregisterProducer()
        self.transport.registerProducer(self, True)
        super().onOpen()

    def is_behind(self) -> bool:
        """Tell whether the peer has yet to read what it was sent."""
        return self._unsent_bytes is not None

    def onClose(self, *args: Any) -> None:
        # daphne ends what it began in `onConnect`, which a refused handshake never comes to.
        if self.server is not None:
            super().onClose(*args)

    def pauseProducing(self) -> None:
        # It comes again with every write while the peer does not read.
        if self._unsent_bytes is None:
            self._unsent_bytes = 0

    def resumeProducing(self) -> None:
        self._unsent_bytes = None

    def stopProducing(self) -> None:
        pass

    def sendMessage(self, payload: bytes, *args: Any, **kwargs: Any) -> None:
        if self.state != self.STATE_OPEN:  # the peer has begun to close
            return
        if self._unsent_bytes is not None:
            self._unsent_bytes += len(payload)
            if self._unsent_bytes > MAX_UNSENT_BYTES:
                logger.warning(
                    "Dropped %s, which does not read: more than %s bytes wait for it.",
                    self.peer,
                    f"{MAX_UNSENT_BYTES:,}",
                    extra={"event": "peer_does_not_read"},
                )
                self.dropConnection(abort=True)
                return
        super().sendMessage(payload, *args, **kwargs)

    def serverClose(self, code: int | None = None) -> None:
        # autobahn's `sendClose` leaves the codes that say why a server closes to servers that are
        # not made with it.
        if self.state == self.STATE_OPEN:
            self.sendCloseFrame(code=1000 if code is None else code, isReply=False)


class SocketFactory(WebSocketFactory):  # type: ignore[misc]  # no types
    protocol = Socket


class Channel(_HTTPChannel):  # type: ignore[misc]  # see there
    """A connection that makes one request, without a body, or becomes a websocket.

    Whoever has no token yet has little to spend here: nothing that it sends is stored, and what
    comes in drips wins it no time.
    """

    def resetTimeout(self) -> None:
        """Let the time run on, whatever comes in."""

    def timeoutConnection(self) -> None:
        self.transport.abortConnection()

    def allHeadersReceived(self) -> None:
        if self.length != 0:  # None: it comes in chunks
            self.transport.write(NO_BODY)
            self.loseConnection()
            return
        super().allHeadersReceived()

    def rawDataReceived(self, data: bytes) -> None:
        if self._handlingRequest:
            super().rawDataReceived(data)
        # Otherwise it is of a body that was refused.

    def checkPersistence(self, request: Any, version: bytes) -> bool:
        request.responseHeaders.setRawHeaders(b"connection", [b"close"])
        return False

    def requestDone(self, request: Any) -> None:
        self.setTimeout(REQUEST_TIMEOUT_S)
        super().requestDone(request)


class ChannelFactory(HTTPFactory):  # type: ignore[misc]  # no types
    protocol = Channel


class Listener(daphne.server.Server):  # type: ignore[misc]  # no types
    """Serve an ASGI application on a listening socket, until closed."""

    def __init__(self, application: Any) -> None:
        super().__init__(
            application,
            endpoints=["given by listen()"],
            signal_handlers=False,
            websocket_timeout=-1,  # a worker's socket may live for months
            ping_interval=PING_INTERVAL_S,
            ping_timeout=PING_TIMEOUT_S,
            server_name="objq",
        )
        self.connections: dict[Any, dict[str, Any]] = {}
        self._port: Any = None
        self._closed = False

    def listen(self, bound: socket.socket) -> None:
        """Accept connections on `bound`, which listens already and stays the caller's to close."""
        self.http_factory = ChannelFactory(self)
        self.http_factory.timeOut = REQUEST_TIMEOUT_S
        self.ws_factory = SocketFactory(self, server=self.server_name)
        self.ws_factory.setProtocolOptions(
            autoPingTimeout=self.ping_timeout,
            allowNullOrigin=True,
            openHandshakeTimeout=HANDSHAKE_TIMEOUT_S,
            maxMessagePayloadSize=MAX_MESSAGE_BYTES,
            maxFramePayloadSize=MAX_MESSAGE_BYTES,
            failByDrop=False,
        )
        self._port = reactor.adoptStreamPort(bound.fileno(), bound.family, self.http_factory)
        self.application_checker()
        self.timeout_checker()

    def create_application(self, protocol: Any, scope: dict[str, Any]) -> Any:
        if isinstance(protocol, Socket):
            scope.setdefault("extensions", {})[BEHIND] = protocol.is_behind
        return super().create_application(protocol, scope)

    async def close(self) -> None:
        """Accept no more connections; those that are open go on."""
        port, self._port = self._port, None
        if port is not None:
            await port.stopListening().asFuture(asyncio.get_running_loop())

    def abort(self) -> None:
        """Drop every connection that is still open, and end their applications."""
        self._closed = True
        for protocol, details in list(self.connections.items()):
            if isinstance(protocol, Socket):
                protocol.dropConnection(abort=True)
            application = details.get("application_instance")
            if application is not None:
                application.cancel()

    # daphne starts both of these again and again for as long as the process lives.

    def application_checker(self) -> None:
        if not self._closed:
            super().application_checker()

    def timeout_checker(self) -> None:
        if not self._closed:
            super().timeout_checker()
