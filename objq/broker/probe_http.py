"""Ask a broker's `/readyz` at its advertised address; tell a refusing port from an unreachable one.

Only a refused connection proves that no process listens there. It is looked for on every address
that the host name has: a host with one address that refuses and one that does not answer is
unreachable. No proxy is used.

One limit holds for all of it, from looking up the name to the last byte of the answer. What cannot
be given up, which is the look-up, is left behind in a thread that does not hold up the end of the
process.
"""

from __future__ import annotations

import asyncio
import http.client
import io
import socket
import ssl
import time
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from objq.broker.addresses import DEFAULT_PORTS
from objq.broker.company import STANDBY_HEADER
from objq.broker.election import ProbeResult, Reach
from objq.store.aio import DaemonThreads
from objq.store.perprocess import PerProcess

TIMEOUT_S: Final = 2.0
MAX_ANSWER_BYTES: Final = 65_536
THREADS: Final = 4
"""One that asks, and three that may still wait for names to be looked up."""

_threads: Final = PerProcess(lambda: DaemonThreads(THREADS, "objq-probe"))


class Readiness(NamedTuple):
    """How far the question got, and what `/readyz` said (empty unless answered)."""

    reach: Reach
    said: dict[str, Any]


REFUSED: Final = Readiness(Reach.REFUSED, {})
UNREACHABLE: Final = Readiness(Reach.UNREACHABLE, {})


async def probe_http(url: str, introduction: bytes = b"") -> ProbeResult:
    """Return what the broker that advertises `url` (ws://, wss://) says of itself. Never raises.

    `introduction`: who asks, if that is a broker.
    """
    reach, said = await ask_readiness(url, introduction)
    return ProbeResult.answered(said) if reach is Reach.ANSWERED else ProbeResult(reach)


async def ask_readiness(url: str, introduction: bytes = b"") -> Readiness:
    """Return the whole answer of `/readyz` at the address of `url`, within TIMEOUT_S. Never raises.

    What takes longer is unreachable.
    """
    until = time.monotonic() + TIMEOUT_S
    asking = _threads.get().submit(lambda: _ask_at(url, introduction, until))
    try:
        async with asyncio.timeout(TIMEOUT_S):
            return await asyncio.wrap_future(asking)
    except TimeoutError:
        return UNREACHABLE


def _ask_at(url: str, introduction: bytes, until: float) -> Readiness:
    """`until`: monotonic seconds."""
    try:
        parts = urlsplit(url)
        port = parts.port or DEFAULT_PORTS[parts.scheme]
        host = parts.hostname or ""
        connected = _connect(host, port, until)
    except ExceptionGroup as group:
        refused = all(isinstance(error, ConnectionRefusedError) for error in group.exceptions)
        return REFUSED if refused else UNREACHABLE
    except (KeyError, OSError, ValueError):  # ValueError: no port or host name can look like that
        return UNREACHABLE
    try:
        with _secured(connected, host, until) if parts.scheme == "wss" else connected as way:
            return Readiness(Reach.ANSWERED, _ask(way, host, port, introduction, until))
    except (OSError, ValueError, http.client.HTTPException, msgspec.MsgspecError, RecursionError):
        return UNREACHABLE


def _connect(host: str, port: int, until: float) -> socket.socket:
    """Return a connection to the first address of the host that takes one.

    Raises OSError if the host has no address, and else an ExceptionGroup with the error of each.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    errors: list[OSError] = []
    for tried, (*_, address) in enumerate(found):
        try:
            # One that is silent must leave time for the others.
            limit_s = _left_s(until) / (len(found) - tried)
            return socket.create_connection((str(address[0]), port), limit_s)
        except OSError as error:
            errors.append(error)
    raise ExceptionGroup("No address of the host takes a connection.", errors)


def _secured(connected: socket.socket, host: str, until: float) -> ssl.SSLSocket:
    with connected:  # which has nothing left to close once it was taken over
        connected.settimeout(_left_s(until))
        return ssl.create_default_context().wrap_socket(connected, server_hostname=host)


def _ask(
    way: socket.socket, host: str, port: int, introduction: bytes, until: float
) -> dict[str, Any]:
    connection = http.client.HTTPConnection(host, port)
    connection.sock = way
    headers: dict[str, str | bytes] = {"Connection": "close"}
    if introduction:
        headers[STANDBY_HEADER] = introduction
    way.settimeout(_left_s(until))
    connection.request("GET", "/readyz", headers=headers)
    answer = http.client.HTTPResponse(_Received(way, until))  # type: ignore[arg-type] # for makefile
    answer.begin()
    return msgspec.json.decode(answer.read(MAX_ANSWER_BYTES), type=dict[str, Any])


class _Received(io.RawIOBase):
    """What comes until a moment (monotonic seconds), however little at a time.

    A socket's own timeout begins anew with each byte.
    """

    def __init__(self, way: socket.socket, until: float) -> None:
        self._way = way
        self._until = until

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._way.settimeout(_left_s(self._until))
        return self._way.recv_into(buffer)


def _left_s(until: float) -> float:
    left_s = until - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s
