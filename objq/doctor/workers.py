"""Does somebody take what is ready?"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from objq.commandline import command
from objq.core.ops import AllWorkers, Statistics
from objq.doctor.findings import Finding, ok, skipped, warning
from objq.overview import untaken

NAME = "workers"


def unknown_workers() -> Finding:
    return skipped(NAME, "Workers are known only to a broker, and none answers.")


def check_workers(
    alias: str, ask: Callable[[], tuple[Statistics, AllWorkers]]
) -> Iterator[Finding]:
    """`ask` puts both questions to the broker."""
    stats, workers = ask()
    said = _connected(workers)
    waiting = untaken(stats, workers)
    for name in waiting:
        ready = stats.queues[name].ready
        jobs = "1 job is" if ready == 1 else f"{ready:,} jobs are"
        message = f"{jobs} ready in queue {name!r}, and no worker takes from it. {said}"
        yield warning(NAME, message, f"Start one: {command(alias, 'objq_worker', '--queue', name)}")
    if not waiting:
        yield ok(NAME, said)


def _connected(workers: AllWorkers) -> str:
    count = sum(each.connected for each in workers.workers)
    if workers.total > len(workers.workers):
        return f"At least {count:,} workers are connected."
    return "1 worker is connected." if count == 1 else f"{count:,} workers are connected."
