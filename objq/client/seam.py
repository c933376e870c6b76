"""What the client needs of a websocket, so that a test or a simulation can bring its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class ConnectionEnded(Exception):
    """The connection is gone, or never came about. What was sent may or may not have arrived."""


class ConnectionRefused(ConnectionEnded):
    """Nothing listens at the address."""


class Transport(Protocol):
    """One open connection. Text frames go both ways, whole and in order, until it ends."""

    async def send(self, text: str) -> None:
        """Hand a frame over; wait while the peer reads slowly. Raises ConnectionEnded."""
        ...

    async def recv(self) -> str:
        """Return the next frame. Raises ConnectionEnded once there will be no more."""
        ...

    async def close(self) -> None:
        """Close the connection; never raises, and may be called again."""
        ...


class Connect(Protocol):
    async def __call__(self, url: str, headers: Mapping[str, str]) -> Transport:
        """Open a connection. Raises ConnectionEnded, ConnectionRefused if nothing listens.

        The caller sets the time limit.
        """
        ...
