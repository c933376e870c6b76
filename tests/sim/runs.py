"""Which worlds are run, and what is told of each: for commands, in any process."""

from __future__ import annotations

import logging
import subprocess
from pathlib import Path
from typing import Final, NamedTuple

from django.conf import settings

WORDS: Final = ("lost", "unexpected", "duplicated", "recovered")


def base_seed() -> int:
    """Return the first seed, from the commit that is checked out; 0 where there is none.

    So each commit brings fresh worlds, and its run can be had again.
    """
    asked = ["git", "rev-parse", "--short=7", "HEAD"]
    here = Path(__file__).parent
    found = subprocess.run(asked, cwd=here, capture_output=True, text=True, check=False)
    return int(found.stdout.strip() or "0", 16)


class Outcome(NamedTuple):
    seed: int
    problems: list[str]
    counts: dict[str, int]
    story: list[str]


def prepare(verbose: bool = False) -> None:
    """Make this process ready for worlds."""
    settings.configure(SECRET_KEY="simulated")  # nothing else of Django's is used here
    if not verbose:
        logging.disable(logging.CRITICAL)


def run(seed: int, verbose: bool = False) -> Outcome:
    from tests.sim.checker import check
    from tests.sim.world import log_digest, run_world

    world = run_world(seed)
    verdict = check(world)
    counts = {
        **{word: getattr(verdict, word) for word in WORDS},
        "jobs": len(world.known),
        "runs": len(world.history.runs),
        "versions": len(world.store.log),
        "simulated_s": int(world.timeline.now),
    }
    story = [*world.story(), f"log {log_digest(world)}"] if verbose else []
    return Outcome(seed, verdict.problems, counts, story)
