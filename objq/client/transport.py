"""The real transport: a websocket through the `websockets` library."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Mapping
from typing import Final

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from objq.client.seam import ConnectionEnded, ConnectionRefused

PING_INTERVAL_S: Final = 5.0
PING_TIMEOUT_S: Final = 5.0
"""A peer that is gone without a word is noticed within the two together."""

CLOSE_TIMEOUT_S: Final = 1.0

MAX_ANSWER_BYTES: Final = 256 * 1024 * 1024
"""A single answer may be long: a claim of a thousand jobs with large arguments, say."""

MAX_QUEUED_FRAMES: Final = 64


class WebsocketTransport:
    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    async def send(self, text: str) -> None:
        try:
            await self._connection.send(text)
        except (WebSocketException, OSError) as error:
            raise ConnectionEnded(str(error)) from error

    async def recv(self) -> str:
        try:
            frame = await self._connection.recv(decode=True)
        except (WebSocketException, OSError, UnicodeError) as error:
            raise ConnectionEnded(str(error)) from error
        return str(frame)

    async def close(self) -> None:
        with contextlib.suppress(WebSocketException, OSError):
            await self._connection.close()


async def open_websocket(url: str, headers: Mapping[str, str]) -> WebsocketTransport:
    """Open a websocket (`Connect`). No proxy, no compression: the broker is a neighbour."""
    try:
        connection = await connect(
            url,
            additional_headers=dict(headers),
            user_agent_header=None,
            compression=None,
            proxy=None,
            open_timeout=None,
            ping_interval=PING_INTERVAL_S,
            ping_timeout=PING_TIMEOUT_S,
            close_timeout=CLOSE_TIMEOUT_S,
            max_size=MAX_ANSWER_BYTES,
            max_queue=MAX_QUEUED_FRAMES,
        )
    except (WebSocketException, OSError, ValueError) as error:
        if _is_refusal(error):
            raise ConnectionRefused(f"{url}: {error}") from error
        raise ConnectionEnded(f"{url}: {error}") from error
    return WebsocketTransport(connection)


def _is_refusal(error: Exception) -> bool:
    """Tell whether every address of the host refused; asyncio tells of several in one text."""
    if isinstance(error, ConnectionRefusedError):
        return True
    text = str(error)
    refusals = text.count(f"[Errno {errno.ECONNREFUSED}]")
    return isinstance(error, OSError) and 0 < refusals == text.count("[Errno ")
