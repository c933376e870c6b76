"""group-commit: many clients push one job at a time, each waiting for its ack, on a slow store.

Two processes on two cores, as in life: this one is the clients (and the workers that drain), the
other is the broker. Every ack comes after the commit that holds the job, so a client that pushes
again at once just misses the write that began with its ack: C clients get C / 2 L pushes a second
from the plain loop, and up to C / L where the loop waits a moment for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator
from typing import Any

import django
from websockets.asyncio.client import ClientConnection, connect

RUNS = ((1000, 0.2), (300, 0.05))
"""Clients, and the time of one write in seconds."""

WARM_UP_S = 3.0
MEASURE_S = 10.0
OPENED_AT_ONCE = 50
CLAIM_MOST = 1000
WORKERS = 3
"""Each claims and completes in turn, which takes two commits: fewer would leave a backlog."""


def run() -> dict[str, Any]:
    """Measure each of `RUNS`; return the figures of the first, with the others under `also`."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "bench.settings")
    django.setup()
    rows = [asyncio.run(measure(clients, latency_s)) for clients, latency_s in RUNS]
    keys = list(rows[0])
    print("group-commit")
    print("  " + "  ".join(f"{key:>13}" for key in keys))
    for row in rows:
        print("  " + "  ".join(f"{row[key]:>13}" for key in keys))
    return {**rows[0], "also": rows[1:]}


async def measure(clients: int, latency_s: float) -> dict[str, Any]:
    async with a_broker(latency_s) as (url, token, port):
        load = Load(url, token)
        await load.open(clients)
        tasks = [asyncio.create_task(load.drain()) for _ in range(WORKERS)]
        tasks += [asyncio.create_task(load.push(socket)) for socket in load.sockets]
        await asyncio.sleep(WARM_UP_S)
        load.latencies.clear()
        before, began, cpu_s = counters(port), time.perf_counter(), time.process_time()
        await asyncio.sleep(MEASURE_S)
        latencies, took_s = sorted(load.latencies), time.perf_counter() - began
        after, cpu_s = counters(port), time.process_time() - cpu_s
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        for outcome in ended:
            if not isinstance(outcome, asyncio.CancelledError):
                raise RuntimeError("a client ended early") from outcome
        await load.close()
    pushes_per_s = len(latencies) / took_s
    return {
        "clients": clients,
        "latency_s": latency_s,
        "pushes_per_s": round(pushes_per_s, 1),
        "share_of_c_2l": round(pushes_per_s / (clients / (2 * latency_s)), 3),
        "p50_s": round(latencies[len(latencies) // 2], 3),
        "p99_s": round(latencies[len(latencies) * 99 // 100], 3),
        "writes_per_s": round((after["writes"] - before["writes"]) / took_s, 2),
        "max_in_flight": after["max_in_flight"],
        "drained_per_s": round(load.drained / (WARM_UP_S + took_s), 1),
        "broker_cpu": round((after["cpu_s"] - before["cpu_s"]) / took_s, 2),
        "clients_cpu": round(cpu_s / took_s, 2),
    }


@contextlib.asynccontextmanager
async def a_broker(latency_s: float) -> AsyncIterator[tuple[str, str, int]]:
    process = subprocess.Popen(  # our own module
        [sys.executable, "-m", "bench.broker", str(latency_s)],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "bench.settings"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = await asyncio.to_thread(process.stdout.readline)
        if not line:
            raise RuntimeError("the broker did not start")
        ready = json.loads(line)
        yield ready["url"], ready["token"], ready["port"]
    finally:
        process.terminate()
        process.communicate()


def counters(port: int) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/bench") as reply:
        found: dict[str, Any] = json.load(reply)
        return found


class Load:
    """The clients. They speak the wire by hand, so that they cost as little as may be."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self.headers = {"Authorization": f"Bearer {token}"}
        self.sockets: list[ClientConnection] = []
        self.latencies: list[float] = []
        self.drained = 0
        self._numbers = itertools.count(1)
        self.seq = 0

    async def open(self, clients: int) -> None:
        gate = asyncio.Semaphore(OPENED_AT_ONCE)

        async def one() -> ClientConnection:
            async with gate:
                return await self.open_socket()

        self.sockets = list(await asyncio.gather(*(one() for _ in range(clients))))

    async def push(self, socket: ClientConnection) -> None:
        """Push a job, wait for its ack, push the next, for ever."""
        prefix = f"{self.seq}-{next(self._numbers)}"
        for number in itertools.count(1):
            job = {"id": f"{prefix}:{number}", "task": "bench.tasks.nothing", "args": [number]}
            request = f"{prefix}:{number}"
            began = time.perf_counter()
            await socket.send(
                json.dumps({"id": number, "op": "push", "request": request, "jobs": [job]})
            )
            expect_ok(json.loads(await socket.recv()))
            self.latencies.append(time.perf_counter() - began)

    async def drain(self) -> None:
        """Claim and complete, as workers do, a thousand at a time."""
        socket = await self.open_socket()
        prefix = f"{self.seq}-worker-{next(self._numbers)}"
        for number in itertools.count(1):
            claim = f"{prefix}:{number}"
            message = {"id": 1, "op": "claim", "claim": claim, "max": CLAIM_MOST, "wait": 5}
            await socket.send(json.dumps(message))
            granted = expect_ok(json.loads(await socket.recv()))
            items = [{"token": job["token"]} for job in granted.get("jobs", ())]
            if items:
                await socket.send(json.dumps({"id": 2, "op": "complete", "items": items}))
                expect_ok(json.loads(await socket.recv()))
                self.drained += len(items)

    async def close(self) -> None:
        await asyncio.gather(*(socket.close() for socket in self.sockets))

    async def open_socket(self) -> ClientConnection:
        socket = await connect(
            self.url, additional_headers=self.headers, compression=None, ping_interval=None
        )
        await socket.send(json.dumps({"id": 0, "op": "hello", "client": "bench"}))
        self.seq = expect_ok(json.loads(await socket.recv()))["seq"]
        return socket


def expect_ok(reply: Any) -> dict[str, Any]:
    (message,) = reply if isinstance(reply, list) else [reply]
    if "ok" not in message or any("error" in item for item in message["ok"].get("items", ())):
        raise RuntimeError(f"refused: {message}")
    ok: dict[str, Any] = message["ok"]
    return ok
