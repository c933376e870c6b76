"""Where a header comes from: the store, or, with `BROKER_URL`, the broker at that address itself.

A process that is told the address need not reach the store at all. What a token and a request id
need (the ids of document and broker, a recent seq) the broker says at `/readyz`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import msgspec

from objq.broker.probe_http import ask_readiness
from objq.core.codec import decode_head
from objq.core.document import Header
from objq.core.ops import BrokerInfo
from objq.errors import Unavailable
from objq.store.base import AsyncStore, StoreError


class Source(NamedTuple):
    """`read` returns the header, or None if there is no document; it raises Unavailable.

    `is_told`: by a broker, which may not have noticed yet what others have written.
    """

    name: str
    read: Callable[[], Awaitable[Header | None]]
    is_told: bool = False


def from_store(store: AsyncStore) -> Source:
    """Return the source that reads the head of the document, by one ranged read."""

    async def read() -> Header | None:
        try:
            content = await store.read_head()
        except StoreError as error:
            raise Unavailable(f"{store.name} cannot be read ({error}).") from error
        return decode_head(content.data) if content is not None else None

    return Source(store.name, read)


class _Said(msgspec.Struct):
    """The part of `/readyz` that says who answers, and for which document."""

    broker: str
    document: str
    epoch: int
    seq: int
    leading: bool


def from_broker(url: str) -> Source:
    """Return the source that asks the broker at `url` (ws:// or wss://)."""

    async def read() -> Header | None:
        said = (await ask_readiness(url)).said
        try:
            who = msgspec.convert(said, _Said)
        except msgspec.ValidationError:
            raise Unavailable(f"No broker of objq answers at {url} (BROKER_URL).") from None
        broker = BrokerInfo(id=who.broker, url=url, since=0, version="") if who.leading else None
        return Header(
            objq=1,
            document=who.document,
            seq=who.seq,
            epoch=who.epoch,
            commit="",
            broker=broker,
            challenge=None,
        )

    return Source(f"the document of {url}", read, is_told=True)
