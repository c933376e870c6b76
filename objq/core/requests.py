"""What the document remembers of requests, so that each has one effect (promise S7).

A request id is `<seq>-<random>:<number>`. Per prefix (`<seq>-<random>`) the document keeps the
numbers that were applied, as ranges, since requests overtake each other, and when the prefix was
last used. A prefix that was not used for `DEDUPE_WINDOW` may be dropped; its seq then raises
`forgotten`, and an absent prefix with a seq of at most `forgotten` is refused. No clock is compared
with another machine's: a wrong clock can only forget too early, which refuses and never doubles.

One commit by a clock that is ahead lets the file's time stand still until other clocks have come so
far, which may be years, and nothing grows old meanwhile. What is remembered is then bounded by
number and size alone (`objq.core.rules.forget`): the prefixes that were used least recently go
before there are as many as may be, and there is room for new ones.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from objq.core.ops import REQUEST_PATTERN
from objq.errors import ExpiredId, Invalid, Overloaded

MAX_RANGES: Final = 1000
"""Ranges kept for one prefix; a client whose requests leave more gaps has to draw a new prefix."""

RETRY_AFTER_S: Final = 5.0

_encode: Final = msgspec.json.Encoder().encode
_BEYOND: Final = 1 << 64
_REQUEST_ID: Final = re.compile(REQUEST_PATTERN)


class RequestKey(NamedTuple):
    prefix: str
    seq: int
    number: int


class Remembered(Struct, omit_defaults=True):
    """One prefix. `refused`: for a number, the items that were refused ("3", or "3-9") and why."""

    used_at: int
    done: list[tuple[int, int]]
    refused: dict[str, dict[str, str]] = {}


def parse_request(request: str) -> RequestKey | None:
    """Return the parts of a request id, or None if the text has not that form."""
    match = _REQUEST_ID.match(request)
    if match is None:
        return None
    prefix, number = match.groups()
    return RequestKey(prefix, seq_of(prefix), int(number))


def seq_of(prefix: str) -> int:
    """Return the seq that a prefix was drawn from."""
    return int(prefix.partition("-")[0])


class RequestMemory:
    """The applied requests, least recently used prefix first."""

    def __init__(self, forgotten: int, clients: dict[str, Remembered]) -> None:
        self.forgotten = forgotten
        self.clients = dict(sorted(clients.items(), key=lambda item: item[1].used_at))
        self.size_bytes = sum(map(_size_of, self.clients, self.clients.values()))

    def find(self, request: str, seq: int) -> Remembered | None:
        """Return what is kept of the request's prefix if this very number was applied.

        `seq`: the document's own. A prefix with a higher one cannot have been drawn from it, and
        would, once dropped, make it refuse everybody. Raises Invalid (no request id) and ExpiredId
        (not of the time that is remembered).
        """
        key = parse_request(request)
        if key is None:
            raise Invalid(
                f"Request id {request[:80]!r} is not of the form <seq>-<random>:<number>."
            )
        kept = self.clients.get(key.prefix)
        if kept is None:
            if key.seq <= self.forgotten:
                raise ExpiredId(
                    f"Request id {request} is older than what is remembered (seq "
                    f"{self.forgotten}); draw a new prefix from the current seq."
                )
            if key.seq > seq:
                raise ExpiredId(
                    f"Request id {request} was drawn from a seq that this document has not reached "
                    f"(it is at {seq}): draw a new prefix from the current seq."
                )
            return None
        if _contains(kept.done, key.number):
            return kept
        if len(kept.done) >= MAX_RANGES:
            raise ExpiredId(f"Prefix {key.prefix} has left too many gaps; draw a new one.")
        return None

    def check_room(self, request: str, max_clients: int, max_bytes: int) -> None:
        """Raise Overloaded unless a request that was not found can be remembered.

        Also one that continues a range may add to what is remembered: what of it is refused.
        """
        key = parse_request(request)
        assert key is not None  # find() was asked first
        if key.prefix not in self.clients and len(self.clients) >= max_clients:
            raise Overloaded(
                f"{max_clients} clients are remembered already (MAX_CLIENTS).",
                retry_after_s=RETRY_AFTER_S,
            )
        if self.size_bytes >= max_bytes:
            raise Overloaded(
                f"What has to be remembered of requests takes {self.size_bytes} bytes already; "
                "a part of MAX_BYTES is set aside for it.",
                retry_after_s=RETRY_AFTER_S,
            )

    def record(self, request: str, stamp: int, refused: Mapping[int, str] | None = None) -> None:
        """Remember that the request was applied (or, with `refused`, which items were not)."""
        key = parse_request(request)
        assert key is not None  # find() was asked first
        kept = self.clients.pop(key.prefix, None)
        if kept is None:
            kept = Remembered(stamp, [])
        else:
            self.size_bytes -= _size_of(key.prefix, kept)
        kept.used_at = stamp
        _add(kept.done, key.number)
        if refused:
            kept.refused[str(key.number)] = _in_runs(refused)
        self.clients[key.prefix] = kept  # to the end: most recently used
        self.size_bytes += _size_of(key.prefix, kept)

    def prune(self, unused_since: int) -> None:
        """Forget prefixes last used before `unused_since`, by the file's own times."""
        while (used_at := self.first_used_at()) is not None and used_at < unused_since:
            self._forget_first()

    def first_used_at(self) -> int | None:
        """Return when the prefix was used that was used least recently (ms, by the file)."""
        return next((kept.used_at for kept in self.clients.values()), None)

    def shrink(self, *, most_bytes: int, most_clients: int | None = None) -> None:
        """Forget the prefixes that were used least recently, until no more than this is left."""
        most = len(self.clients) if most_clients is None else most_clients
        while self.clients and (len(self.clients) > most or self.size_bytes > most_bytes):
            self._forget_first()

    def _forget_first(self) -> None:
        prefix = next(iter(self.clients))
        self.size_bytes -= _size_of(prefix, self.clients.pop(prefix))
        self.forgotten = max(self.forgotten, seq_of(prefix))


