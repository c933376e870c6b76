"""A simulated network: the client's `connect` on one side, the real consumer on the other.

Frames go in order. What cannot get through while a path is blocked waits, as TCP has it, and may
arrive minutes later; a connection that is cut loses what is under way. Peers that are gone without
a word are noticed by keepalive: by clients within two of its periods, by servers later.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from objq.broker.election import ProbeResult, Reach
from objq.client.seam import ConnectionEnded
from objq.server.consumer import Consumer
from objq.server.sockets import Sockets
from tests.sim.loop import Timeline
from tests.sim.process import Process

LATENCY_S: Final = 0.002
SERVER_PATIENCE: Final = 5
"""Keepalive periods after which a server gives a silent client up; a client takes two."""

PROBE_TIMEOUT_S: Final = 2.0


class Host:
    """What listens at an address: the sockets of one broker process, and what `/readyz` says."""

    def __init__(
        self, process: Process, sockets: Sockets, readiness: Callable[[], dict[str, Any]]
    ) -> None:
        self.process = process
        self.sockets = sockets
        self.readiness = readiness
        self.is_open = True


class Network:
    """`blocked` are pairs of places (from, to) between which nothing gets through."""

    def __init__(self, timeline: Timeline, rng: random.Random, keepalive_s: float) -> None:
        self.timeline = timeline
        self.rng = rng
        self.keepalive_s = keepalive_s
        self.slow = 0.0
        """The share of frames that take long, up to a keepalive period."""
        self.hosts: dict[str, Host] = {}
        self.connections: dict[Connection, None] = {}
        self._blocked: dict[tuple[str, str], int] = {}

    # --- faults -----------------------------------------------------------------------------------

    def block(self, source: str, target: str) -> None:
        self._blocked[source, target] = self._blocked.get((source, target), 0) + 1

    def unblock(self, source: str, target: str) -> None:
        self._blocked[source, target] = max(0, self._blocked.get((source, target), 0) - 1)
        for connection in list(self.connections):
            connection.flush()

    def is_blocked(self, source: str, target: str) -> bool:
        return self._blocked.get((source, target), 0) > 0

    def blocked_pairs(self) -> list[tuple[str, str]]:
        return list(self._blocked)

    def cut(self, connection: Connection) -> None:
        """End a connection for both, with what is under way lost."""
        connection.lose()
        connection.end_client("cut")
        connection.end_server()

    def died(self, process: Process) -> None:
        """The kernel of a dead process tells its peers, where it can."""
        for url, host in list(self.hosts.items()):
            if host.process is process:
                del self.hosts[url]
        for connection in list(self.connections):
            if connection.client is process:
                self._tell_end(process, connection.server, connection.end_server)
            elif connection.server is process:
                ended = partial(connection.end_client, "reset")
                self._tell_end(process, connection.client, ended)

    def _tell_end(self, source: Process, target: Process, end: Callable[[], None]) -> None:
        if not self.is_blocked(source.place, target.place):
            self.timeline.call_later(LATENCY_S, end)

    # --- seams ------------------------------------------------------------------------------------

    def connector(self, process: Process) -> Connector:
        return Connector(self, process)

    async def probe(self, process: Process, url: str) -> ProbeResult:
        """Ask `/readyz` on behalf of a broker process."""
        asked: asyncio.Future[ProbeResult] = process.loop.create_future()
        place = _place_of(url)
        reach = not self.is_blocked(process.place, place)
        back = not self.is_blocked(place, process.place)
        delay_s = self.delay_s()
        if reach and back:
            self.timeline.call_later(delay_s, self._ask, process, url, asked)
        timeout = ProbeResult(Reach.UNREACHABLE)
        self.timeline.call_later(PROBE_TIMEOUT_S, _settle, asked, timeout)
        return await asked

    def _ask(self, process: Process, url: str, asked: asyncio.Future[ProbeResult]) -> None:
        host = self.hosts.get(url)
        if host is None:
            answer = ProbeResult(Reach.REFUSED)
        elif host.process.is_frozen:
            return
        else:
            answer = ProbeResult.answered(host.readiness())
        self.timeline.call_later(self.delay_s(), _settle, asked, answer)

    def delay_s(self) -> float:
        seconds = LATENCY_S * (0.5 + self.rng.random())
        if self.slow and self.rng.random() < self.slow:
            seconds += self.keepalive_s * self.rng.random()
        return seconds


class Connector:
    """`objq.client.seam.Connect` of one process. `is_cut`: it reaches nobody, ever."""

    def __init__(self, network: Network, process: Process) -> None:
        self._network = network
        self._process = process
        self.is_cut = False

    async def __call__(self, url: str, headers: Mapping[str, str]) -> Connection:
        network, process = self._network, self._process
        opened: asyncio.Future[None] = process.loop.create_future()
        place = _place_of(url)
        blocked = network.is_blocked(process.place, place) or network.is_blocked(
            place, process.place
        )
        if self.is_cut or blocked:
            await opened  # until the caller has had enough
        await asyncio.sleep(network.delay_s())
        host = network.hosts.get(url)
        if host is None or not host.is_open:
            raise ConnectionEnded(f"{url}: connection refused")
        connection = Connection(network, process, host, opened)
        connection.start(headers)
        try:
            await opened
        except BaseException:
            await connection.close()
            raise
        return connection


class _Pipe:
    """One direction of a connection. `deliver` gets frames, and None at the end."""

    def __init__(
        self, network: Network, source: Process, target: Process, deliver: Callable[[Any], None]
    ) -> None:
        self.network = network
        self.source = source
        self.target = target
        self.deliver = deliver
        self.under_way: deque[tuple[float, Any]] = deque()
        self.is_lost = False
        self._last = 0.0

    def send(self, frame: Any) -> None:
        if self.is_lost:
            return
        network = self.network
        self._last = max(self._last, network.timeline.now + network.delay_s())
        self.under_way.append((self._last, frame))
        network.timeline.call_at(self._last, self.flush)

    def flush(self) -> None:
        if self.network.is_blocked(self.source.place, self.target.place):
            return
        while self.under_way and self.under_way[0][0] <= self.network.timeline.now:
            self.deliver(self.under_way.popleft()[1])

    def lose(self) -> None:
        self.is_lost = True
        self.under_way.clear()

    @property
    def is_stuck(self) -> bool:
        return self.is_lost or self.network.is_blocked(self.source.place, self.target.place)


class Connection:
    """One websocket: the client's `Transport`, and the ASGI ends of the consumer that serves it."""

    def __init__(
        self, network: Network, client: Process, host: Host, opened: asyncio.Future[None]
    ) -> None:
        self.network = network
        self.client = client
        self.server = host.process
        self._host = host
        self._opened = opened
        self._up = _Pipe(network, client, host.process, self._at_server)
        self._down = _Pipe(network, host.process, client, self._at_client)
        self._client_inbox: deque[str] = deque()
        self._client_end: str | None = None
        self._client_waits: asyncio.Future[None] | None = None
        self._server_inbox: deque[dict[str, Any]] = deque([{"type": "websocket.connect"}])
        self._server_waits: asyncio.Future[None] | None = None
        self._server_ended = False
        self._silence = 0

    def start(self, headers: Mapping[str, str]) -> None:
        self.network.connections[self] = None
        scope = {"headers": [(k.lower().encode(), v.encode()) for k, v in headers.items()]}
        self.server.loop.call_soon(self._serve, scope)
        self.network.timeline.call_later(self.network.keepalive_s, self._keepalive)

    def _serve(self, scope: dict[str, Any]) -> None:
        consumer = Consumer(self._host.sockets)
        self.server.start(consumer(scope, self._receive, self._send), "consumer")

    # --- the client's end -------------------------------------------------------------------------

    async def send(self, text: str) -> None:
        if self._client_end is not None:
            raise ConnectionEnded(self._client_end)
        self._up.send({"type": "websocket.receive", "text": text})

    async def recv(self) -> str:
        while not self._client_inbox:
            if self._client_end is not None:
                raise ConnectionEnded(self._client_end)
            self._client_waits = self.client.loop.create_future()
            await self._client_waits
        return self._client_inbox.popleft()

    async def close(self) -> None:
        if self._client_end is None:
            self.end_client("closed")
            self._up.send(None)

    def end_client(self, why: str) -> None:
        if self._client_end is None:
            self._client_end = why
            _wake(self._client_waits)
            if not self._opened.done():
                self._opened.set_exception(ConnectionEnded(why))

    def _at_client(self, frame: str | None) -> None:
        if not self.client.is_alive:
            return
        if frame is None:
            self.end_client("closed by the broker")
        elif frame == "":
            if not self._opened.done():
                self._opened.set_result(None)
        elif self._client_end is None:
            self._client_inbox.append(frame)
            _wake(self._client_waits)

    # --- the server's end -------------------------------------------------------------------------

    async def _receive(self) -> dict[str, Any]:
        while not self._server_inbox:
            self._server_waits = self.server.loop.create_future()
            await self._server_waits
        return self._server_inbox.popleft()

    async def _send(self, message: dict[str, Any]) -> None:
        kind = message["type"]
        if kind == "websocket.send":
            self._down.send(message["text"])
        elif kind == "websocket.accept":
            self._down.send("")
        elif kind == "websocket.close":
            self._down.send(None)
            self.end_server()

    def end_server(self) -> None:
        if not self._server_ended:
            self._server_ended = True
            self._server_inbox.append({"type": "websocket.disconnect"})
            _wake(self._server_waits)
            self.network.connections.pop(self, None)

    def _at_server(self, message: dict[str, Any] | None) -> None:
        if message is None:
            self.end_server()
        elif not self._server_ended:
            self._server_inbox.append(message)
            _wake(self._server_waits)

    # --- what becomes of it -----------------------------------------------------------------------

    def lose(self) -> None:
        """Lose what is under way and all that follows, without a word to anybody."""
        self._up.lose()
        self._down.lose()

    @property
    def is_lost(self) -> bool:
        return self._up.is_lost

    def flush(self) -> None:
        self._up.flush()
        self._down.flush()

    def _keepalive(self) -> None:
        if self not in self.network.connections:
            self.end_client("no answer to pings")  # unless it has heard of the end before
            return
        stuck = self._up.is_stuck or self._down.is_stuck
        ends = (self.server, self.client)
        if stuck or any(end.is_frozen or not end.is_alive for end in ends):
            self._silence += 1
        else:
            self._silence = 0
        if self._silence >= 2 and not self.client.is_frozen:
            self.end_client("no answer to pings")
        if self._silence >= SERVER_PATIENCE and not self.server.is_frozen:
            self.end_server()
        self.network.timeline.call_later(self.network.keepalive_s, self._keepalive)


def _wake(waits: asyncio.Future[None] | None) -> None:
    if waits is not None and not waits.done():
        waits.set_result(None)


def _settle(asked: asyncio.Future[ProbeResult], answer: ProbeResult) -> None:
    if not asked.done():
        asked.set_result(answer)


def _place_of(url: str) -> str:
    """Return the host in `ws://HOST:PORT/…`, which is the name of the place."""
    return url.split("/")[2].rpartition(":")[0]
