"""Workers as real processes, beside a real broker with its document in a folder."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from msgspec import Raw

from objq import conf
from objq.client.client import Client
from objq.client.opening import open_session
from objq.core.ops import JobView, NewJob
from objq.errors import ObjqError
from tests.supervise import free_ports
from tests.worker.configured import T_S, storages, tasks
from tests.worker.meeting import PATIENCE_S, MeetingPoint, meeting_point

LOOK_EVERY_S = 0.05


class Site:
    """A folder with a queue, and the processes that work on it."""

    def __init__(self, folder: Path, client: Client, point: MeetingPoint) -> None:
        self.folder = folder
        self.client = client
        self.point = point
        (self.port,) = free_ports(1)
        self._processes: list[asyncio.subprocess.Process] = []
        self._number = 0

    async def start(self, *command: str, **environ: str) -> asyncio.subprocess.Process:
        with (self.folder / "log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "django", *command),
                env={
                    **os.environ,
                    "DJANGO_SETTINGS_MODULE": "tests.worker.site",
                    "OBJQ_TEST_FOLDER": str(self.folder),
                    "PYTHONPATH": os.pathsep.join([".", "dashboard"]),
                    **environ,
                },
                cwd=Path(__file__).parents[2],
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._processes.append(process)
        return process

    async def start_broker(self) -> asyncio.subprocess.Process:
        return await self.start("runbroker", "--bind", f"127.0.0.1:{self.port}")

    async def start_worker(self, *options: str, **environ: str) -> asyncio.subprocess.Process:
        return await self.start("objq_worker", *options, **environ)

    def job(self, task: str, *args: Any, **changes: Any) -> NewJob:
        self._number += 1
        return NewJob(
            id=f"job-{self._number}",
            task=f"tests.worker.chores.{task}",
            args=Raw(json.dumps(args).encode()),
            **changes,
        )

    async def push_all(self, *jobs: NewJob) -> list[str]:
        answer = await self.client.push(jobs, timeout_s=PATIENCE_S)
        assert [item.error for item in answer.items] == [None] * len(jobs)
        return [job.id for job in jobs]

    async def push(self, task: str, *args: Any, **changes: Any) -> str:
        return (await self.push_all(self.job(task, *args, **changes)))[0]

    async def get(self, job: str) -> JobView:
        view = (await self.client.get([job], timeout_s=PATIENCE_S)).jobs[0]
        assert view is not None
        return view

    async def until(self, job: str, what: Callable[[JobView], bool]) -> JobView:
        """Return the job as soon as it is so."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                view = await self.get(job)
                if what(view):
                    return view
                await asyncio.sleep(LOOK_EVERY_S)

    async def ended(self, job: str) -> JobView:
        return await self.until(job, lambda view: view.finished_at is not None)

    async def logged(self, text: str) -> None:
        """Return as soon as a process has written this."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                if text in (self.folder / "log").read_text():
                    return
                await asyncio.sleep(LOOK_EVERY_S)

    async def stop(self) -> None:
        for process in self._processes:
            if process.returncode is None:
                process.kill()
            await process.wait()


@pytest_asyncio.fixture
async def site(tmp_path: Path, settings: Any) -> AsyncIterator[Site]:
    settings.STORAGES, settings.TASKS = storages(str(tmp_path)), tasks(30.0)
    session = open_session(conf.options_for("default"), role="manage")
    async with meeting_point() as point:
        made = Site(tmp_path, Client(session), point)
        try:
            await made.start_broker()
            await _ready(made)
            yield made
        finally:
            await made.stop()
            await session.close()


async def _ready(site: Site) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await site.client.stats()
            except ObjqError:
                await asyncio.sleep(LOOK_EVERY_S)
            else:
                return


async def ended(process: asyncio.subprocess.Process) -> int:
    return await asyncio.wait_for(process.wait(), PATIENCE_S)


async def test_the_job_of_a_killed_worker_is_run_by_the_next_and_the_attempt_counts(
    site: Site,
) -> None:
    first = await site.start_worker()
    job = await site.push("wait_for_word", site.point.port, "it")
    guest = await site.point.next()
    await site.until(job, lambda view: bool(view.claim and view.claim.started_at))
    os.kill(guest.pid, signal.SIGKILL)
    assert await ended(first) == -signal.SIGKILL

    await site.start_worker()
    guest = await site.point.next()
    assert guest.attempt == 2
    guest.go_on()
    view = await site.ended(job)
    assert (view.state, view.attempts) == ("succeeded", 2)
    assert [attempt.outcome for attempt in view.history] == ["expired", "succeeded"]


@pytest.mark.parametrize("task", ["wait_for_word", "block_the_task_loop"])
async def test_a_job_that_blocks_keeps_its_heartbeats(site: Site, task: str) -> None:
    await site.start_worker()
    job = await site.push(task, site.point.port, "it")
    guest = await site.point.next()
    beyond_ms = 1.5 * T_S * 1000

    def beaten(view: JobView) -> bool:
        assert view.claim is not None
        return view.claim.heartbeat_at - view.claim.claimed_at > beyond_ms

    await site.until(job, beaten)
    guest.go_on()
    view = await site.ended(job)
    assert (view.state, view.attempts) == ("succeeded", 1)


async def test_sigterm_drains(site: Site) -> None:
    worker = await site.start_worker("--concurrency", "1")
    await site.ended(await site.push("note", 1))  # who has seen a short job prefetches
    running, waiting = await site.push_all(
        site.job("wait_for_word", site.point.port, "first"),
        site.job("wait_for_word", site.point.port, "second"),
    )
    guest = await site.point.next()
    await site.until(waiting, lambda view: view.state == "running")
    worker.terminate()
    view = await site.until(waiting, lambda view: view.state == "ready")
    assert view.attempts == 0
    assert worker.returncode is None
    guest.go_on()
    assert await ended(worker) == 0
    assert (await site.get(running)).state == "succeeded"


async def test_sigterm_hands_back_a_job_that_outlasts_the_grace_period(site: Site) -> None:
    worker = await site.start_worker(OBJQ_TEST_GRACE="0.5")
    job = await site.push("wait_for_word", site.point.port, "it")
    await site.point.next()
    worker.terminate()
    assert await ended(worker) == 0
    view = await site.get(job)
    assert (view.state, view.attempts) == ("ready", 0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_an_idle_worker_ends_when_it_is_told_to(site: Site, number: signal.Signals) -> None:
    worker = await site.start_worker()
    await site.ended(await site.push("note", 1))
    worker.send_signal(number)
    assert await ended(worker) == 0


async def test_a_second_signal_ends_the_worker_at_once(site: Site) -> None:
    worker = await site.start_worker()
    job = await site.push("wait_for_word", site.point.port, "it")
    await site.point.next()
    other = await site.push("wait_for_word", site.point.port, "other", queue="mail")
    await site.point.next()
    worker.terminate()
    worker.terminate()
    while worker.returncode is None:  # two signals at a time may arrive as one
        worker.terminate()
        await asyncio.sleep(LOOK_EVERY_S)
    assert worker.returncode == 128 + signal.SIGTERM
    assert {(await site.get(job)).state, (await site.get(other)).state} == {"running"}


async def test_a_thread_that_a_job_left_keeps_the_process_no_longer_than_the_grace(
    site: Site,
) -> None:
    worker = await site.start_worker(OBJQ_TEST_GRACE="0.5")
    await site.ended(await site.push("leave_a_thread"))
    worker.terminate()
    assert await ended(worker) == 0
    await site.logged("threads that jobs left (left behind)")


async def test_a_second_signal_ends_a_worker_that_waits_for_a_thread_of_a_job(site: Site) -> None:
    worker = await site.start_worker()
    await site.ended(await site.push("leave_a_thread"))
    worker.terminate()
    await site.logged("has ended")
    while worker.returncode is None:
        worker.terminate()
        await asyncio.sleep(LOOK_EVERY_S)
    assert worker.returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize("how", ["closed", "none", "junk"])
async def test_a_job_that_spoils_the_streams_harms_neither_the_worker_nor_its_log(
    site: Site, how: str
) -> None:
    worker = await site.start_worker("--concurrency", "1")
    spoiling = await site.push("spoil_the_streams", how)
    assert (await site.ended(spoiling)).state == "succeeded"
    after = await site.ended(await site.push("note", 1))
    assert after.state == "succeeded"
    await site.logged(f"{after.id} (tests.worker.chores.note) succeeded")
    if how == "closed":
        assert (await site.ended(await site.push("say", "still heard"))).state == "succeeded"
    worker.terminate()
    assert await ended(worker) == 0
    if how == "closed":
        await site.logged("still heard")


@pytest.mark.parametrize(
    ("task", "end", "status"),
    [
        ("fork_and", "exit", 5),
        ("fork_and", "raise", 1),
        ("fork_and", "return", 0),
        ("fork_later_and", "exit", 5),
        ("fork_later_and", "return", 0),
        ("fork_later_and", "wait", 1),
    ],
)
async def test_a_child_that_a_job_forks_ends_where_the_code_of_the_job_ends(
    site: Site, task: str, end: str, status: int
) -> None:
    job = await site.push(task, end)
    assert await ended(await site.start_worker("--burst")) == 0
    view = await site.get(job)
    assert (view.state, view.attempts, view.result) == ("succeeded", 1, Raw(b"%d" % status))


async def test_a_job_that_kills_every_worker_ends_dead_and_the_others_run(site: Site) -> None:
    others = [await site.push("note", number) for number in range(4)]
    poison = await site.push("kill_the_worker", max_attempts=2)
    others += [await site.push("note", number) for number in range(4, 9)]

    wanted = True

    async def keep_a_worker() -> None:
        while wanted:
            await (await site.start_worker("--concurrency", "2")).wait()

    keeping = asyncio.create_task(keep_a_worker())
    try:
        dead = await site.ended(poison)
        ended_others = [await site.ended(job) for job in others]
    finally:
        wanted = False
        while not keeping.done():
            await site.stop()
            await asyncio.wait({keeping}, timeout=LOOK_EVERY_S)
    assert dead.state == "dead"
    assert dead.reason == "worker lost"
    assert {view.state for view in ended_others} == {"succeeded"}
    burnt = [view.id for view in ended_others if view.attempts > 1]
    assert len(burnt) <= 1  # the one that ran beside the poison when nobody suspected it yet


async def test_jobs_go_on_when_their_broker_is_killed_and_comes_back(site: Site) -> None:
    broker = site._processes[0]
    await site.start_worker()
    job = await site.push("wait_for_word", site.point.port, "it")
    guest = await site.point.next()
    broker.kill()
    await broker.wait()
    await site.start_broker()
    guest.go_on()
    await _ready(site)
    view = await site.ended(job)
    assert (view.state, view.attempts) == ("succeeded", 1)


async def test_a_burst_does_what_there_is_and_ends(site: Site) -> None:
    jobs = [await site.push("note", number) for number in range(20)]
    worker = await site.start_worker("--burst", "--queue", "default")
    assert await ended(worker) == 0
    assert {(await site.get(job)).state for job in jobs} == {"succeeded"}


async def test_a_worker_takes_jobs_only_from_its_queues(site: Site) -> None:
    mail = await site.push("note", 1, queue="mail")
    default = await site.push("note", 2)
    assert await ended(await site.start_worker("--burst", "--queue", "mail")) == 0
    assert (await site.get(mail)).state == "succeeded"
    assert (await site.get(default)).state == "ready"


async def test_a_result_over_the_limit_of_a_frame_is_left_out_and_the_job_has_succeeded(
    site: Site,
) -> None:
    job = await site.push("give_much", 2_000_000)
    assert await ended(await site.start_worker("--burst")) == 0
    view = await site.get(job)
    assert view.state == "succeeded"
    assert "MAX_RESULT_BYTES" in (view.result_dropped or "")
