"""Who else is in a world: workers without a broker, watchers, and an operator with a heavy hand.

Drawn from a stream of its own, so that the rest of a world does not depend on it. Many worlds have
none of this, since company keeps a queue busy, and some faults show only in a quiet one.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final, Literal

Brokers = Literal["at once", "later", "none", "stopped", "killed"]
"""When there are any: from the beginning, from somewhere in the middle, never; or from the
beginning until the heal, when they are stopped or killed for good."""

Hand = Literal["keeps off", "deletes", "spoils", "restores", "adopts"]
"""What an operator does to the object: takes it away, or puts what is no document or an older
version in its place, and puts it back; or means it, and adopts the older version as documented."""


@dataclass(frozen=True, kw_only=True)
class Company:
    brokers: Brokers = "at once"
    later: float = 0.0
    """When the first broker starts, as a share of the time of faults."""
    direct_workers: int = 0
    watchers: int = 0
    hand: Hand = "keeps off"
    content_tags: bool = False
    """The store's tags are hashes of the bytes."""

    @property
    def ends_without_brokers(self) -> bool:
        return self.brokers in ("none", "stopped", "killed")

    @classmethod
    def drawn(cls, seed: int) -> Company:
        rng = random.Random(f"{seed}/company")
        if rng.random() < 0.4:
            return ALONE
        direct_workers = rng.choice((0, 1, 2, 2, 3))
        brokers: tuple[Brokers, ...] = ("at once", "later", "none", "stopped", "killed")
        hands: tuple[Hand, ...] = (
            *("keeps off", "keeps off", "keeps off"),
            *("deletes", "spoils", "restores", "adopts"),
        )
        return cls(
            brokers=rng.choice(brokers) if direct_workers else "at once",
            later=rng.uniform(0.2, 0.9),
            direct_workers=direct_workers,
            watchers=rng.choice((0, 1, 1, 2)),
            hand=rng.choice(hands),
            content_tags=rng.random() < 0.5,
        )


ALONE: Final = Company()
