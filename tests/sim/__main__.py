"""`python -m tests.sim --seeds N --seed BASE`: run worlds, and say how to see a failure again.

The last line is one JSON object; the exit status is 0 only if every promise held in every world.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import sys
import time

from django.conf import settings


def main() -> int:
    arguments = _arguments()
    settings.configure(SECRET_KEY="simulated")  # nothing else of Django's is used here
    if not arguments.verbose:
        logging.disable(logging.CRITICAL)
    base = arguments.seed if arguments.seed is not None else random.randrange(10**9)
    seeds = range(base, base + arguments.seeds)
    if arguments.replay is not None:
        seeds = range(arguments.replay, arguments.replay + 1)
    print(f"seeds {seeds.start} to {seeds.stop - 1}", flush=True)

    from tests.sim.checker import check
    from tests.sim.world import log_digest, run_world

    counts = {"jobs": 0, "runs": 0, "versions": 0, "simulated_s": 0}
    words = {"lost": 0, "unexpected": 0, "duplicated": 0, "recovered": 0}
    failed = []
    began = time.perf_counter()
    for seed in seeds:
        world = run_world(seed)
        verdict = check(world)
        counts["jobs"] += len(world.known)
        counts["runs"] += len(world.history.runs)
        counts["versions"] += len(world.store.log)
        counts["simulated_s"] += int(world.timeline.now)
        for word in words:
            words[word] += getattr(verdict, word)
        if arguments.verbose:
            for line in world.story():
                print(line)
            print(f"log {log_digest(world)}")
        if verdict.problems:
            failed.append(seed)
            for problem in verdict.problems[:10]:
                print(f"seed {seed}: {problem}")
            print(f"see it again: python -m tests.sim --replay {seed} --verbose", flush=True)
    seconds = time.perf_counter() - began
    result = {
        "ok": not failed,
        "seed": seeds.start,
        "seeds": len(seeds),
        "failed": failed,
        **words,
        **counts,
        "seeds_per_s": round(len(seeds) / seconds, 1),
    }
    print(json.dumps(result))
    return 0 if not failed else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many worlds")
    parser.add_argument("--seed", type=int, help="the first seed; drawn where left out")
    parser.add_argument("--replay", type=int, metavar="SEED", help="one world only")
    parser.add_argument("--verbose", action="store_true", help="tell what happens, with all logs")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
