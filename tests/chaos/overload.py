"""`python -m tests.chaos.overload --seconds N`: pushes at three times what the broker can commit.

A broker on a store whose writes take `WRITE_S` seconds, with a buffer for so many requests, commits
at most the one per the other. It gets a load that it can bear, three times that bound, and the
first load again. Meanwhile workers drain the queue, and one holds its jobs through all of it.

The last line is one JSON object; the exit status is 0 only if memory stayed bounded, every refusal
said when to try again, every heartbeat and report came through, every acked job ran once and no
refused one did, and the end was as the beginning.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos.line import Line, Message

ROOT = Path(__file__).resolve().parents[2]
WRITE_S = 0.5
BUFFER = 500
"""Requests: a fortieth of the real bound, so that two cores suffice to fill it three times."""

TIMES = 3
CALM = 0.2
"""The load before and after, in terms of what the broker can commit."""

CALM_S = 3.0
TICK_S = 0.05
LINES = 10
DRAINERS = 3
CLAIM_MOST = 1000
HELD = 20
TIMEOUT_S = 10.0
ANSWERED_S = 60.0
"""By then everything has been answered and drained, on any machine."""

REFUSALS = frozenset({"overloaded", "queue_full"})
MAX_GROWTH_MIB = 64.0
"""What the broker may grow by under the load: its buffers, twice, and the document."""


@dataclass
class Phase:
    offered: int = 0
    acked: list[float] = field(default_factory=list)
    """How long each ack took (s)."""
    refused: Counter[str] = field(default_factory=Counter)
    peak_mib: float = 0.0
    took_s: float = 0.0

    def figures(self) -> dict[str, Any]:
        times_s = sorted(self.acked) or [0.0]
        return {
            "offered_per_s": round(self.offered / self.took_s, 1),
            "acked_per_s": round(len(self.acked) / self.took_s, 1),
            "refused": dict(self.refused),
            "p50_s": round(times_s[len(times_s) // 2], 3),
            "max_s": round(times_s[-1], 3),
            "peak_mib": round(self.peak_mib, 1),
        }


class Overload:
    def __init__(self, url: str, token: str, pid: int) -> None:
        self._url, self._token, self._pid = url, token, pid
        self.problems: list[str] = []
        self.acked: set[str] = set()
        self.refused: set[str] = set()
        self.granted: Counter[str] = Counter()
        self.completed: Counter[str] = Counter()
        self.reports: list[float] = []
        self.beats: list[float] = []
        self.claims_refused = 0
        self._completed_more = asyncio.Event()

    def line(self) -> Line:
        return Line(self._url, self._token)

    # --- pushing ---------------------------------------------------------------------------------

    async def phase(self, lines: list[Line], seconds: float, rate: float) -> Phase:
        """Push so many jobs a second, whatever becomes of them; return when all are answered."""
        phase = Phase()
        pushes: list[asyncio.Task[None]] = []
        began = time.monotonic()
        turn = 0
        while (passed_s := time.monotonic() - began) < seconds:
            phase.peak_mib = max(phase.peak_mib, memory_mib(self._pid))
            due = int(passed_s * rate) - phase.offered
            phase.offered += due
            turn += 1
            if due:
                pushes += await self._push(lines[turn % len(lines)], due, phase)
            await asyncio.sleep(TICK_S)
        phase.took_s = time.monotonic() - began
        await self.in_time(asyncio.gather(*pushes), "the answers to pushes")
        phase.peak_mib = max(phase.peak_mib, memory_mib(self._pid))
        return phase

    async def _push(self, line: Line, count: int, phase: Phase) -> list[asyncio.Task[None]]:
        ids = [uuid.uuid4().hex for _ in range(count)]
        jobs = [{"id": each, "task": "tests.nothing"} for each in ids]
        messages: list[Message] = [
            {"op": "push", "request": line.request(), "jobs": [job]} for job in jobs
        ]
        sent_at = time.monotonic()
        replies = await line.send(messages)
        return [
            asyncio.create_task(self._told(each, reply, sent_at, phase))
            for each, reply in zip(ids, replies, strict=True)
        ]

    async def _told(
        self, job_id: str, reply: asyncio.Future[Message], sent_at: float, phase: Phase
    ) -> None:
        message = await reply
        error = message.get("error") or message["ok"]["items"][0].get("error")
        if error is None:
            self.acked.add(job_id)
            phase.acked.append(time.monotonic() - sent_at)
            return
        self.refused.add(job_id)
        phase.refused[error["code"]] += 1
        if error["code"] not in REFUSALS or not error.get("retry_after", 0) > 0:
            self.problems.append(f"a push was refused with {error}")

    # --- working ---------------------------------------------------------------------------------

    async def drain(self) -> None:
        """Claim and complete for ever, as fast as may be."""
        async with self.line() as line:
            while True:
                jobs = await self._claim(line, CLAIM_MOST)
                if jobs:
                    await self._complete(line, jobs)

    async def hold(self, holding: asyncio.Event, over: asyncio.Event) -> None:
        """Hold some jobs, heard every sixth of the timeout; complete the last when it is over."""
        async with self.line() as line:
            jobs: list[Message] = []
            while len(jobs) < HELD:
                jobs += await self._claim(line, HELD - len(jobs))
            holding.set()
            while not over.is_set():
                await self._beat(line, jobs)
                if len(jobs) > 1:  # reports come through meanwhile, too
                    await self._complete(line, [jobs.pop()])
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(over.wait(), TIMEOUT_S / 6)
            await self._complete(line, jobs)

    async def _claim(self, line: Line, most: int) -> list[Message]:
        claim = {"op": "claim", "claim": line.request(), "max": most, "wait": 1}
        reply = await line.ask(claim)
        if "error" in reply:
            self.claims_refused += 1
            if reply["error"]["code"] != "overloaded":
                self.problems.append(f"a claim was refused with {reply['error']}")
            await asyncio.sleep(reply["error"].get("retry_after", 1.0))
            return []
        jobs: list[Message] = reply["ok"].get("jobs", [])
        self.granted.update(job["id"] for job in jobs)
        return jobs

    async def _beat(self, line: Line, jobs: list[Message]) -> None:
        tokens = [job["token"] for job in jobs]
        sent_at = time.monotonic()
        reply = await line.ask({"op": "heartbeat", "tokens": tokens, "started": tokens})
        self.beats.append(time.monotonic() - sent_at)
        if "error" in reply or reply["ok"].get("lost"):
            self.problems.append(f"a heartbeat was answered with {reply}")

    async def _complete(self, line: Line, jobs: list[Message]) -> None:
        items = [{"token": job["token"]} for job in jobs]
        sent_at = time.monotonic()
        reply = await line.ask({"op": "complete", "items": items})
        self.reports.append(time.monotonic() - sent_at)
        outcomes = reply.get("ok", {}).get("items", ())
        if "error" in reply or any("error" in outcome for outcome in outcomes):
            self.problems.append(f"an outcome was answered with {str(reply)[:300]}")
        self.completed.update(job["id"] for job in jobs)
        self._completed_more.set()

    # --- accounting ------------------------------------------------------------------------------

    async def drained(self) -> None:
        """Return when everything that was acked is complete."""
        while not self.acked <= self.completed.keys():
            self._completed_more.clear()
            await self._completed_more.wait()

    async def in_time(self, awaited: Awaitable[object], what: str) -> None:
        """Wait for something, not too long, and say if it did not come."""
        try:
            await asyncio.wait_for(awaited, ANSWERED_S)
        except TimeoutError:
            self.problems.append(f"{what} did not come within {ANSWERED_S:.0f} s")

    def account(self) -> dict[str, int]:
        words = {
            "acked": len(self.acked),
            "refused": len(self.refused),
            "completed": len(self.completed),
            "lost": len(self.acked - self.completed.keys()),
            "unexpected": len(self.granted.keys() - self.acked),
            "duplicated": sum(count > 1 for count in self.granted.values()),
        }
        for word in ("lost", "unexpected", "duplicated"):
            if words[word]:
                self.problems.append(f"{words[word]} jobs are {word}")
        return words


def memory_mib(pid: int) -> float:
    """Return what a process has in memory now."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


