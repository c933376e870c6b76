"""Who leads, who would, and who has led: what this process has seen of it since it was started.

For people only: nothing is decided by it. A standby tells who it is when it asks `/readyz`, four
times a second. Leaderships are seen in the document's header, by a standby at every look, by the
leader when it begins.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import msgspec

from objq.clock import Clock
from objq.core import ops
from objq.core.document import Document, Header

STANDBY_HEADER: Final = "X-Objq-Standby"
"""Of a question to `/readyz`: which broker asks, as JSON."""

MAX_STANDBYS: Final = 20
MAX_LEADERSHIPS: Final = 50

GONE_AFTER_S: Final = 10.0
"""A standby that has not asked for so long is none any more."""

_decode = msgspec.json.Decoder(ops.StandbyView).decode


class Company:
    """`process`: where this broker runs, if that is to be told."""

    def __init__(self, clock: Clock, process: ops.Process | None) -> None:
        self.process = process
        self._clock = clock
        self._asked: dict[str, tuple[ops.StandbyView, float]] = {}
        self._leaderships: deque[ops.Leadership] = deque(maxlen=MAX_LEADERSHIPS)

    def introduction(self, broker: ops.BrokerInfo) -> bytes:
        """Return what a standby says of itself to the leader."""
        process = self.process
        return msgspec.json.encode(
            ops.StandbyView(
                id=broker.id,
                url=broker.url,
                version=broker.version,
                host=process.host if process is not None else "",
                pid=process.pid if process is not None else 0,
            )
        )

    def asked(self, introduction: bytes) -> None:
        """Take note of a standby; what is none is ignored, since anybody may ask."""
        try:
            standby = _decode(introduction)
        except (msgspec.MsgspecError, ValueError):
            return
        self._forget_gone()
        if standby.id in self._asked or len(self._asked) < MAX_STANDBYS:
            self._asked[standby.id] = standby, self._clock.monotonic()

    def saw(self, version: Header | Document, why: str = "") -> None:
        """Take note of who leads. `why`: for which reason this process took over, if it did."""
        broker = version.broker
        newest = self._leaderships[-1] if self._leaderships else None
        if broker is None or (newest is not None and newest.epoch >= version.epoch):
            return
        self._leaderships.append(ops.Leadership(epoch=version.epoch, broker=broker, why=why))

    def standbys(self, leader: str) -> tuple[ops.StandbyView, ...]:
        """Return those that have asked lately; a leader has asked itself, before it led."""
        self._forget_gone()
        now = self._clock.monotonic()
        return tuple(
            msgspec.structs.replace(standby, asked_ago_s=round(now - at, 3))
            for standby, at in self._asked.values()
            if standby.id != leader
        )

    def leaderships(self) -> tuple[ops.Leadership, ...]:
        """Return them newest first."""
        return tuple(reversed(self._leaderships))

    def _forget_gone(self) -> None:
        since = self._clock.monotonic() - GONE_AFTER_S
        for broker_id in [key for key, (_, at) in self._asked.items() if at < since]:
            del self._asked[broker_id]
