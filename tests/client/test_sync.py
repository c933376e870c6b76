"""The clients that a process shares: threads, other event loops, forks, settings, the end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings

import objq
from objq import Unknown
from objq.client.shared import shared
from objq.client.watching import Disconnected
from objq.core import ops
from objq.core.requests import parse_request
from objq.errors import ConfigurationError, NoDocument
from objq.store.open import open_store
from tests.client.localbroker import LocalBroker

ROOT = Path(__file__).resolve().parents[2]


def job(number: int) -> ops.NewJob:
    return ops.NewJob(id=f"job-{number}", task="shop.tasks.send")


def options(**changed: Any) -> dict[str, Any]:
    backend = "objq.backend.ObjqBackend"
    return {"default": {"BACKEND": backend, "OPTIONS": {"STORAGE": "objq", **changed}}}


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[None]:
    place = {
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {"location": str(tmp_path)},
    }
    with override_settings(STORAGES={"objq": place}, TASKS=options()):
        yield
    shared.reset()


@pytest.fixture
def broker(storage: None) -> Iterator[LocalBroker]:
    with LocalBroker(open_store("objq", "queue.json")) as running:
        yield running
        shared.reset()


def test_fifty_threads_share_one_connection_and_few_frames(broker: LocalBroker) -> None:
    client = objq.connect()
    client.stats()
    together = threading.Barrier(50)

    def push(number: int) -> ops.Outcomes:
        together.wait()
        return client.push([job(number)])

    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(push, range(50)))

    assert all(answer.items[0].state == "ready" for answer in answers)
    assert len(broker.document().jobs) == 50
    assert broker.connections == 1
    assert len(broker.frames) < 50
    keys = [parse_request(push.request) for push in broker.pushes]
    assert len({key.prefix for key in keys if key}) == 1
    assert sorted(key.number for key in keys if key) == list(range(1, 51))


async def test_any_loop_shares_the_connection(broker: LocalBroker) -> None:
    client = await objq.aconnect()
    await asyncio.gather(*(client.push([job(number)]) for number in range(20)))
    other: list[ops.Jobs] = []

    async def from_another_loop() -> None:
        mine = await objq.aconnect()
        other.append(await mine.get(["job-1"]))

    await asyncio.to_thread(lambda: asyncio.run(from_another_loop()))

    assert other[0].jobs[0] is not None
    assert broker.connections == 1


async def test_blocking_client_inside_a_running_loop_does_not_deadlock(broker: LocalBroker) -> None:
    assert objq.connect().push([job(1)]).items[0].state == "ready"


async def test_cancelled_waiter_cancels_only_its_call(broker: LocalBroker) -> None:
    client = await objq.aconnect()
    await client.stats()
    broker.deaf.set()
    broker.heard.clear()
    call = asyncio.create_task(client.push([job(1)]))
    await asyncio.to_thread(broker.heard.wait, 10)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    broker.deaf.clear()
    assert (await client.push([job(2)])).items[0].state == "ready"
    assert broker.connections == 1


def test_every_operation_has_a_method(broker: LocalBroker) -> None:
    client = objq.connect()
    client.push([job(number) for number in range(5)])
    tokens = [grant.token for grant in client.claim(max_jobs=3).jobs]
    assert len(tokens) == 3
    client.complete([ops.Completion(token=tokens[0])])
    client.fail([ops.Failure(token=tokens[1], error=ops.JobError(type="x.Y"), retry_after=None)])
    client.release(tokens[2:])
    client.cancel(["job-3"], "ready")
    client.delete(["job-4"], "ready")
    client.retry(["job-1"])
    client.pause("default")
    client.resume("default")
    later = ops.NewJob(id="job-9", task="shop.tasks.send", run_after=253402300799999)
    client.push([later])
    client.run_now(["job-9"])
    states = [view and view.state for view in client.get([f"job-{n}" for n in range(10)]).jobs]
    assert states == [
        *("succeeded", "ready", "ready", "cancelled", None, None, None, None, None, "ready"),
    ]
    assert client.stats().queues["default"].ready == 3


def test_cut_connection_is_opened_anew(broker: LocalBroker) -> None:
    client = objq.connect()
    client.push([job(1)])
    broker.cut_all()
    client.push([job(2)])
    assert len(broker.document().jobs) == 2
    assert broker.connections == 2


def test_no_broker_pushes_directly_and_raises_without_a_document(storage: None) -> None:
    with override_settings(TASKS=options(ENQUEUE_TIMEOUT=0.4)):
        with pytest.raises(NoDocument, match="runbroker"):
            objq.connect().push([job(1)])
        store = open_store("objq", "queue.json")
        with LocalBroker(store) as running:
            pass
        assert objq.connect().push([job(1)]).items[0].state == "ready"
        assert list(running.document().jobs) == ["job-1"]


def test_change_of_settings_opens_anew(broker: LocalBroker) -> None:
    client = objq.connect()
    client.push([job(1)])
    with override_settings(TASKS=options(ENQUEUE_TIMEOUT=5)):
        client.push([job(2)])
        assert broker.connections == 2


def test_a_watch_outlives_the_client_under_it(broker: LocalBroker) -> None:
    with objq.connect().watch() as watch, ThreadPoolExecutor(1) as pool:
        assert isinstance(watch.next(), ops.Statistics)
        waiting = pool.submit(watch.next)
        shared.reset()
        assert isinstance(waiting.result(), Disconnected)
        assert isinstance(watch.next(), ops.Statistics)


def test_a_watch_outlives_its_client_also_where_no_broker_leads(storage: None) -> None:
    with objq.connect().watch() as watch, ThreadPoolExecutor(1) as pool:
        assert isinstance(watch.next(), Disconnected)
        assert watch.next(timeout_s=0.01) is None
        waiting = pool.submit(watch.next)
        shared.reset()
        assert isinstance(waiting.result(), Disconnected)
        assert isinstance(watch.next(), Disconnected), "and begins anew"
    shared.reset()
    assert watch.next() is None, "closed is closed, whatever becomes of the client"


def test_a_watch_that_is_closed_after_its_client_opens_none_anew(storage: None) -> None:
    watch = objq.connect().watch()
    assert isinstance(watch.next(), Disconnected)
    shared.reset()
    with override_settings(TASKS={}):
        watch.close()
    assert not shared.is_prepared("default")


async def test_a_watch_on_another_loop_outlives_the_client_under_it(broker: LocalBroker) -> None:
    watch = (await objq.aconnect()).watch()
    assert isinstance(await anext(watch), ops.Statistics)
    waiting = asyncio.create_task(anext(watch))
    await asyncio.sleep(0)
    await asyncio.to_thread(shared.reset)
    assert isinstance(await waiting, Disconnected)
    assert isinstance(await anext(watch), ops.Statistics)
    await watch.aclose()


class Counting:
    """A session of which nothing is asked but a watch, whose events are 1, 2, 3 …"""

    def __init__(self) -> None:
        self.told = 0

    def watch(self) -> Counting:
        return self

    async def __anext__(self) -> Any:
        self.told += 1
        return self.told

    async def close(self) -> None:
        pass

    aclose = close


@pytest.fixture
def hold(storage: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Let the background loop do nothing until the event is set."""
    released = threading.Event()
    monkeypatch.setattr("objq.client.shared.open_session", lambda *_, **__: Counting())

    async def wait(_session: object) -> None:
        released.wait(10)

    shared.run("default", wait)
    yield released
    released.set()


