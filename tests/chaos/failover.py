"""How long nobody's push is acked when the leader is killed and a standby is there."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tests.chaos.cluster import BROKERS, Cluster
from tests.chaos.ledger import Push, read_pushes

RATE = 40.0
"""Pushes a second: how finely the time is told."""

SETTLE_S = (1.0, 2.0)
"""Between the return of the killed broker as a standby and the next kill, drawn from this range."""

GIVEN_UP_S = 60.0
AIM_S = 1.0
AIM_WRITES = 3
"""The median is to be at most `AIM_S` and so many times a write."""


def measure(cluster: Cluster, kills: int) -> dict[str, Any]:
    """Kill the leader so many times; return the figures, with what clients were told."""
    offset = _size(cluster)
    pusher = cluster.pusher(GIVEN_UP_S * (kills + 1), RATE, 0.0)
    cluster.stack.until(lambda: bool(_acks(cluster, offset)), GIVEN_UP_S)
    times_s: list[float] = []
    writes_s, writes = 0.0, 0
    before = {name: cluster.commits(name) for name in BROKERS}
    for _ in range(kills):
        time.sleep(cluster.random.uniform(*SETTLE_S))
        leader = cluster.leader()
        if leader is None:
            cluster.problems.append("failover: nobody leads, and nobody was killed")
            break
        seconds, number = cluster.commits(leader)
        earlier_s, earlier = before.pop(leader, (0.0, 0))
        writes_s, writes = writes_s + seconds - earlier_s, writes + number - earlier
        times_s.append(_kill(cluster, leader))
        cluster.start(leader)
        cluster.stack.wait_ready(leader, cluster.ports[leader])
    cluster.kill(pusher)
    pushes = read_pushes(cluster.pushes, offset).values()
    return _figures(times_s, list(pushes), writes_s / max(1, writes))


def _kill(cluster: Cluster, leader: str) -> float:
    """Kill the leader; return the seconds until a push is acked that began after that.

    One that began before may have been acked by the dead broker.
    """
    offset = _size(cluster)
    at = cluster.kill(leader)

    def acked() -> list[float]:
        return _acks(cluster, offset, since=at)

    cluster.stack.until(lambda: bool(acked()), GIVEN_UP_S)
    return min(acked()) - at


def _size(cluster: Cluster) -> int:
    return cluster.pushes.stat().st_size if cluster.pushes.exists() else 0


def _acks(cluster: Cluster, offset: int, since: float = 0.0) -> list[float]:
    return [
        push.ended
        for push in read_pushes(cluster.pushes, offset).values()
        if push.told == "ok" and push.began >= since and push.ended is not None
    ]


def _figures(times_s: Sequence[float], pushes: Sequence[Push], write_s: float) -> dict[str, Any]:
    told = Counter(push.told for push in pushes if push.told != "open")
    failed = [f"{push.told} ({push.detail})" for push in pushes if push.told not in ("ok", "open")]
    p50_s = sorted(times_s)[len(times_s) // 2] if times_s else 0.0
    slowest_s = max((push.ended - push.began for push in pushes if push.ended), default=0.0)
    return {
        "kills": len(times_s),
        "p50_s": round(p50_s, 3),
        "max_s": round(max(times_s, default=0.0), 3),
        "write_s": round(write_s, 4),
        "aim_s": round(AIM_S + AIM_WRITES * write_s, 3),
        "within_aim": p50_s <= AIM_S + AIM_WRITES * write_s,
        "calls": told.total(),
        "calls_failed": len(failed),
        "failures": failed[:5],
        "slowest_call_s": round(slowest_s, 3),
    }
