"""One run: harm at random, heal, drain, measure failover, and account for every job."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.chaos import failover, ledger
from tests.chaos.cluster import Cluster
from tests.chaos.weather import Weather
from tests.objectservers import s3_entry
from tests.proxy import Proxy

PUSHERS = 2
RATE = 10.0
"""Pushes a second of each."""

LONG = 1.6
"""The longest jobs take so many timeouts."""

PAUSES = (0.1, 0.3, 0.6, 1.3, 2.2)
"""How long a process is stopped, in timeouts: T/2 and T lie between them."""

LEADER = 0.3
"""The share of harm that is meant for the leader, beside what meets it by chance."""

HARM_EVERY_S = 2.5
MOST_STOPPED = 4
DRAIN_S = 180.0
SETTLE_TIMEOUTS = 1.5
"""A standby that challenged somebody, and an answer to it, have come and gone by then."""


@dataclass(frozen=True)
class Plan:
    """`seconds` of harm, then so many kills of the leader; T in seconds; `idle_s` of watching."""

    seconds: float
    seed: int
    kills: int = 20
    timeout_s: float = 6.0
    idle_s: float = 10.0


def run(store_url: str, folder: Path, plan: Plan) -> dict[str, Any]:
    """Run it over the S3 at a URL, with all logs in the folder; return the report.

    `problems` says everything that does not hold; `ok` is whether there is none.
    """
    weather = Weather(plan.seed)
    with Proxy(store_url, weather) as proxy:
        entry, around = (s3_entry(url, "chaos") for url in (proxy.url, store_url))
        cluster = Cluster(folder, entry, around, plan.timeout_s, plan.seed)
        try:
            return _run(cluster, weather, plan)
        finally:
            cluster.stack.close()


def _run(cluster: Cluster, weather: Weather, plan: Plan) -> dict[str, Any]:
    cluster.start_all()
    weather.rough = True
    harm(cluster, plan.seconds)
    weather.rough = False
    healed_s = _heal(cluster)
    figures = failover.measure(cluster, plan.kills) if plan.kills else None
    if figures is not None and figures["calls_failed"]:
        cluster.problems.append(f"failover: calls failed: {figures['failures']}")
    if not cluster.drain(DRAIN_S):
        cluster.problems.append(f"not drained {DRAIN_S:.0f} s after the failovers")
    idle_writes = _idle(cluster, weather, plan)
    cluster.unharmed()
    document = cluster.document()
    cluster.end()
    account = ledger.settle(
        ledger.read_pushes(cluster.pushes),
        ledger.read_runs(cluster.stack.ledger),
        cluster.harms,
        document,
        plan.timeout_s,
    )
    problems = [*cluster.problems, *account.problems]
    return {
        "ok": not problems,
        "seed": plan.seed,
        "seconds": plan.seconds,
        "ledger": account.figures(),
        "failover": figures,
        "harm": dict(sorted(cluster.done.items())),
        "store": dict(sorted(weather.done.items())),
        "epochs": document.epoch,
        "versions": document.seq,
        "healed_s": round(healed_s, 1),
        "idle_writes": idle_writes,
        "problems": problems[:50],
    }


def harm(cluster: Cluster, seconds: float) -> None:
    """Push steadily and do harm at random for so long; what was killed comes back by and by."""
    until = time.monotonic() + seconds
    longest_s = LONG * cluster.timeout_s
    for _ in range(PUSHERS):
        cluster.pusher(seconds, RATE, longest_s)
    gone: dict[str, float] = {}
    while (now := time.monotonic()) < until:
        time.sleep(min(until - now, cluster.random.uniform(0, HARM_EVERY_S)))
        cluster.wake()
        now = time.monotonic()
        for name in [name for name, back_at in gone.items() if back_at <= now]:
            cluster.start(name)
            del gone[name]
        unharmed = cluster.unharmed()
        if not unharmed or len(cluster.stack.processes) - len(unharmed) >= MOST_STOPPED:
            continue
        name = cluster.random.choice(sorted(unharmed))
        recorded = cluster.recorded()
        if cluster.random.random() < LEADER and recorded in unharmed:
            name = recorded
        if cluster.random.random() < 0.55:
            cluster.stop(name, cluster.timeout_s * cluster.random.choice(PAUSES))
            continue
        cluster.kill(name)
        if name.startswith("pusher"):
            cluster.pusher(until - time.monotonic(), RATE, longest_s)
        else:  # a restart in place at once, or an absence in which others have to do
            gone[name] = now + cluster.random.choice((0.0, cluster.timeout_s))
    for name in gone:
        cluster.start(name)


def _heal(cluster: Cluster) -> float:
    """Let everybody go on and wait until all is done; return how long that took (s)."""
    began = time.monotonic()
    cluster.wake(everybody=True)
    cluster.join([name for name in cluster.stack.processes if name.startswith("pusher")])
    for name, port in cluster.ports.items():
        cluster.stack.wait_ready(name, port)
    if not cluster.drain(DRAIN_S):
        cluster.problems.append(f"not drained {DRAIN_S:.0f} s after the harm")
    return time.monotonic() - began


def _idle(cluster: Cluster, weather: Weather, plan: Plan) -> int:
    """Return how many writes the store gets while nobody wants anything, with standbys."""
    time.sleep(SETTLE_TIMEOUTS * cluster.timeout_s)
    before, document = weather.writes, cluster.document()
    time.sleep(plan.idle_s)
    writes = weather.writes - before
    if writes or cluster.document().seq != document.seq:
        cluster.problems.append(f"an idle system wrote {writes} times within {plan.idle_s:.0f} s")
    return writes