async def run(seconds: float) -> dict[str, Any]:
    """Overload a broker for so long; return the report, with `problems` that say what fails."""
    async with a_broker() as (url, token, pid), contextlib.AsyncExitStack() as stack:
        load = Overload(url, token, pid)
        lines = [await stack.enter_async_context(load.line()) for _ in range(LINES)]
        holding, over = asyncio.Event(), asyncio.Event()
        holder = asyncio.create_task(load.hold(holding, over))
        able = BUFFER / WRITE_S
        before = await load.phase(lines, CALM_S, CALM * able)
        await load.in_time(holding.wait(), "jobs to hold")
        drainers = [asyncio.create_task(load.drain()) for _ in range(DRAINERS)]
        during = await load.phase(lines, seconds, TIMES * able)
        over.set()
        await load.in_time(holder, "the answers to who held jobs")
        after = await load.phase(lines, CALM_S, CALM * able)
        await load.in_time(load.drained(), "the completion of all acked jobs")
        for drainer in drainers:
            drainer.cancel()
        for ended in await asyncio.gather(*drainers, return_exceptions=True):
            if not isinstance(ended, asyncio.CancelledError):
                load.problems.append(f"a worker ended with {ended!r}")
    return _report(load, before, during, after)


def _report(load: Overload, before: Phase, during: Phase, after: Phase) -> dict[str, Any]:
    times = during.offered / max(1, len(during.acked))
    account = load.account()
    if times < TIMES - 1:
        load.problems.append(f"no overload: {times:.1f} times what was committed")
    if before.refused or after.refused:
        load.problems.append(f"a bearable load was refused: {before.refused}, {after.refused}")
    grown_mib = max(during.peak_mib, after.peak_mib) - before.peak_mib
    if grown_mib > MAX_GROWTH_MIB:
        load.problems.append(f"the broker has grown by {grown_mib:.0f} MiB")
    return {
        "ok": not load.problems,
        "times": round(times, 1),
        "before": before.figures(),
        "during": during.figures(),
        "after": after.figures(),
        "grown_mib": round(grown_mib, 1),
        "ledger": account,
        "heartbeats": len(load.beats),
        "heartbeat_max_s": round(max(load.beats, default=0.0), 3),
        "reports": len(load.reports),
        "report_max_s": round(max(load.reports, default=0.0), 3),
        "claims_refused": load.claims_refused,
        "problems": load.problems[:20],
    }


