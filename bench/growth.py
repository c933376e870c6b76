"""growth: what an operation, a commit and a take-over cost with more and more jobs waiting.

Each size is measured in a process of its own, so that its peak memory is its own. Jobs have the size
of a usual one, and arguments that no compressor can guess.
"""

from __future__ import annotations

import gc
import itertools
import json
import random
import resource
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from typing import Any

from msgspec import Raw

from objq.core import codec, leading, ops
from objq.core.document import Document
from objq.core.rules import apply

SIZES = (1_000, 10_000, 100_000, 1_000_000)
BATCH = 1000
OPERATIONS = 2000
ROUNDS = 5
NOW_MS = 1_764_430_000_000
KEYS = (
    "jobs",
    "push_us",
    "claim_us",
    "complete_us",
    "encode_ms",
    "take_over_s",
    "mib_plain",
    "mib_stored",
    "peak_mib",
)


def run() -> dict[str, Any]:
    """Measure every size; return a row for each, and how an operation at 100,000 compares."""
    rows = []
    print("growth")
    print("  " + "  ".join(f"{key:>11}" for key in KEYS))
    for size in SIZES:
        done = subprocess.run(  # noqa: S603  # our own module
            [sys.executable, "-m", "bench.growth", str(size)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        row = json.loads(done.stdout)
        rows.append(row)
        print("  " + "  ".join(f"{row[key]:>11}" for key in KEYS), flush=True)
    small, large = rows[0], rows[2]
    ratios = {
        name: round(large[name] / small[name], 2) for name in ("push_us", "claim_us", "complete_us")
    }
    print(f"  an operation at {large['jobs']:,} jobs costs, times that at {small['jobs']:,}: {ratios}")
    return {"rows": rows, "ratio_100k_to_1k": ratios}


def measure(size: int) -> dict[str, Any]:
    """Fill a document and measure; times are medians, memory is the peak of this process."""
    settings = ops.DocumentSettings(max_jobs=10 * size, max_bytes=1 << 32)
    document = Document.new("growth", settings, NOW_MS)
    rng = random.Random(size)  # noqa: S311  # the same jobs every time
    tokens = (f"token-{n}" for n in itertools.count())
    requests = (f"1-growth:{n}" for n in itertools.count())

    def do(op: ops.Change) -> Any:
        return apply(document, op, NOW_MS, mint=lambda: next(tokens), epoch=1).answer

    def push(count: int) -> None:
        do(ops.Push(request=next(requests), jobs=tuple(_a_job(rng) for _ in range(count))))

    for _ in range(size // BATCH):
        push(BATCH)
    gc.collect()
    gc.freeze()
    held: list[str] = []

    def claim() -> None:
        (grant,) = do(ops.TakeClaim(claim=next(requests), worker="worker")).jobs
        held.append(grant.token)

    def complete() -> None:
        do(ops.Complete(items=(ops.Completion(token=held.pop()),)))

    row = {"jobs": size}
    for name, operation in (
        ("push_us", lambda: push(1)),
        ("claim_us", claim),
        ("complete_us", complete),
    ):
        row[name] = round(_median_s([operation] * (OPERATIONS // 2)) * 1e6, 1)
    data = b""

    def seal() -> None:
        nonlocal data
        data = codec.seal(document, "commit", NOW_MS, leading=True)

    row["encode_ms"] = round(_median_s([seal] * ROUNDS) * 1e3, 1)
    del document
    gc.unfreeze()
    gc.collect()

    def take_over() -> None:
        taken = codec.decode(data)
        broker = ops.BrokerInfo(id="b", url="ws://127.0.0.1:3000/", since=NOW_MS, version="0")
        leading.take_over(taken, broker, settings)
        codec.seal(taken, "commit", NOW_MS, leading=True)

    row["take_over_s"] = round(_median_s([take_over]), 2)
    row["mib_plain"] = round(len(codec.to_json(data)) / 2**20, 1)
    row["mib_stored"] = round(len(data) / 2**20, 1)
    row["peak_mib"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return row


def _a_job(rng: random.Random) -> ops.NewJob:
    number = rng.getrandbits(62)
    return ops.NewJob(
        id=str(uuid.UUID(int=NOW_MS << 80 | rng.getrandbits(80))),
        task="library.tasks.index_page",
        args=Raw(b"[%d]" % number),
        kwargs=Raw(b'{"language":"en","revision":%d}' % (number % 1000)),
    )


def _median_s(calls: list[Callable[[], None]]) -> float:
    taken = []
    for call in calls:
        began = time.perf_counter()
        call()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
