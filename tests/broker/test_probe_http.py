"""What a standby concludes from an address: real sockets on 127.0.0.1."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NoReturn

import pytest

from objq.broker import probe_http as module
from objq.broker.addresses import is_bound_here, leads_here
from objq.broker.election import ProbeResult, Reach
from objq.broker.probe_http import probe_http


@asynccontextmanager
async def server(answer: bytes | None) -> AsyncIterator[str]:
    """Serve one answer, or none at all; yield the URL to ask."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"GET /readyz ")
        if answer is None:
            await reader.read()  # until the other side gives up
        else:
            writer.write(answer)
        writer.close()

    running = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with running:
        yield f"ws://127.0.0.1:{running.sockets[0].getsockname()[1]}/objq/v1/"


def reply(body: bytes, status: str = "200 OK") -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status.encode(), len(body), body)


async def test_an_answer_tells_id_leadership_and_store_also_with_status_503() -> None:
    body = b'{"broker": "b1", "leading": true, "store_ok": false, "state": "leading"}'
    async with server(reply(body, "503 Service Unavailable")) as url:
        assert await probe_http(url) == ProbeResult(Reach.ANSWERED, "b1", leading=True)


@pytest.mark.parametrize("answer", [reply(b"<html>"), reply(b"[1]"), b"SSH-2.0-x\r\n", b""])
async def test_something_else_that_listens_there_is_neither_a_leader_nor_refused(
    answer: bytes,
) -> None:
    async with server(answer) as url:
        assert (await probe_http(url)).reach is Reach.UNREACHABLE


async def test_a_port_where_nobody_listens_refuses() -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    assert (await probe_http(f"ws://127.0.0.1:{port}/")).reach is Reach.REFUSED


@pytest.fixture
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT_S", 0.1)


@pytest.mark.usefixtures("in_a_hurry")
async def test_a_port_that_never_answers_is_unreachable() -> None:
    async with server(None) as url:
        assert (await probe_http(url)).reach is Reach.UNREACHABLE


@pytest.mark.usefixtures("in_a_hurry")
@pytest.mark.parametrize("begin", [b"", b"HTTP/1.1 200 OK\r\n", reply(b" " * 60_000)[:-59_000]])
async def test_a_peer_that_drips_is_unreachable_and_holds_up_nobody(begin: bytes) -> None:
    """Each byte comes before the socket's own timeout is over, for as long as anybody reads."""
    gone = asyncio.Event()

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(begin)
        reading = asyncio.ensure_future(reader.read(-1))  # returns when the other side gives up
        while not reading.done():
            writer.write(b" ")
            await asyncio.wait({reading}, timeout=0.01)
        reading.exception()
        writer.close()
        gone.set()

    async with await asyncio.start_server(drip, "127.0.0.1", 0) as running:
        url = f"ws://127.0.0.1:{running.sockets[0].getsockname()[1]}/"
        async with asyncio.timeout(30):
            assert (await probe_http(url)).reach is Reach.UNREACHABLE
            await gone.wait()


@pytest.mark.usefixtures("in_a_hurry")
async def test_a_name_that_nobody_looks_up_in_time_is_unreachable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_up = threading.Event()
    threads: list[threading.Thread] = []

    def look_up(*args: object, **kwargs: object) -> NoReturn:
        threads.append(threading.current_thread())
        looked_up.wait(30)
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    try:
        async with asyncio.timeout(20):
            assert (await probe_http("ws://slow.example:1/")).reach is Reach.UNREACHABLE
    finally:
        looked_up.set()
    assert [thread.daemon for thread in threads] == [True]


@pytest.mark.parametrize(
    "url", ["", "nonsense", "ws://:x/", "ftp://127.0.0.1/", "ws://[/", "wss://", "ws://ab..c/"]
)
async def test_what_is_no_url_is_unreachable(url: str) -> None:
    assert (await probe_http(url)).reach is Reach.UNREACHABLE