def test_an_event_that_comes_as_the_caller_gives_up_is_not_lost(hold: threading.Event) -> None:
    watch = objq.connect().watch()
    assert watch.next(timeout_s=0.01) is None
    hold.set()
    events: list[Any] = [watch.next() for _ in range(3)]
    assert events == [1, 2, 3]


async def test_on_another_loop_neither(hold: threading.Event) -> None:
    watch = (await objq.aconnect()).watch()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(watch), 0.01)
    hold.set()
    events: list[Any] = [await anext(watch) for _ in range(3)]
    assert events == [1, 2, 3]


def test_unknown_alias_is_named() -> None:
    with pytest.raises(ConfigurationError, match="defualt"):
        objq.connect("defualt")


def test_reset_tells_who_still_waits(broker: LocalBroker) -> None:
    client = objq.connect()
    client.stats()
    broker.deaf.set()
    broker.heard.clear()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.push, [job(1)])
        assert broker.heard.wait(10)
        shared.reset()
        with pytest.raises(Unknown) as caught:
            waiting.result(10)
    assert caught.value.ids == ("job-1",)


def test_keyboard_interrupt_leaves_the_client_usable(broker: LocalBroker) -> None:
    client = objq.connect()
    client.stats()
    broker.deaf.set()
    broker.heard.clear()

    def interrupt() -> None:
        broker.heard.wait(10)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        client.push([job(1)])
    thread.join()
    broker.deaf.clear()
    assert client.push([job(2)]).items[0].state == "ready"
    assert broker.connections == 1


def test_the_loop_of_the_client_does_not_wait_for_itself(broker: LocalBroker) -> None:
    client = objq.connect()
    client.stats()

    async def inside() -> None:
        client.stats()

    assert shared._thread is not None
    with pytest.raises(RuntimeError, match="itself"):
        shared._thread.submit(inside()).result(10)


def test_importing_objq_needs_no_settings() -> None:
    script = "import objq, sys; assert 'django.conf' not in sys.modules; print(objq.__version__)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "DJANGO_SETTINGS_MODULE": "missing"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.stdout.strip(), done.stderr) == (objq.__version__, "")


def _run(script: str, tmp_path: Path) -> Any:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(Path(__file__).parent / script), str(tmp_path)],
        env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout.splitlines()[-1])


def test_forked_child_starts_afresh_and_the_parent_goes_on(tmp_path: Path) -> None:
    seen = _run("forking.py", tmp_path)
    parent_before, child, parent_after = seen["prefixes"]
    assert parent_before == parent_after
    assert child != parent_before
    assert seen["jobs"] == ["before", "child", "after"]
    assert seen["connections"] == 2
    assert seen["child_status"] == 0


def test_process_that_ends_loses_nothing_acked_and_does_not_hang(tmp_path: Path) -> None:
    seen = _run("ending.py", tmp_path)
    assert seen["acked"] == 20


@pytest.mark.parametrize(
    ("method", "more", "what"),
    [
        ("get", (), "ids"),
        ("cancel", ("ready",), "ids"),
        ("retry", (), "ids"),
        ("delete", ("ready",), "ids"),
        ("run_now", (), "ids"),
        ("release", (), "tokens"),
        ("heartbeat", (), "tokens"),
        ("claim", (), "queues"),
    ],
)
async def test_a_text_is_not_taken_for_a_list_of_its_letters(
    method: str, more: tuple[str, ...], what: str
) -> None:
    """Neither face gets as far as to connect: there is no queue here."""
    said = rf"{method} takes a list of {what}; pass \[\"abc\"\]\."
    with pytest.raises(TypeError, match=said):
        getattr(objq.connect(), method)("abc", *more)
    with pytest.raises(TypeError, match=said):
        await getattr(await objq.aconnect(), method)("abc", *more)
