"""The hub: one watch however many look on, nothing when nobody does, and its pace."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any

import pytest

import objq
from objq.client.watching import Disconnected
from objq_dashboard.live import hub as hubs
from objq_dashboard.live.hub import AGES_S, PACE_S, RETRY_S, Hub
from tests.virtual import simulate


class FakeClient:
    """In the place of objq's: its watches tell what is put into `events`, or raise it."""

    def __init__(self) -> None:
        self.events: asyncio.Queue[Any] = asyncio.Queue()
        self.opened = 0
        self.closed = 0

    async def __call__(self, alias: str) -> FakeClient:
        return self

    def watch(self) -> FakeClient:
        self.opened += 1
        return self

    def __aiter__(self) -> FakeClient:
        return self

    async def __anext__(self) -> Any:
        event = await self.events.get()
        if isinstance(event, BaseException):
            raise event
        return event

    async def aclose(self) -> None:
        self.closed += 1


Test = Callable[[Hub, FakeClient], Coroutine[Any, Any, None]]


@pytest.fixture
def in_virtual_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[Test], list[str]]:
    """Return what runs a test and returns the aliases that were told to be asked anew."""

    def run_it(test: Test) -> list[str]:
        changed: list[str] = []

        async def main() -> None:
            client = FakeClient()
            monkeypatch.setattr(objq, "aconnect", client, raising=False)
            await test(Hub("default", changed.append), client)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert asyncio.all_tasks() == {asyncio.current_task()}
            assert client.opened == client.closed

        simulate(main())
        return changed

    return run_it


async def wakes(woken: asyncio.Event, for_s: float) -> list[float]:
    """Return after how many seconds it was woken."""
    loop = asyncio.get_running_loop()
    began, times = loop.time(), list[float]()
    try:
        async with asyncio.timeout(for_s):
            while True:
                woken.clear()
                await woken.wait()
                times.append(round(loop.time() - began, 3))
    except TimeoutError:
        return times


def test_all_who_look_on_share_one_watch_and_then_nothing_runs(
    in_virtual_time: Callable[[Test], list[str]],
) -> None:
    async def test(hub: Hub, client: FakeClient) -> None:
        with hub.looking_on() as first:
            with hub.looking_on() as second:
                await asyncio.gather(first.wait(), second.wait())
                assert (client.opened, len(hub)) == (1, 2)
            await asyncio.sleep(10)
            assert (client.opened, client.closed) == (1, 0)
        await asyncio.sleep(0.01)
        assert (client.closed, len(hub)) == (1, 0)
        with hub.looking_on() as again:
            await again.wait()
            assert client.opened == 2

    assert in_virtual_time(test) == []


def test_without_a_change_it_wakes_for_the_ages(
    in_virtual_time: Callable[[Test], list[str]],
) -> None:
    async def test(hub: Hub, client: FakeClient) -> None:
        with hub.looking_on() as woken:
            assert await wakes(woken, 3.5) == [AGES_S, 2 * AGES_S, 3 * AGES_S]

    assert in_virtual_time(test) == []


def test_a_change_is_told_soon_and_many_not_more_often(
    in_virtual_time: Callable[[Test], list[str]],
) -> None:
    async def test(hub: Hub, client: FakeClient) -> None:
        with hub.looking_on() as woken:
            await wakes(woken, AGES_S + PACE_S + 0.1)
            client.events.put_nowait("a change")
            assert await wakes(woken, 0.1) == [0.0]

            async def busy() -> None:
                while True:
                    client.events.put_nowait("a change")
                    await asyncio.sleep(0.01)

            task = asyncio.create_task(busy())
            times = await wakes(woken, 10)
            task.cancel()
            gaps = [later - sooner for sooner, later in pairwise(times)]
            assert len(times) >= 10 / PACE_S - 1
            assert min(gaps) >= PACE_S - 0.001

    assert len(in_virtual_time(test)) >= 20


def test_a_lost_broker_and_the_next_are_changes(
    in_virtual_time: Callable[[Test], list[str]],
) -> None:
    async def test(hub: Hub, client: FakeClient) -> None:
        with hub.looking_on():
            client.events.put_nowait(Disconnected("It is gone."))
            await asyncio.sleep(2)
            client.events.put_nowait("a snapshot")
            await asyncio.sleep(2)
            assert client.opened == 1

    assert in_virtual_time(test) == ["default", "default"]


@pytest.mark.parametrize("error", [objq.Forbidden("Not with this token."), OSError("broken")])
def test_a_watch_that_fails_is_tried_again_and_the_ages_go_on(
    in_virtual_time: Callable[[Test], list[str]],
    caplog: pytest.LogCaptureFixture,
    error: BaseException,
) -> None:
    async def test(hub: Hub, client: FakeClient) -> None:
        with hub.looking_on() as woken:
            for _ in range(3):
                client.events.put_nowait(error)
            assert len(await wakes(woken, 3 * RETRY_S + 1)) >= 3 * RETRY_S - 1
            assert client.opened == 4

    in_virtual_time(test)
    assert len(caplog.records) == 1


def test_who_is_woken_does_not_depend_on_who_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(alias: str) -> None:
        raise ZeroDivisionError("a fault")

    async def main() -> None:
        client = FakeClient()
        monkeypatch.setattr(objq, "aconnect", client, raising=False)
        with Hub("default", broken).looking_on() as woken:
            client.events.put_nowait("a change")
            assert await wakes(woken, 2.1 * AGES_S) == [PACE_S, PACE_S + AGES_S]

    simulate(main())
    assert "a fault" in caplog.text


def test_each_loop_has_one_hub_for_a_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    async def two() -> tuple[Hub, Hub, Hub]:
        return hubs.hub_of("a"), hubs.hub_of("a"), hubs.hub_of("b")

    first, same, other = asyncio.run(two())
    assert first is same and first is not other
