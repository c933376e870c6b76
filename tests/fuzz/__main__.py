"""`python -m tests.fuzz --seconds N [--seed S]`: hostile input for all that reads bytes of others.

The last line is one JSON object; the exit status is 0 only if nothing was found and no engine that
is there was idle. `--inputs N` bounds each target and engine by a number instead of the clock.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from pathlib import Path

from tests.fuzz import run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="how long, in all")
    parser.add_argument("--inputs", type=int, help="for each target and engine, however long")
    parser.add_argument("--seed", type=int, help="of what is tried; drawn where left out")
    parser.add_argument("--only", choices=run.NAMES, action="append", help="some targets only")
    parser.add_argument("--replay", nargs=2, metavar=("TARGET", "FILE"), help="one input only")
    arguments = parser.parse_args()
    run.prepare()
    if arguments.replay:
        name, path = arguments.replay
        found = run.replay(name, Path(path))
        print(found or "nothing was found")
        return 1 if found else 0
    seed = random.randrange(10**9) if arguments.seed is None else arguments.seed
    print(f"seed {seed}", flush=True)
    report = run.run(arguments.seconds, seed, arguments.only or run.NAMES, arguments.inputs)
    print(json.dumps(report))
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