async def test_an_answer_that_is_nested_without_end_is_unreachable() -> None:
    async with server(reply(b'{"a":' + b"[" * 60_000)) as url:
        assert (await probe_http(url)).reach is Reach.UNREACHABLE


@pytest.mark.parametrize(
    ("second", "expected"),
    [(TimeoutError, Reach.UNREACHABLE), (ConnectionRefusedError, Reach.REFUSED)],
)
async def test_a_host_of_which_one_address_does_not_answer_is_not_refused(
    monkeypatch: pytest.MonkeyPatch, second: type[OSError], expected: Reach
) -> None:
    outcomes: dict[str, type[OSError]] = {"10.0.0.1": ConnectionRefusedError, "10.0.0.2": second}

    def look_up(host: str, port: int, **kwargs: object) -> list[object]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in outcomes]

    def connect(address: tuple[str, int], timeout_s: float) -> NoReturn:
        raise outcomes[address[0]]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(socket, "create_connection", connect)
    assert (await probe_http("ws://two.example:1/")).reach is expected


@pytest.mark.parametrize(
    ("url", "bound", "expected"),
    [
        ("ws://10.0.0.1:3000/objq/v1/", ("10.0.0.1", 3000), True),
        ("ws://10.0.0.1:3000/objq/v1/", ("10.0.0.1", 3001), False),
        ("ws://10.0.0.2:3000/objq/v1/", ("10.0.0.1", 3000), False),
        ("ws://127.0.0.1:3000/", ("0.0.0.0", 3000), True),
        ("ws://192.0.2.7:3000/", ("0.0.0.0", 3000), False),
        ("ws://localhost:3000/", ("127.0.0.1", 3000), True),
        ("ws://broker.example:3000/", ("0.0.0.0", 3000), False),
        ("ws://queue.localhost:3000/", ("0.0.0.0", 3000), False),
        ("wss://10.0.0.1/", ("10.0.0.1", 443), False),
        ("ws://[/", ("10.0.0.1", 3000), False),
        ("ws://10.0.0.1:3000/", None, False),
    ],
)
def test_an_address_is_bound_here_only_if_nobody_else_can_listen_there(
    url: str, bound: tuple[str, int] | None, expected: bool
) -> None:
    assert is_bound_here(url, bound) is expected


@pytest.mark.parametrize(
    ("url", "bound"),
    [
        ("ws://10.0.0.1:3000/objq/v1/", ("10.0.0.1", 3000)),
        ("ws://10.0.0.1:3000/objq/v1/", ("0.0.0.0", 3000)),
        ("ws://[fd00::1]:3000/objq/v1/", ("::", 3000)),
    ],
)
def test_where_every_address_can_be_bound_it_proves_nothing(
    url: str, bound: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Linux has it with `ip_nonlocal_bind`, for floating addresses."""
    monkeypatch.setattr(socket.socket, "bind", lambda probe, address: None)
    assert not is_bound_here(url, bound)
    assert is_bound_here("ws://127.0.0.1:3000/", ("127.0.0.1", 3000))
    assert is_bound_here("ws://127.0.0.1:3000/", ("0.0.0.0", 3000))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("ws://localhost:3000/", True),
        ("ws://queue.localhost:3000/", True),
        ("ws://127.0.0.9:3000/", True),
        ("ws://[::1]:3000/", True),
        ("ws://localhost.example:3000/", False),
        ("ws://10.0.0.1:3000/", False),
        ("ws://[/", False),
    ],
)
def test_an_address_that_leads_everybody_to_his_own_machine(url: str, expected: bool) -> None:
    assert leads_here(url) is expected


async def test_a_broker_says_who_it_is_when_it_asks() -> None:
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(reply(b'{"broker": "b1"}'))
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as running:
        url = f"ws://127.0.0.1:{running.sockets[0].getsockname()[1]}/"
        await probe_http(url)
        assert await probe_http(url, b'{"id":"b2"}') == ProbeResult(Reach.ANSWERED, "b1")
    assert b"X-Objq-Standby" not in heads[0]
    assert b'\r\nX-Objq-Standby: {"id":"b2"}\r\n' in heads[1]
