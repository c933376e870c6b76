"""What a standby concludes from an address: real sockets on 127.0.0.1."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from objq.broker import probe_http as module
from objq.broker.addresses import is_bound_here
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


async def test_a_port_that_never_answers_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT_S", 0.1)
    async with server(None) as url:
        assert (await probe_http(url)).reach is Reach.UNREACHABLE


@pytest.mark.parametrize("url", ["", "nonsense", "ws://:x/", "ftp://127.0.0.1/", "ws://[/"])
async def test_what_is_no_url_is_unreachable(url: str) -> None:
    assert (await probe_http(url)).reach is Reach.UNREACHABLE


async def test_a_host_of_which_one_address_does_not_answer_is_not_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def connect(*args: object, **kwargs: object) -> Callable[[], None]:
        raise ExceptionGroup("", [ConnectionRefusedError(), TimeoutError()])

    monkeypatch.setattr(socket, "create_connection", connect)
    assert (await probe_http("ws://two.example:1/")).reach is Reach.UNREACHABLE


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
        ("wss://10.0.0.1/", ("10.0.0.1", 443), False),
        ("ws://[/", ("10.0.0.1", 3000), False),
        ("ws://10.0.0.1:3000/", None, False),
    ],
)
def test_an_address_is_bound_here_only_if_nobody_else_can_listen_there(
    url: str, bound: tuple[str, int] | None, expected: bool
) -> None:
    assert is_bound_here(url, bound) is expected


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
