"""growth: what an operation, a commit and a take-over cost with more and more jobs waiting.

Each size is measured in a process of its own, so that its peak memory is its own. Jobs have the
size of a usual one, and arguments that no compressor can guess.
"""

from __future__ import annotations

import gc
import itertools
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from django.core.files.storage import FileSystemStorage
from msgspec import Raw

from objq.core import codec, leading, ops
from objq.core.document import Document
from objq.core.rules import apply
from objq.store.base import ABSENT, Expect
from objq.store.file import FileStore

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
    "compress_ms",
    "commit_ms",
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
        done = subprocess.run(
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
    print(f"  cost at {large['jobs']:,} jobs, times that at {small['jobs']:,}: {ratios}")
    return {"rows": rows, "ratio_100k_to_1k": ratios}


class Filled:
    """A document with so many jobs waiting, and the operations that are measured on it."""

    def __init__(self, size: int) -> None:
        self.document = Document.new("growth", settings_for(size), NOW_MS)
        self.seal()  # request ids are drawn from a seq that was written
        self._rng = random.Random(size)
        self._tokens = (f"token-{n}" for n in itertools.count())
        self._requests = (f"1-growth:{n}" for n in itertools.count())
        self._held: list[str] = []
        self._folder = tempfile.TemporaryDirectory()
        self._store = FileStore(FileSystemStorage(location=self._folder.name), "queue.json")
        self._tag: Expect = ABSENT
        for _ in range(size // BATCH):
            self.push(BATCH)

    def push(self, count: int = 1) -> None:
        jobs = tuple(_a_job(self._rng) for _ in range(count))
        self._do(ops.Push(request=next(self._requests), jobs=jobs))

    def claim(self) -> None:
        (grant,) = self._do(ops.TakeClaim(claim=next(self._requests), worker="worker")).jobs
        self._held.append(grant.token)

    def complete(self) -> None:
        self._do(ops.Complete(items=(ops.Completion(token=self._held.pop()),)))

    def seal(self) -> bytes:
        return codec.seal(self.document, "commit", NOW_MS, leading=True)

    def commit(self) -> None:
        """Push a job and write the document to a local folder, with all that makes it durable."""
        self.push()
        self._tag = self._store.write(self.seal(), self._tag)

    def close(self) -> None:
        self._folder.cleanup()

    def _do(self, op: ops.Change) -> Any:
        return apply(self.document, op, NOW_MS, mint=lambda: next(self._tokens), epoch=1).answer


def settings_for(size: int, **changes: int) -> ops.DocumentSettings:
    return ops.DocumentSettings(max_jobs=10 * size, max_bytes=1 << 32, **changes)


def measure(size: int) -> dict[str, float]:
    """Fill a document and measure; times are medians, memory is the peak of this process."""
    filled = Filled(size)
    gc.collect()
    gc.freeze()
    row: dict[str, float] = {"jobs": size}
    for name, operation in (
        ("push_us", filled.push),
        ("claim_us", filled.claim),
        ("complete_us", filled.complete),
    ):
        row[name] = round(_median_s([operation] * (OPERATIONS // 2)) * 1e6, 1)
    compressed = _best_s(filled.seal)
    row["commit_ms"] = round(_median_s([filled.commit] * ROUNDS) * 1e3, 1)
    data = filled.seal()
    plain = settings_for(size, compress_above=1 << 32)
    filled.document.settings = plain
    encoded = _best_s(filled.seal)
    filled.close()
    row["encode_ms"] = round(encoded * 1e3, 1)
    row["compress_ms"] = round((compressed - encoded) * 1e3, 1)
    del filled
    gc.unfreeze()
    gc.collect()
    row["take_over_s"] = round(_median_s([lambda: _take_over(data, size)]), 2)
    row["mib_plain"] = round(len(codec.to_json(data)) / 2**20, 1)
    row["mib_stored"] = round(len(data) / 2**20, 1)
    row["peak_mib"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return row


def _take_over(data: bytes, size: int) -> None:
    document = codec.decode(data)
    broker = ops.BrokerInfo(id="b", url="ws://127.0.0.1:3000/", since=NOW_MS, version="0")
    leading.take_over(document, broker, settings_for(size))
    codec.seal(document, "commit", NOW_MS, leading=True)


def _a_job(rng: random.Random) -> ops.NewJob:
    number = rng.getrandbits(62)
    return ops.NewJob(
        id=str(uuid.UUID(int=NOW_MS << 80 | rng.getrandbits(80))),
        task="library.tasks.index_page",
        args=Raw(b"[%d]" % number),
        kwargs=Raw(b'{"language":"en","revision":%d}' % (number % 1000)),
    )


def _best_s(call: Callable[[], object]) -> float:
    """Return the least of some rounds: of two that are subtracted, neither has the noise."""
    return min(_median_s([call]) for _ in range(ROUNDS))


def _median_s(calls: Sequence[Callable[[], object]]) -> float:
    taken = []
    for call in calls:
        began = time.perf_counter()
        call()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "bench.settings")
    print(json.dumps(measure(int(sys.argv[1]))))
