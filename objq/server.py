"""A broker and its port: the commit loop and daphne in one process, on one event loop.

Order of the start: bind the port, so that a taken one is found before anything leads and port 0 has
become a number; build the broker, which needs the address it advertises; serve; run.

Order of the end: the broker first. It takes no new work, answers or hands back what it has, and
clears its address in `queue.json`, while the port stays open: a standby that found it closed
earlier would rightly take the leader for dead. Then the port is closed, then the sockets (1001).

HTTP: `GET /healthz` says that the process lives, `/readyz` whether it can do its part (200 when it
leads or stands by and reaches the store, else 503); `ROUTES` is where others are added.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec

from objq.consumer import PATH, Consumer, Receive, Send, Sockets
from objq.consumer import Broker as ConsumerBroker
from objq.errors import ConfigurationError

logger = logging.getLogger("objq.server")

BACKLOG: Final = 1_024
CLOSE_TIMEOUT_S: Final = 2.0
"""What peers have to take the closing of their sockets before they are dropped."""

Address = tuple[str, int]


class Broker(ConsumerBroker, Protocol):
    """What a server needs of `objq.broker.broker.Broker`."""

    on_reset: list[Callable[[], None]]

    async def run(self) -> None: ...

    async def stop(self) -> None: ...

    def readiness(self) -> dict[str, Any]: ...


MakeBroker = Callable[[Address], Broker]
"""Builds the broker for the address that was bound."""


# --- the application -------------------------------------------------------------------------------


def healthz(broker: Broker) -> tuple[int, dict[str, Any]]:
    from objq import __version__

    return 200, {"alive": True, "broker": broker.id, "version": __version__}


def readyz(broker: Broker) -> tuple[int, dict[str, Any]]:
    readiness = broker.readiness()
    ready = readiness["state"] in ("leading", "standby") and readiness["store_ok"]
    return 200 if ready else 503, readiness


ROUTES: Final[dict[str, Callable[[Broker], tuple[int, dict[str, Any]]]]] = {
    "/healthz": healthz,
    "/readyz": readyz,
}


class Application:
    """The ASGI application of a broker."""

    def __init__(self, broker: Broker, sockets: Sockets) -> None:
        self._broker = broker
        self._sockets = sockets

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket" and scope["path"] == PATH:
            await Consumer(self._sockets)(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close"})
        elif scope["type"] == "http":
            await self._http(scope, send)

    async def _http(self, scope: dict[str, Any], send: Send) -> None:
        route = ROUTES.get(scope["path"])
        if route is None:
            status, value = 404, {"error": f"Nothing is here; there are {', '.join(ROUTES)}."}
        elif scope["method"] not in ("GET", "HEAD"):
            status, value = 405, {"error": "This is read with GET."}
        else:
            status, value = route(self._broker)
        body = msgspec.json.encode(value) + b"\n"
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"cache-control", b"no-store"),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


# --- the server ------------------------------------------------------------------------------------


class Server:
    """A broker that serves. `start` and `stop` may each be called twice; neither starts over.

    All servers of one process share the loop of Twisted's reactor: call from `reactor_loop()`, or
    from the loop of the first.
    """

    def __init__(self, make_broker: MakeBroker, bind: Address) -> None:
        self._make_broker = make_broker
        self._bind = bind
        self._running: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self.address: Address = bind
        self.broker: Broker
        self.sockets: Sockets

    async def start(self) -> None:
        """Bind, serve and run. Raises ConfigurationError if the port cannot be had."""
        if self._running is not None:
            return
        listener_class = load_listener(asyncio.get_running_loop())
        with contextlib.closing(bind_socket(self._bind)) as bound:
            self.address = bound.getsockname()[:2]
            self.broker = self._make_broker(self.address)
            self.sockets = Sockets(self.broker)
            self.broker.on_reset.append(self.sockets.reset)
            self._listener = listener_class(Application(self.broker, self.sockets))
            self._listener.listen(bound)  # which keeps a duplicate
        self._running = asyncio.create_task(self.broker.run(), name="objq broker")

    async def wait(self) -> None:
        """Return when the broker has ended; raise what it ended with."""
        assert self._running is not None
        await asyncio.shield(self._running)

    async def stop(self) -> None:
        """Stop gracefully, in the order given above; bounded by the broker's `SHUTDOWN_GRACE`."""
        if self._running is None:
            return
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop(), name="objq stop")
        await asyncio.shield(self._stopping)

    async def _stop(self) -> None:
        assert self._running is not None
        try:
            await self.broker.stop()
        finally:
            await self._listener.close()
            self.sockets.going_away()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.sockets.wait_empty(), CLOSE_TIMEOUT_S)
            self._listener.abort()
            self._running.cancel()
            await asyncio.wait({self._running})


