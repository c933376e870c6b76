"""A real daphne on a real port: websockets, health, bounds and shutdown.

All servers of a process share the loop of Twisted's reactor, so these tests run on that one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
from twisted.python import log
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from objq.core import ops
from objq.errors import ConfigurationError
from objq.server import listener
from objq.server.binding import Address
from objq.server.reactor import load_listener, reactor_loop
from objq.server.serving import Server
from tests.server.fakes import FakeBroker
from tests.server.harness import HELLO, token_for

Run = Callable[[Coroutine[Any, Any, None]], None]
BEAT = {"id": 3, "op": "heartbeat", "tokens": ["t"]}


@pytest.fixture
def run() -> Run:
    def on_reactor(test: Coroutine[Any, Any, None]) -> None:
        reactor_loop().run_until_complete(asyncio.wait_for(test, 30))

    return on_reactor


@contextlib.asynccontextmanager
async def serving(broker: FakeBroker | None = None) -> AsyncIterator[Server]:
    server = Server(lambda address: broker or FakeBroker(), ("127.0.0.1", 0))
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def dial(server: Server, path: str = "/objq/v1/", **kwargs: Any) -> connect:
    host, port = server.address
    headers = {"Authorization": f"Bearer {token_for('manage')}"}
    kwargs = {"additional_headers": headers, "compression": None, **kwargs}
    return connect(f"ws://{host}:{port}{path}", proxy=None, ping_interval=None, **kwargs)


async def ask(client: ClientConnection, message: Any) -> Any:
    await client.send(json.dumps(message))
    return json.loads(await client.recv())


async def http(server: Server, path: str, method: str = "GET") -> tuple[int, Any]:
    reader, writer = await asyncio.open_connection(*server.address)
    writer.write(f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    return int(head.split()[1]), json.loads(body) if body else None


def test_a_client_is_served(run: Run) -> None:
    async def test() -> None:
        async with serving() as server, dial(server) as client:
            assert (await ask(client, HELLO))["ok"]["broker"] == "broker-1"
            assert await ask(client, BEAT) == {"id": 3, "ok": {}}

    run(test())


def test_a_bad_token_is_explained_before_the_close(run: Run) -> None:
    async def test() -> None:
        async with serving() as server, dial(server, additional_headers={}) as client:
            assert json.loads(await client.recv())["error"]["code"] == "unauthorized"
            with pytest.raises(ConnectionClosed) as closed:
                await client.recv()
            assert closed.value.rcvd is not None and closed.value.rcvd.code == 4401

    run(test())


def test_another_path_has_no_websocket(run: Run) -> None:
    async def test() -> None:
        async with serving() as server:
            with pytest.raises(InvalidStatus) as refused:
                await dial(server, "/elsewhere")
            assert refused.value.response.status_code == 403

    run(test())


def test_a_handshake_that_is_refused_leaves_nothing_in_the_log(run: Run) -> None:
    logged: list[str] = []

    def note(event: Any) -> None:
        if event.get("isError"):
            logged.append(str(log.textFromEventDict(event)))

    async def test() -> None:
        async with serving() as server:
            for version in (b"0", b"99"):
                reader, writer = await asyncio.open_connection(*server.address)
                writer.write(
                    b"GET /objq/v1/ HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n"
                    b"Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                    b"Sec-WebSocket-Version: " + version + b"\r\n\r\n"
                )
                assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
                writer.close()
                await writer.wait_closed()
            await asyncio.sleep(0.01)

    log.addObserver(note)
    try:
        run(test())
    finally:
        log.removeObserver(note)
    assert logged == []


def test_a_frame_over_the_limit_leaves_the_socket_open(run: Run) -> None:
    async def test() -> None:
        async with serving() as server, dial(server) as client:
            await ask(client, HELLO)
            await client.send(" " * 2_000_000)
            assert json.loads(await client.recv())["error"]["code"] == "too_large"
            assert "ok" in await ask(client, BEAT)

    run(test())


def test_a_frame_far_over_the_limit_closes_the_socket_with_its_code(run: Run) -> None:
    async def test() -> None:
        async with serving() as server, dial(server) as client:
            await ask(client, HELLO)
            with contextlib.suppress(ConnectionClosed):
                await client.send(" " * (listener.MAX_MESSAGE_BYTES + 1))
            with pytest.raises(ConnectionClosed) as closed:
                await client.recv()
            assert closed.value.rcvd is not None and closed.value.rcvd.code == 1009
            async with dial(server) as another:
                assert "ok" in await ask(another, HELLO)

    run(test())


@pytest.mark.parametrize("limit_bytes", [100_000, 20_000_000])
def test_a_client_that_never_reads_is_dropped_and_others_are_not(
    run: Run, monkeypatch: pytest.MonkeyPatch, limit_bytes: int
) -> None:
    monkeypatch.setattr(listener, "MAX_UNSENT_BYTES", limit_bytes)

    class Talkative(FakeBroker):
        def submit(self, op: Any) -> asyncio.Future[Any]:
            future = super().submit(op)
            if isinstance(op, ops.Get):
                future.set_result(ops.Outcomes(items=(ops.ItemOutcome(id="x" * 900_000),)))
            return future

    async def test() -> None:
        async with serving(Talkative()) as server, dial(server) as healthy:
            await ask(healthy, HELLO)
            deaf = await dial(server, max_queue=1, max_size=None)
            await ask(deaf, HELLO)
            assert len(server.sockets) == 2
            get = json.dumps({"id": 1, "op": "get", "ids": ["x"]})
            with contextlib.suppress(ConnectionClosed):
                while len(server.sockets) == 2:
                    await deaf.send(get)
                    await asyncio.sleep(0)
            deaf.transport.abort()
            await deaf.wait_closed()
            assert "ok" in await ask(healthy, BEAT)
            # One that reads may ask for as much.
            for _ in range(30):
                assert "ok" in json.loads(await roundtrip(healthy, get))

    async def roundtrip(client: ClientConnection, text: str) -> str:
        await client.send(text)
        return str(await client.recv())

    run(test())


def test_a_socket_that_is_gone_takes_its_claim_along(run: Run) -> None:
    async def test() -> None:
        broker = FakeBroker()
        async with serving(broker) as server:
            client = await dial(server)
            await ask(client, HELLO)
            await client.send('{"id":1,"op":"claim","claim":"c","wait":5}')
            await broker.wait_submitted(1)
            client.transport.abort()
            await server.sockets.wait_empty()
            assert broker.futures[0].cancelled()
            await client.wait_closed()

    run(test())


def test_a_reset_closes_every_socket(run: Run) -> None:
    async def test() -> None:
        broker = FakeBroker()
        async with serving(broker) as server, dial(server) as first, dial(server) as second:
            await ask(first, HELLO)
            await ask(second, HELLO)
            for reset in broker.on_reset:
                reset()
            for client in (first, second):
                with pytest.raises(ConnectionClosed) as closed:
                    await client.recv()
                assert closed.value.rcvd is not None and closed.value.rcvd.code == 1012

    run(test())


def test_health(run: Run) -> None:
    async def test() -> None:
        broker = FakeBroker()
        async with serving(broker) as server:
            status, health = await http(server, "/healthz")
            assert (status, health["alive"], health["broker"]) == (200, True, "broker-1")
            assert health["version"]
            status, ready = await http(server, "/readyz")
            assert (status, ready["broker"], ready["state"]) == (200, "broker-1", "leading")
            broker.leading = False
            assert (await http(server, "/readyz"))[0] == 200
            broker.store_ok = False
            assert (await http(server, "/readyz"))[0] == 503
            assert (await http(server, "/healthz"))[0] == 200
            assert (await http(server, "/healthz", "HEAD")) == (200, None)
            assert (await http(server, "/healthz", "POST"))[0] == 405
            status, nothing = await http(server, "/")
            assert status == 404 and "/readyz" in nothing["error"]

    run(test())


def test_a_standby_that_asks_is_remembered(run: Run) -> None:
    async def test() -> None:
        broker = FakeBroker()
        async with serving(broker) as server:
            for path in ("/healthz", "/readyz"):
                for said in ('{"id":"b2"}', '{"id":"b3","host":"' + "x" * 5_000 + '"}'):
                    reader, writer = await asyncio.open_connection(*server.address)
                    request = f"GET {path} HTTP/1.1\r\nHost: x\r\nX-Objq-Standby: {said}\r\n"
                    writer.write(f"{request}Connection: close\r\n\r\n".encode())
                    await reader.read()
                    writer.close()
                asked = [standby.id for standby in broker.company.standbys("b1")]
                assert asked == ([] if path == "/healthz" else ["b2"])

    run(test())


@pytest.mark.parametrize(
    "length", ["Content-Length: 1000000000000", "Content-Length: 1", "Transfer-Encoding: chunked"]
)
@pytest.mark.parametrize("target", ["GET /readyz", "POST /readyz", "GET /objq/v1/"])
def test_a_request_with_a_body_is_refused_before_the_body_is_read(
    run: Run, target: str, length: str
) -> None:
    async def test() -> None:
        async with serving() as server:
            reader, writer = await asyncio.open_connection(*server.address)
            upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\nExpect: 100-continue"
            writer.write(f"{target} HTTP/1.1\r\nHost: x\r\n{upgrade}\r\n{length}\r\n\r\n".encode())
            head = await reader.read()
            assert head.startswith(b"HTTP/1.1 413 ")
            writer.close()
            await writer.wait_closed()

    run(test())


def test_what_follows_a_refused_head_is_kept_nowhere(run: Run) -> None:
    async def test() -> None:
        async with serving() as server:
            _, writer = await asyncio.open_connection(*server.address)
            writer.write(b"POST / HTTP/1.1\r\nContent-Length: 100000000\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                for _ in range(1000):
                    writer.write(b"x" * 100_000)
                    await writer.drain()
                pytest.fail("all of the body was read")
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    run(test())


@pytest.mark.parametrize("drip", ["", "GET /objq/v1/ HTTP/1.1\r\n", "GET /readyz HTTP/1.1\r\n"])
def test_a_head_that_comes_in_drips_has_one_deadline_from_the_connection_on(
    run: Run, monkeypatch: pytest.MonkeyPatch, drip: str
) -> None:
    monkeypatch.setattr(listener, "REQUEST_TIMEOUT_S", 0.3)

    async def test() -> None:
        async with serving() as server:
            reader, writer = await asyncio.open_connection(*server.address)
            writer.write(drip.encode())
            ended = asyncio.ensure_future(reader.read())
            while not ended.done():  # without a deadline it would go on for ever
                if drip:
                    writer.write(b"X-A: a\r\n")
                await asyncio.wait({ended}, timeout=0.05)
            with contextlib.suppress(ConnectionError):
                assert await ended == b""
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    run(test())


def test_the_deadline_of_the_head_is_none_of_a_websocket(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "REQUEST_TIMEOUT_S", 0.2)

    async def test() -> None:
        async with serving() as server, dial(server) as client:
            await ask(client, HELLO)
            reader, writer = await asyncio.open_connection(*server.address)
            with contextlib.suppress(ConnectionError):
                await reader.read()  # another connection, made later, has met its deadline
            writer.close()
            assert await ask(client, BEAT) == {"id": 3, "ok": {}}

    run(test())


def test_a_connection_serves_one_request(run: Run) -> None:
    async def test() -> None:
        async with serving() as server:
            reader, writer = await asyncio.open_connection(*server.address)
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * 2)
            answer = await reader.read()
            assert answer.count(b"HTTP/1.1 200") == 1
            assert b"connection: close" in answer.lower()
            writer.close()
            await writer.wait_closed()

    run(test())


def test_stop_lets_the_broker_finish_first_and_may_be_called_twice(run: Run) -> None:
    async def test() -> None:
        broker = FakeBroker()
        server = Server(lambda address: broker, ("127.0.0.1", 0))
        await server.stop()  # before the start: nothing to do
        await server.start()
        await server.start()
        client = await dial(server)
        await ask(client, HELLO)
        await client.send('{"id":1,"op":"claim","claim":"c","wait":5}')
        await broker.wait_submitted(1)
        await asyncio.gather(server.stop(), server.stop())
        assert json.loads(await client.recv())["error"]["code"] == "not_broker"
        with pytest.raises(ConnectionClosed) as closed:
            await client.recv()
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1001
        assert broker.log == ["run", "stop"]
        with pytest.raises(OSError, match=r"Connect|refused"):
            await asyncio.open_connection(*server.address)
        await server.stop()

    run(test())


def test_the_port_answers_while_the_broker_stops(run: Run) -> None:
    async def test() -> None:
        seen: list[int] = []

        class Slow(FakeBroker):
            async def stop(self) -> bool:
                seen.append((await http(server, "/healthz"))[0])
                return await super().stop()

        server = Server(lambda address: Slow(), ("127.0.0.1", 0))
        await server.start()
        await server.stop()
        assert seen == [200]

    run(test())


def test_the_port_is_served_while_the_broker_may_not_run_yet(run: Run) -> None:
    async def test() -> None:
        ready = asyncio.Event()

        async def prepare() -> None:
            await ready.wait()

        class Late(FakeBroker):
            async def run(self) -> None:
                running.set()
                await super().run()

        running = asyncio.Event()
        broker = Late()
        broker.leading = broker.store_ok = False
        server = Server(lambda address: broker, ("127.0.0.1", 0), prepare)
        await server.start()
        assert (await http(server, "/healthz"))[0] == 200
        assert (await http(server, "/readyz"))[0] == 503
        assert broker.log == []
        ready.set()
        await running.wait()
        await server.stop()
        assert broker.log == ["run", "stop"]

    run(test())


def test_a_server_that_is_stopped_before_its_broker_may_run_never_runs_it(run: Run) -> None:
    async def test() -> None:
        broker = FakeBroker()
        server = Server(lambda address: broker, ("127.0.0.1", 0), asyncio.Event().wait)
        await server.start()
        assert await server.stop()
        await server.wait()
        assert broker.log == ["stop"]

    run(test())


def test_what_the_preparation_ends_with_is_told_to_whoever_waits(run: Run) -> None:
    async def refuse() -> None:
        raise ConfigurationError("not with this store")

    async def test() -> None:
        server = Server(lambda address: FakeBroker(), ("127.0.0.1", 0), refuse)
        await server.start()
        with pytest.raises(ConfigurationError, match="not with this store"):
            await server.wait()
        await server.stop()

    run(test())


def test_a_broker_that_ends_by_itself_is_told_to_whoever_waits(run: Run) -> None:
    class Broken(FakeBroker):
        async def run(self) -> None:
            raise ValueError("broken")

    async def test() -> None:
        async with serving(Broken()) as server:
            with pytest.raises(ValueError, match="broken"):
                await server.wait()

    run(test())


def test_a_taken_port_is_found_before_a_broker_is_made(run: Run) -> None:
    def never(address: Address) -> FakeBroker:
        raise AssertionError("the port is taken")

    async def test() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = taken.getsockname()
            with pytest.raises(ConfigurationError, match=f"{address[1]}: another process listens"):
                await Server(never, address).start()

    run(test())


def test_the_broker_learns_the_port_that_was_chosen(run: Run) -> None:
    async def test() -> None:
        addresses: list[Address] = []

        def make(address: Address) -> FakeBroker:
            addresses.append(address)
            return FakeBroker()

        server = Server(make, ("127.0.0.1", 0))
        await server.start()
        await server.stop()
        assert addresses == [server.address]
        assert server.address[1] > 0

    run(test())


async def test_another_loop_than_the_reactor_s_is_refused() -> None:
    with pytest.raises(RuntimeError, match="reactor_loop"):
        load_listener(asyncio.get_running_loop())
