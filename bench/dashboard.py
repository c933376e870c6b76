"""dashboard: how fast its pages open over 100,000 jobs, and what looking on costs those who push.

Three processes: a broker, a site under daphne, and this one, which fills the queue, pushes, and is
the browsers. A page is timed by HTTP, with no answer left over from the page before it.
What looking on costs is measured in `onlooking`.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import django

from bench import onlooking
from bench.group_commit import Load, a_broker, expect_ok
from bench.onlooking import BASE

JOBS = 100_000
DEAD = 5_000
FINISHED = 5_000
BATCH = 1_000

LATENCY_S = 0.05
"""Of one write."""

PAGES = {
    "overview": "",
    "jobs": "jobs/",
    "jobs, a state": "jobs/?state=ready",
    "jobs, a queue": "jobs/?queue=backlog&state=ready",
    "jobs, a task": "jobs/?task=shop.tasks.send_{round}",
    "jobs, text of a late one": "jobs/?text=number-{late}.",
    "broker": "broker/",
    "jobs, text of none": "jobs/?text=nowhere-{round}",
    "jobs, an error": "jobs/?error=number+{round}+",
    "dead": "dead/",
    "dead, an error": "dead/?error=number+{round}+",
    "job": "jobs/1-0/",
    "workers": "workers/",
}
"""Each round looks for another text: what took long to find is kept for a while. Overview and
broker, which both show the history, are further apart than that is kept."""

PAGE_ROUNDS = 5
STALE_S = 1.1
"""After which the site asks the broker anew."""


def run() -> dict[str, Any]:
    """Measure pages, then pushing; return the figures of both."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "bench.settings")
    django.setup()
    return asyncio.run(measure())


async def measure() -> dict[str, Any]:
    async with a_broker(LATENCY_S) as (url, token, port):
        load = Load(url, token)
        await fill(load)
        with a_site(url) as site:
            pages = await asyncio.to_thread(time_pages, site)
            print(f"dashboard: one write takes {LATENCY_S} s, {JOBS:,} jobs wait")
            pushing = await onlooking.compare(load, site, port)
    return {"jobs": JOBS, "pages_ms": pages, "pushing": pushing}


# --- the queue -----------------------------------------------------------------------------------


async def fill(load: Load) -> None:
    """Have jobs wait, be dead and be finished, in the numbers that the constants say."""
    socket = await load.open_socket()
    prefix = f"{load.seq}-fill"
    requests = (f"{prefix}:{number}" for number in itertools.count(1))

    async def ask(**message: Any) -> dict[str, Any]:
        await socket.send(json.dumps({"id": 1, **message}))
        return expect_ok(json.loads(await socket.recv()))

    async def push(first: int, queue: str, attempts: int) -> None:
        jobs = [
            {
                "id": f"1-{number}",
                "queue": queue,
                "task": f"library.tasks.index_{number % 20}",
                "args": [number, f"number-{number}."],
                "kwargs": {"language": "en", "revision": number % 1000},
                "max_attempts": attempts,
            }
            for number in range(first, first + BATCH)
        ]
        await ask(op="push", request=next(requests), jobs=jobs)

    for first in range(0, JOBS, BATCH):
        ending = first >= JOBS - DEAD - FINISHED
        await push(first, "ending" if ending else "backlog", 1 if ending else 3)
    for number in range((DEAD + FINISHED) // BATCH):
        claimed = await ask(op="claim", claim=next(requests), queues=["ending"], max=BATCH)
        tokens = [job["token"] for job in claimed["jobs"]]
        if number < FINISHED // BATCH:
            await ask(op="complete", items=[{"token": token} for token in tokens])
            continue
        for at in range(0, BATCH, 250):  # errors are long
            items = [
                {"token": token, "error": an_error(number)}
                for number, token in enumerate(tokens[at : at + 250], start=at)
            ]
            await ask(op="fail", items=items)
    await socket.close()


def an_error(number: int) -> dict[str, str]:
    lines = "".join(f'  File "library/part_{n}.py", line {n}, in step\n' for n in range(20))
    message = f"number {number % 50} has no page"
    return {"type": "LookupError", "message": message, "traceback": f"Traceback:\n{lines}"}


# --- the site ------------------------------------------------------------------------------------


@contextlib.contextmanager
def a_site(broker_url: str) -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(  # our own module
            [sys.executable, "-m", "bench.site"],
            env={
                **os.environ,
                "DJANGO_SETTINGS_MODULE": "bench.site_settings",
                "OBJQ_BENCH_FOLDER": folder,
                "OBJQ_BENCH_BROKER": broker_url,
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise RuntimeError("the site did not start")
            yield {**json.loads(line), "pid": process.pid}
        finally:
            process.terminate()
            process.communicate()


def time_pages(site: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Return for each page the median and the longest of some rounds, in milliseconds."""
    connection = http.client.HTTPConnection("127.0.0.1", site["port"])
    headers = {"Cookie": f"sessionid={site['session']}", "Accept": "text/html"}

    def open_page(path: str) -> tuple[float, bytes]:
        began = time.perf_counter()
        connection.request("GET", BASE + path, headers=headers)
        response = connection.getresponse()
        text = response.read()
        taken = time.perf_counter() - began
        if response.status != 200:
            raise RuntimeError(f"{path} answers {response.status}: {text[:2000]!r}")
        return taken, text

    times: dict[str, list[float]] = {name: [] for name in PAGES}
    for at in range(PAGE_ROUNDS + 1):
        for name, path in PAGES.items():
            time.sleep(STALE_S)
            taken, _ = open_page(path.format(round=at, late=JOBS - 1 - at))
            if at:  # the first loads templates and code
                times[name].append(taken * 1e3)
    connection.close()
    print(f"dashboard: pages over {JOBS:,} jobs, ms")
    print(f"  {'page':<24}{'median':>10}{'longest':>10}")
    found = {}
    for name, taken_ms in times.items():
        row = {"median": round(statistics.median(taken_ms), 1), "longest": round(max(taken_ms), 1)}
        print(f"  {name:<24}{row['median']:>10}{row['longest']:>10}", flush=True)
        found[name] = row
    return found
