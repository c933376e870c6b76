"""`python -m tests.chaos --seconds N [--seed S]`: harm real processes, account for every job.

The last line is one JSON object; the exit status is 0 only if everything in it holds.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import django

from tests.objectservers import seaweedfs_launch
from tests.supervise import start_once, stop_all


@contextmanager
def a_store(folder: Path) -> Iterator[str]:
    """Run SeaweedFS; yield the URL of its S3."""
    servers = folder / "servers"
    try:
        yield start_once(servers / "seaweedfs", os.getpid(), seaweedfs_launch)
    finally:
        stop_all(servers)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="how long to do harm")
    parser.add_argument("--kills", type=int, default=20, help="of the leader, for failover")
    parser.add_argument("--seed", type=int, help="of what is done; drawn where left out")
    parser.add_argument("--folder", type=Path, help="where logs and ledgers stay; else they go")
    arguments = parser.parse_args()
    seed = random.randrange(10**9) if arguments.seed is None else arguments.seed
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    django.setup()
    from tests.chaos.run import Plan, run

    print(f"seed {seed}", flush=True)
    plan = Plan(arguments.seconds, seed, arguments.kills)
    with tempfile.TemporaryDirectory(prefix="objq-chaos-") as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        with a_store(folder) as url:
            report = run(url, folder, plan)
    for problem in report["problems"]:
        print(problem)
    missed = plan.kills > 0 and not report["failover"]["within_aim"]
    if missed:
        print("failover: the median is above the aim")
    report["ok"] = report["ok"] and not missed
    print(json.dumps(report))
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