def refused_items(kept: Remembered, request: str) -> dict[int, str]:
    """Return the refused items (index → error code) of a request that was applied."""
    key = parse_request(request)
    items: dict[int, str] = {}
    for run, code in (kept.refused.get(str(key.number), {}) if key else {}).items():
        first, _, last = run.partition("-")
        items |= dict.fromkeys(range(int(first), int(last or first) + 1), code)
    return items


def _in_runs(refused: Mapping[int, str]) -> dict[str, str]:
    """Return refused items with those together that follow each other and have the same code."""
    runs: dict[str, str] = {}
    first = last = -1
    for at in sorted(refused):
        if last >= 0 and at == last + 1 and refused[at] == refused[last]:
            del runs[_run(first, last)]
        else:
            first = at
        last = at
        runs[_run(first, last)] = refused[at]
    return runs


def _run(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _size_of(prefix: str, kept: Remembered) -> int:
    return len(prefix) + len(_encode(kept))


def _contains(ranges: list[tuple[int, int]], number: int) -> bool:
    at = bisect_right(ranges, (number, _BEYOND)) - 1
    return at >= 0 and ranges[at][1] >= number


def _add(ranges: list[tuple[int, int]], number: int) -> None:
    at = bisect_right(ranges, (number, number))
    if at and ranges[at - 1][1] >= number:
        return
    joins_left = at > 0 and ranges[at - 1][1] == number - 1
    joins_right = at < len(ranges) and ranges[at][0] == number + 1
    if joins_left and joins_right:
        ranges[at - 1 : at + 1] = [(ranges[at - 1][0], ranges[at][1])]
    elif joins_left:
        ranges[at - 1] = (ranges[at - 1][0], number)
    elif joins_right:
        ranges[at] = (number, ranges[at][1])
    else:
        ranges.insert(at, (number, number))