def bind_socket(address: Address) -> socket.socket:
    """Return a listening socket. Raises ConfigurationError with what to do."""
    host, port = address
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, target = found[0][0], found[0][4]
        both = host == "::" and socket.has_dualstack_ipv6()
        bound = socket.create_server(
            target[:2],  # type: ignore[arg-type]
            family=family,
            backlog=BACKLOG,
            dualstack_ipv6=both,
        )
    except OSError as error:
        raise ConfigurationError(f"Cannot listen on {host}:{port}: {_why(error)}") from None
    bound.setblocking(False)
    return bound


def _why(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return "no such host name. Give --bind an address of this machine."
    if error.errno == errno.EADDRINUSE:
        return "another process listens there. Stop it, or choose another port with --bind."
    if error.errno == errno.EADDRNOTAVAIL:
        return "this machine does not have that address. Give --bind one that it has."
    if error.errno == errno.EACCES:
        return "this user may not use that port. Choose one of 1024 or above with --bind."
    return f"{error.strerror}."


# --- Twisted's reactor -----------------------------------------------------------------------------


def reactor_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of Twisted's reactor, installing the reactor if there is none.

    With daphne in INSTALLED_APPS, `django.setup()` has installed one, on a loop of its own.
    """
    installed = sys.modules.get("twisted.internet.reactor")
    if installed is None:
        loop = asyncio.new_event_loop()
        _install_reactor(loop)
        return loop
    loop = getattr(installed, "_asyncioEventloop", None)
    if loop is None:
        raise ConfigurationError(
            f"Twisted runs on {type(installed).__name__} in this process and the broker needs its "
            "asyncio reactor: put `daphne` first in INSTALLED_APPS."
        )
    return loop  # type: ignore[no-any-return]


def _install_reactor(loop: asyncio.AbstractEventLoop) -> None:
    from twisted.internet import asyncioreactor

    asyncioreactor.install(loop)


def load_listener(loop: asyncio.AbstractEventLoop) -> Any:
    """Return `objq.listener.Listener`, once Twisted's reactor is known to run on `loop`."""
    if "twisted.internet.reactor" not in sys.modules:
        _install_reactor(loop)
    if reactor_loop() is not loop:
        raise RuntimeError(
            "Twisted's reactor belongs to another event loop in this process: run the server on "
            "objq.server.reactor_loop()."
        )
    from objq.listener import Listener

    return Listener


# --- the process -----------------------------------------------------------------------------------


def serve(make_broker: MakeBroker, bind: Address) -> None:
    """Run a broker until SIGTERM or SIGINT; return when it has stopped gracefully.

    A second signal ends the process at once, with status 1. Raises what the broker ended with.
    """
    loop = reactor_loop()
    asyncio.set_event_loop(loop)
    loop.run_until_complete(_serve(Server(make_broker, bind)))


async def _serve(server: Server) -> None:
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()

    def on_signal() -> None:
        if asked.is_set():
            logger.warning("Ends at once: what was not answered has an unknown outcome.")
            logging.shutdown()
            os._exit(1)  # a write that hangs in a thread would hold up any other way out
        asked.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    await server.start()
    ended = asyncio.ensure_future(server.wait())
    stop = asyncio.ensure_future(asked.wait())
    try:
        await asyncio.wait({ended, stop}, return_when=asyncio.FIRST_COMPLETED)
        await server.stop()
        if not stop.done():
            await ended
    finally:
        for task in (ended, stop):
            task.cancel()
        await asyncio.gather(ended, stop, return_exceptions=True)
