"""A broker and its port: the commit loop and daphne in one process, on one event loop.

Order of the start: bind the port, so that a taken one is found before anything leads and port 0 has
become a number; build the broker, which needs the address it advertises; serve; prepare, which is
to wait for a store that cannot be asked yet; run.

Order of the end: the broker first. It takes no new work, answers or hands back what it has, and
clears its address in `queue.json`, while the port stays open: a standby that found it closed
earlier would rightly take the leader for dead. Then the port is closed, then the sockets (1001).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import signal
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, NoReturn

from objq.clock import SYSTEM_CLOCK
from objq.server.asgi import Application
from objq.server.binding import Address, bind_socket
from objq.server.reactor import load_listener, reactor_loop
from objq.server.seam import Broker, Json
from objq.server.sockets import Sockets
from objq.stopping import StopRequests, exit_at_once

logger = logging.getLogger("objq.server")

CLOSE_TIMEOUT_S: Final = 2.0
"""What peers have to take the closing of their sockets before they are dropped."""

MAX_FILES: Final = 65_536
"""Open files that are asked for; each client is one."""


MakeBroker = Callable[[Address], Broker]
"""Builds the broker for the address that was bound."""

Prepare = Callable[[], Coroutine[Any, Any, object]]
"""Waits until the broker may run, and raises if it never may. The port is served meanwhile."""


async def _at_once() -> None:
    """Prepare nothing."""


# --- the server ----------------------------------------------------------------------------------


class Server:
    """A broker that serves. `start` and `stop` may each be called twice; neither starts over.

    All servers of one process share the loop of Twisted's reactor: call from `reactor_loop()`, or
    from the loop of the first.
    """

    def __init__(self, make_broker: MakeBroker, bind: Address, prepare: Prepare = _at_once) -> None:
        self._make_broker = make_broker
        self._prepare = prepare
        self._bind = bind
        self._running: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[bool] | None = None
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
        self._preparing = asyncio.create_task(self._prepare(), name="objq preparation")
        self._running = asyncio.create_task(self._run(), name="objq broker")

    async def _run(self) -> None:
        await asyncio.wait({self._preparing})
        if not self._preparing.cancelled():
            await self._preparing  # raises what it ended with
            await self.broker.run()

    async def wait(self) -> None:
        """Return when the broker has ended; raise what it ended with."""
        assert self._running is not None
        await asyncio.shield(self._running)

    async def stop(self) -> bool:
        """Stop gracefully, in the order given above; bounded by the broker's `SHUTDOWN_GRACE`.

        Return False if that was not time enough. A thread may then still wait for the store.
        """
        if self._running is None:
            return True
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop(), name="objq stop")
        return await asyncio.shield(self._stopping)

    async def _stop(self) -> bool:
        assert self._running is not None
        self._preparing.cancel()
        await asyncio.wait({self._preparing})
        try:
            return await self.broker.stop()
        finally:
            await self._listener.close()
            self.sockets.going_away()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.sockets.wait_empty(), CLOSE_TIMEOUT_S)
            self._listener.abort()
            self._running.cancel()
            await asyncio.wait({self._running})


# --- the process ---------------------------------------------------------------------------------


def serve(
    make_broker: MakeBroker,
    bind: Address,
    announce: Callable[[str], Any] = lambda line: None,
    prepare: Prepare = _at_once,
) -> None:
    """Run a broker until SIGTERM or SIGINT; return when it has stopped gracefully.

    `announce` is told in a line whenever it begins to lead or to stand by, and when it stops. A
    second signal ends the process at once, with status 1, and so does the end of `SHUTDOWN_GRACE`.
    Raises what the broker or its preparation ended with, and ConfigurationError if the port cannot
    be had.
    """
    allow_many_sockets()
    loop = reactor_loop()
    asyncio.set_event_loop(loop)
    loop.run_until_complete(_serve(Server(make_broker, bind, prepare), announce))


def allow_many_sockets() -> None:
    """Let this process open as many files as it may: the usual 1,024 are a thousand clients."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def _serve(server: Server, announce: Callable[[str], Any]) -> None:
    loop = asyncio.get_running_loop()
    asked, requests = asyncio.Event(), StopRequests(SYSTEM_CLOCK)

    def on_signal(number: signal.Signals) -> None:
        if requests.heard():
            logger.warning("Ends at once: what was not answered has an unknown outcome.")
            _give_up()
        if not asked.is_set():
            asked.set()
            announce(f"{number.name}: stops; once more to end at once.")

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    await server.start()
    server.broker.on_state.append(partial(_announce, server.broker, announce))
    ended = asyncio.create_task(server.wait(), name="objq wait")
    stop = asyncio.ensure_future(asked.wait())
    try:
        await asyncio.wait({ended, stop}, return_when=asyncio.FIRST_COMPLETED)
        led = server.broker.readiness()["state"] == "leading"
        stopped = await server.stop()
        if ended.done():
            await ended  # raises what it ended with
        if not stopped:
            _give_up()
        announce("Handed over: another broker may lead now." if led else "Stopped.")
    finally:
        for task in (ended, stop):
            task.cancel()
        await asyncio.gather(ended, stop, return_exceptions=True)


def _give_up() -> NoReturn:
    """End the process with status 1, whatever its threads still wait for; its log is whole."""
    logging.shutdown()
    exit_at_once(1)


def _announce(broker: Broker, announce: Callable[[str], Any]) -> None:
    line = describe(broker.readiness())
    if line is not None:
        announce(line)


def describe(readiness: Json) -> str | None:
    """Return what a broker's state is in a line for people, or None if it says nothing to them."""
    if readiness["state"] == "leading":
        return (
            f"Leading at {readiness['leader']} in epoch {readiness['epoch']} "
            f"of document {readiness['document']}."
        )
    if readiness["state"] == "standby":
        leads = f"{readiness['leader']} leads" if readiness["leader"] else "no broker leads yet"
        return f"Standing by at {readiness['url']}; {leads}."
    return None