@contextlib.asynccontextmanager
async def a_broker() -> AsyncIterator[tuple[str, str, int]]:
    """Run the broker in a process of its own; yield its URL, a token, and its pid."""
    options = {"HEARTBEAT_TIMEOUT": TIMEOUT_S, "MAX_FINISHED": 1000}
    storage = {"BACKEND": "django.core.files.storage.InMemoryStorage"}
    environ = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.e2e.settings",
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "dashboard"))),
        "OBJQ_TEST_STORAGE": json.dumps(storage),
        "OBJQ_TEST_OPTIONS": json.dumps(options),
    }
    command = [sys.executable, "-m", "tests.chaos.smallbroker", str(WRITE_S), str(BUFFER)]
    with subprocess.Popen(command, cwd=ROOT, env=environ, stdout=subprocess.PIPE) as process:  # noqa: ASYNC220 - once
        try:
            assert process.stdout is not None
            line = await asyncio.to_thread(process.stdout.readline)
            if not line:
                raise RuntimeError("the broker did not start")
            ready = json.loads(line)
            yield ready["url"], ready["token"], process.pid
        finally:
            process.terminate()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.overload", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long the load is too much")
    report = asyncio.run(run(parser.parse_args().seconds))
    for problem in report["problems"]:
        print(problem)
    print(json.dumps(report))
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
