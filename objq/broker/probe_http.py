"""Ask a broker's `/readyz` at its advertised address; tell a refusing port from an unreachable one.

Only a refused connection proves that no process listens there. It is looked for on every address
that the host name has: a host with one address that refuses and one that does not answer is
unreachable. No proxy is used, and each step has a short timeout.
"""

from __future__ import annotations

import asyncio
import http.client
import socket
import ssl
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from objq.broker.company import STANDBY_HEADER
from objq.broker.election import ProbeResult, Reach

TIMEOUT_S: Final = 2.0
MAX_ANSWER_BYTES: Final = 65_536
DEFAULT_PORTS: Final = {"ws": 80, "wss": 443, "http": 80, "https": 443}


class Readiness(NamedTuple):
    """How far the question got, and what `/readyz` said (empty unless answered)."""

    reach: Reach
    said: dict[str, Any]


UNREACHABLE: Final = Readiness(Reach.UNREACHABLE, {})


async def probe_http(url: str, introduction: bytes = b"") -> ProbeResult:
    """Return what the broker that advertises `url` (ws://, wss://) says of itself. Never raises.

    `introduction`: who asks, if that is a broker.
    """
    reach, said = await ask_readiness(url, introduction)
    return ProbeResult.answered(said) if reach is Reach.ANSWERED else ProbeResult(reach)


async def ask_readiness(url: str, introduction: bytes = b"") -> Readiness:
    """Return the whole answer of `/readyz` at the address of `url`. Never raises."""
    return await asyncio.to_thread(_ask_at, url, introduction)


def _ask_at(url: str, introduction: bytes) -> Readiness:
    try:
        parts = urlsplit(url)
        port = parts.port or DEFAULT_PORTS[parts.scheme]
        host = parts.hostname or ""
    except (KeyError, ValueError):
        return UNREACHABLE
    try:
        connected = socket.create_connection((host, port), TIMEOUT_S, all_errors=True)
    except ExceptionGroup as group:
        refused = all(isinstance(error, ConnectionRefusedError) for error in group.exceptions)
        return Readiness(Reach.REFUSED, {}) if refused else UNREACHABLE
    except (OSError, ValueError):  # ValueError: no host name can look like that
        return UNREACHABLE
    try:
        with connected:
            secure = parts.scheme in ("wss", "https")
            said = _ask(connected, host, port, introduction, secure=secure)
            return Readiness(Reach.ANSWERED, said)
    except (OSError, http.client.HTTPException, msgspec.MsgspecError):
        return UNREACHABLE


def _ask(
    connected: socket.socket, host: str, port: int, introduction: bytes, *, secure: bool
) -> dict[str, Any]:
    if secure:
        context = ssl.create_default_context()
        connected = context.wrap_socket(connected, server_hostname=host)
    connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
    connection.sock = connected
    try:
        headers: dict[str, str | bytes] = {"Connection": "close"}
        if introduction:
            headers[STANDBY_HEADER] = introduction
        connection.request("GET", "/readyz", headers=headers)
        answer = connection.getresponse()
        return msgspec.json.decode(answer.read(MAX_ANSWER_BYTES), type=dict[str, Any])
    finally:
        connection.close()
