"""The checker against the exhaustive search: `python -m tests.sim.crosscheck --length N`.

All small histories of so many events, with every way to put events that follow each other into
one commit, and everything that `spoil` makes of them: the two must judge alike. What they disagree
on is a fault of one of them. The last line is one JSON object; the exit status is 0 only if they
agree.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from tests.sim.asworld import world_of
from tests.sim.author import EVENTS, Author, NotNow
from tests.sim.checker import check
from tests.sim.exhaustive import allows
from tests.sim.runs import prepare
from tests.sim.small import Small
from tests.sim.spoil import SPOILS

Batches = tuple[tuple[str, ...], ...]

SHOWN: Final = 5
"""Disagreements that are told of."""

MOST_EVENTS: Final = 12
"""Of a history that is drawn."""


def every_history(length: int, begun: Batches = ()) -> Iterator[tuple[Batches, Small]]:
    """Yield the good histories of at most so many events, each with how it was written."""
    if length == 0:
        return
    for name in EVENTS:
        longer = [(*begun, (name,))]
        if begun:
            longer.append((*begun[:-1], (*begun[-1], name)))
        for batches in longer:
            try:
                small = Author().write(batches)
            except NotNow:
                continue
            yield batches, small
            yield from every_history(length - 1, batches)


def drawn_history(rng: random.Random) -> tuple[Batches, Small]:
    """Draw a longer one."""
    batches: Batches = ()
    small = Author().small()
    for _ in range(rng.randint(MOST_EVENTS, 4 * MOST_EVENTS)):  # most cannot happen just then
        if sum(map(len, batches)) == MOST_EVENTS:
            break
        name = rng.choice(EVENTS)
        longer: Batches = (*batches, (name,))
        if batches and rng.random() < 0.3:
            longer = (*batches[:-1], (*batches[-1], name))
        try:
            small = Author().write(longer)
        except NotNow:
            continue
        batches = longer
    return batches, small


@dataclass
class Tally:
    """`caught`: bad histories that both found, by what was spoilt."""

    good: int = 0
    spoilt: int = 0
    still_good: int = 0
    caught: Counter[str] = field(default_factory=Counter)
    disagreements: list[str] = field(default_factory=list)

    def judge(self, batches: Batches, small: Small) -> None:
        """Have both judges look at a good history and at all that can be made of it."""
        self.good += 1
        self._compare("good", batches, small)
        for spoil in SPOILS:
            for spoilt in spoil(small):
                self.spoilt += 1
                if self._compare(spoil.__name__, batches, spoilt):
                    self.still_good += 1
                else:
                    self.caught[spoil.__name__] += 1

    def _compare(self, name: str, batches: Batches, small: Small) -> bool:
        allowed = allows(small)
        problems = check(world_of(small)).problems
        is_good = name != "good" or allowed
        if allowed == bool(problems) or not is_good:
            said = problems or "nothing"
            self.disagreements.append(
                f"{name} of {batches}: the search {'allows' if allowed else 'forbids'} it, "
                f"and the checker says {said}: {small}"
            )
        return allowed

    def report(self) -> dict[str, Any]:
        return {
            "ok": not self.disagreements,
            "good_histories": self.good,
            "spoilt_histories": self.spoilt,
            "still_good": self.still_good,
            "found_bad_by_both": sum(self.caught.values()),
            "disagreements": len(self.disagreements),
            "by_spoil": dict(sorted(self.caught.items())),
        }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.crosscheck", description=__doc__)
    parser.add_argument("--length", type=int, default=3, help="events, of the complete part")
    parser.add_argument("--drawn", type=int, default=200, help="longer histories, drawn")
    parser.add_argument("--seed", type=int, default=1, help="what they are drawn from")
    arguments = parser.parse_args()
    prepare()
    tally = Tally()
    for batches, small in every_history(arguments.length):
        tally.judge(batches, small)
    rng = random.Random(arguments.seed)
    for _ in range(arguments.drawn):
        tally.judge(*drawn_history(rng))
    for disagreement in tally.disagreements[:SHOWN]:
        print(disagreement)
    print(json.dumps(tally.report()))
    return 0 if not tally.disagreements else 1


if __name__ == "__main__":
    sys.exit(main())
