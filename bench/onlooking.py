"""What ten open dashboards cost those who push.

Rounds of pushing with ten dashboards open and with none take turns, so that whatever else the
machine does meets both. What counts is the ratio of two neighbours; and, on a machine that has more
to do, how much more processor time a commit costs the broker, of which others take nothing away.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from bench.group_commit import Load, counters

CLIENTS = 100
WORKERS = 2
DASHBOARDS = (
    *({"page": "overview"},) * 5,
    {"page": "jobs"},
    {"page": "jobs", "state": "ready"},
    {"page": "jobs", "queue": "default"},
    {"page": "jobs", "state": "dead"},
    {"page": "jobs", "task": "bench.tasks.nothing"},
)
PAIRS = 20
OPEN_WITHIN_S = 60.0
WARM_UP_S = 1.0
MEASURE_S = 2.0

BASE = "/admin/objq_dashboard/queue/"


async def compare(load: Load, site: dict[str, Any], port: int) -> dict[str, Any]:
    """Push with dashboards and without, in turns; return how the rates compare."""
    await load.open(CLIENTS)
    tasks = [asyncio.create_task(load.drain()) for _ in range(WORKERS)]
    tasks += [asyncio.create_task(load.push(socket)) for socket in load.sockets]
    rounds: dict[bool, list[dict[str, float]]] = {False: [], True: []}
    await a_round(load, site, port, looked_on=True)  # warms up
    for pair in range(PAIRS):
        for looked_on in (False, True) if pair % 2 else (True, False):
            rounds[looked_on].append(await a_round(load, site, port, looked_on=looked_on))
    for task in tasks:
        task.cancel()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        if not isinstance(outcome, asyncio.CancelledError):
            raise RuntimeError("a client ended early") from outcome
    await load.close()
    return summary(rounds)


async def a_round(
    load: Load, site: dict[str, Any], port: int, *, looked_on: bool
) -> dict[str, float]:
    async with dashboards(site, DASHBOARDS if looked_on else ()) as received:
        await asyncio.sleep(WARM_UP_S)
        before, began, site_s = counters(port), time.perf_counter(), cpu_s(site["pid"])
        load.latencies.clear()
        got = sum(received)
        await asyncio.sleep(MEASURE_S)
        took_s, latencies = time.perf_counter() - began, sorted(load.latencies)
        after = counters(port)
        commits, broker_s = after["writes"] - before["writes"], after["cpu_s"] - before["cpu_s"]
        return {
            # Each client pushes again as soon as it is acked. Counted, they would come in lots of a
            # whole commit, of which a round has few.
            "pushes_per_s": CLIENTS * len(latencies) / sum(latencies),
            "p50_ms": 1e3 * latencies[len(latencies) // 2],
            "commits_per_s": commits / took_s,
            "broker_cpu": broker_s / took_s,
            "broker_ms_per_commit": 1e3 * broker_s / commits,
            "site_cpu": (cpu_s(site["pid"]) - site_s) / took_s,
            "messages_per_s": (sum(received) - got) / took_s,
        }


@contextlib.asynccontextmanager
async def dashboards(
    site: dict[str, Any], pages: tuple[dict[str, str], ...]
) -> AsyncIterator[list[int]]:
    """Look on, as so many browsers; yield how many messages each has received."""
    received = [0] * len(pages)
    all_open = asyncio.Event()
    if not pages:
        all_open.set()
    address = f"ws://127.0.0.1:{site['port']}{BASE}live/"
    headers = {
        "Cookie": f"sessionid={site['session']}",
        "Origin": f"http://127.0.0.1:{site['port']}",
    }
    sockets = []
    for page in pages:
        query = {"backend": "default", "language": "en-us", "zone": "UTC", **page}
        sockets.append(
            await connect(
                f"{address}?{urlencode(query)}",
                additional_headers=headers,
                subprotocols=[Subprotocol("objq"), Subprotocol(site["pass"])],
                compression=None,
            )
        )

    async def look_on(number: int, socket: ClientConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            async for _ in socket:
                received[number] += 1
                if all(received):
                    all_open.set()
                await socket.send('{"got":true}')

    tasks = [asyncio.create_task(look_on(*each)) for each in enumerate(sockets)]
    try:
        async with asyncio.timeout(OPEN_WITHIN_S):
            await all_open.wait()
        yield received
    finally:
        await asyncio.gather(*(socket.close() for socket in sockets))
        await asyncio.gather(*tasks)


def cpu_s(pid: int) -> float:
    """Return the processor time of another process so far; 0 where there is no /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def summary(rounds: dict[bool, list[dict[str, float]]]) -> dict[str, Any]:
    slower = [1 - ratio for ratio in _ratios(rounds, "pushes_per_s")]
    dearer = [ratio - 1 for ratio in _ratios(rounds, "broker_ms_per_commit")]
    found: dict[str, Any] = {
        "dashboards": len(DASHBOARDS),
        "pairs": len(slower),
        "slower_percent": _percent(statistics.median(slower)),
        "slower_percent_quartiles": [_percent(each) for each in _quartiles(slower)],
        "slower_percent_undisturbed": _percent(_undisturbed(rounds)),
        "broker_dearer_percent": _percent(statistics.median(dearer)),
        "broker_dearer_percent_quartiles": [_percent(each) for each in _quartiles(dearer)],
    }
    print(f"  {f'{CLIENTS} clients, dashboards:':<24}{'none':>10}{len(DASHBOARDS):>10}")
    for key in rounds[True][0]:
        without, with_them = (
            round(statistics.median(each[key] for each in rounds[looked_on]), 2)
            for looked_on in (False, True)
        )
        print(f"  {key:<24}{without:>10}{with_them:>10}")
        found[key] = [without, with_them]
    print(f"  slower by {found['slower_percent']} %, quartiles {found['slower_percent_quartiles']}")
    print(f"  in the fastest quarter of the rounds by {found['slower_percent_undisturbed']} %")
    print(
        f"  processor time of the broker for a commit: {found['broker_dearer_percent']:+} %, "
        f"quartiles {found['broker_dearer_percent_quartiles']}"
    )
    return found


def _ratios(rounds: dict[bool, list[dict[str, float]]], key: str) -> list[float]:
    """Return for each pair the figure with dashboards, as a share of that without."""
    return [a[key] / b[key] for a, b in zip(rounds[True], rounds[False], strict=True)]


def _undisturbed(rounds: dict[bool, list[dict[str, float]]]) -> float:
    """Return by how much those rounds are slower that the rest of the machine disturbed least."""
    rates = {}
    for looked_on, each in rounds.items():
        fastest = sorted((round_["pushes_per_s"] for round_ in each), reverse=True)
        rates[looked_on] = statistics.mean(fastest[: max(1, len(fastest) // 4)])
    return 1 - rates[True] / rates[False]


def _quartiles(values: list[float]) -> tuple[float, float]:
    low, _, high = statistics.quantiles(values, n=4)
    return low, high


def _percent(share: float) -> float:
    return round(100 * share, 1)
