"""Seeded mutations: good and bad examples, cut, joined, blown up and sprinkled with poison."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from tests.fuzz.corpus import TOKENS, encoded

KEPT: Final = 256
"""Mutants that are kept to be changed further."""

POISON: Final = (
    *map(encoded, TOKENS),
    *(b'"', b"\\", b",", b":", b"{", b"}", b"[", b"]", b"\x00", b"\xff", b"\xc3", b"\xed\xa0\x80"),
    *(b"\x28\xb5\x2f\xfd", b"\x50\x2a\x4d\x18", b"\x7f" * 8, b"\x80" * 8, b"\x00" * 8),
)

Change = Callable[[random.Random, bytearray, Sequence[bytes]], None]


def mutants(rng: random.Random, seeds: Sequence[bytes], most_bytes: int) -> Iterator[bytes]:
    """Yield the seeds themselves, and then mutants of them without end."""
    for seed in seeds:
        yield seed[:most_bytes]
    # Long examples say little that short ones do not, and take long.
    pool = [seed for seed in seeds if len(seed) < 20_000] or list(seeds)
    first = len(pool)
    while True:
        data = bytearray(rng.choice(seeds) if rng.random() < 0.02 else rng.choice(pool))
        for _ in range(1 + int(rng.expovariate(0.7))):
            rng.choice(CHANGES)(rng, data, pool)
        made = bytes(data[:most_bytes])
        if len(made) < 20_000 and rng.random() < 0.1:
            if len(pool) < first + KEPT:
                pool.append(made)
            else:
                pool[rng.randrange(first, len(pool))] = made
        yield made


def _span(rng: random.Random, data: bytearray) -> tuple[int, int]:
    at = rng.randint(0, len(data))
    return at, min(len(data), at + int(rng.expovariate(1 / 12)))


def _flip(rng: random.Random, data: bytearray, pool: Sequence[bytes]) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _insert(rng: random.Random, data: bytearray, pool: Sequence[bytes]) -> None:
    at = rng.randint(0, len(data))
    data[at:at] = rng.choice(POISON)


def _replace(rng: random.Random, data: bytearray, pool: Sequence[bytes]) -> None:
    at, end = _span(rng, data)
    data[at:end] = rng.choice(POISON)


def _delete(rng: random.Random, data: bytearray, pool: Sequence[bytes]) -> None:
    at, end = _span(rng, data)
    del data[at:end]


def _double(rng: random.Random, data: bytearray, pool: Sequence[bytes]) -> None:
    at, end = _span(rng, data)
    data[at:at] = data[at:end]


def _blow_up(rng: random.Random, data: bytearray, pool: Sequence[bytes]) -> None:
    """Repeat a piece very often, now and then."""
    if rng.random() < 0.1:
        at, end = _span(rng, data)
        piece = bytes(data[at:end])
        data[at:at] = piece * rng.choice((10, 1000, 100_000 // max(1, len(piece))))


def _cut(rng: random.Random, data: bytearray, pool: Sequence[bytes]) -> None:
    del data[rng.randint(0, len(data)) :]


def _splice(rng: random.Random, data: bytearray, pool: Sequence[bytes]) -> None:
    other = rng.choice(pool)
    data[rng.randint(0, len(data)) :] = other[rng.randint(0, len(other)) :]


def _wrap(rng: random.Random, data: bytearray, pool: Sequence[bytes]) -> None:
    """Put it into an array with others."""
    data[:] = b"[%b,%b]" % (rng.choice(pool), bytes(data))


CHANGES: Final[tuple[Change, ...]] = (
    _flip, _flip, _insert, _replace, _replace, _delete, _double, _blow_up, _cut, _splice, _wrap,
)  # fmt: skip
