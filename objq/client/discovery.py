"""Where the broker is: its id and address, from the header of the document.

One reader per process: whoever asks while a read is under way shares its result.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from objq.client.headers import Source
from objq.client.known import Known
from objq.clock import Clock
from objq.core.codec import check_successor
from objq.core.document import Header
from objq.errors import NoDocument, Vanished


class Found(NamedTuple):
    """The header, and when the read that brought it began (monotonic seconds)."""

    header: Header
    read_at: float


class Discovery:
    def __init__(self, source: Source, clock: Clock, known: Known) -> None:
        self._source = source
        self._clock = clock
        self._known = known
        self._found: Found | None = None
        self._reading: asyncio.Task[Found] | None = None
        self._reading_since = float("-inf")

    async def find(self, after: float = float("-inf")) -> Found:
        """Return a header from a read that began after `after` (monotonic seconds).

        Raises NoDocument, Corrupt, NewerSchema, ForeignDocument (S14), and Unavailable if there is
        no answer.
        """
        if self._found is not None and self._found.read_at > after:
            return self._found
        if self._reading is None or self._reading.done() or self._reading_since <= after:
            self._reading_since = self._clock.monotonic()
            self._reading = asyncio.create_task(
                self._read(self._reading_since), name="objq reads the header"
            )
            self._reading.add_done_callback(retrieve)
        return await asyncio.shield(self._reading)

    def heard(self, epoch: int, seq: int) -> None:
        """Take note that the broker which was found has answered of this version (S14)."""
        self._known.heard(epoch, seq)

    async def _read(self, began_at: float) -> Found:
        seen = self._known.header  # before the read: what is found is at least as new
        header = await self._source.read()
        if header is None:
            if seen is not None:
                raise Vanished.at(self._source.name)
            raise NoDocument.at(self._source.name)
        if seen is not None:
            check_successor(seen, header, is_told=self._source.is_told)
        self._known.saw(header)
        if self._found is None or self._found.read_at <= began_at:
            self._found = Found(header, began_at)
        return self._found  # of two reads under way the earlier one may come back last


def retrieve(task: asyncio.Task[Any]) -> None:
    """Look at how a shared task ended, for the case that everybody who waited for it has gone."""
    if not task.cancelled():
        task.exception()
