"""`python -m tests.sim --seeds N --seed BASE`: run worlds, and say how to see a failure again.

The worlds are shared out among processes; each is decided by its seed alone. The last line is one
JSON object; the exit status is 0 only if every promise held in every world.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Final

from tests.sim.runs import WORDS, Outcome, base_seed, prepare, run

CHUNK: Final = 5
"""Worlds that a process takes at a time."""

TOLD: Final = 10
"""Problems that are told of one world."""


def main() -> int:
    arguments = _arguments()
    base = arguments.seed if arguments.seed is not None else base_seed()
    seeds = range(base, base + arguments.seeds)
    if arguments.replay is not None:
        seeds = range(arguments.replay, arguments.replay + 1)
    print(f"seeds {seeds.start} to {seeds.stop - 1}", flush=True)
    totals: Counter[str] = Counter(dict.fromkeys(WORDS, 0))
    failed = []
    began = time.perf_counter()
    for outcome in _outcomes(seeds, arguments):
        totals.update(outcome.counts)
        for line in outcome.story:
            print(line)
        if outcome.problems:
            failed.append(outcome.seed)
            for problem in outcome.problems[:TOLD]:
                print(f"seed {outcome.seed}: {problem}")
            print(
                f"see it again: python -m tests.sim --replay {outcome.seed} --verbose", flush=True
            )
    seconds = time.perf_counter() - began
    result = {
        "ok": not failed,
        "seed": seeds.start,
        "seeds": len(seeds),
        "failed": failed,
        **totals,
        "seeds_per_s": round(len(seeds) / seconds, 1),
    }
    print(json.dumps(result))
    return 0 if not failed else 1


def _outcomes(seeds: range, arguments: argparse.Namespace) -> Iterator[Outcome]:
    if arguments.verbose or len(seeds) == 1 or arguments.jobs == 1:
        prepare(arguments.verbose)
        for seed in seeds:
            yield run(seed, arguments.verbose)
        return
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(arguments.jobs, mp_context=fresh, initializer=prepare) as pool:
        yield from pool.map(run, seeds, chunksize=CHUNK)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many worlds")
    parser.add_argument("--seed", type=int, help="the first seed; from the commit where left out")
    parser.add_argument("--replay", type=int, metavar="SEED", help="one world only")
    parser.add_argument("--verbose", action="store_true", help="tell what happens, with all logs")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes at the same time"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
