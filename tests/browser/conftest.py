"""One browser, one broker, one worker and one site for all of these tests."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.browser import chromium
from tests.browser.jobs import job
from tests.browser.place import Place, Site, a_place
from tests.servers import skip_or_fail

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser

    from objq.client.sync import SyncClient
    from tests.browser.tab import Tab

OpenTab = Callable[..., "Tab"]


class Furniture(NamedTuple):
    """Ids of a job that is dead, one that runs, one that waits, and one with much to show."""

    dead: str
    running: str
    waiting: str
    long: str


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep them in one process: the servers are started once, and two cores are few."""
    for item in items:
        if item.path.is_relative_to(__file__.removesuffix("conftest.py")):
            item.add_marker(pytest.mark.xdist_group("browser"))


# Not for the whole session: while Playwright runs, this thread counts as one with an event loop.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    if reason := chromium.missing():
        skip_or_fail(reason)
    from playwright.sync_api import expect

    from tests.browser.tab import TIMEOUT_MS

    expect.set_options(timeout=TIMEOUT_MS)
    with chromium.a_browser() as browser:
        yield browser


@pytest.fixture(scope="package")
def empty(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Yield a place where nothing is started, to make others like it."""
    with a_place(tmp_path_factory.mktemp("empty")) as place:
        yield place


@pytest.fixture(scope="package")
def place(empty: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Yield what all tests share: whoever kills something makes a place of their own."""
    with a_place(tmp_path_factory.mktemp("shared"), empty) as place:
        # With a history of seconds, so that there are charts to look at.
        place.broker("broker", "-m", "tests.browser.minutes")
        place.stack.worker("worker", "--queue", "default")
        yield place


@pytest.fixture(scope="package")
def site(place: Place) -> Site:
    return place.serve()


@pytest.fixture
def own_place(empty: Place, tmp_path: Path) -> Iterator[Place]:
    """Yield a place where nothing is started yet, for a test that ends what others need."""
    with a_place(tmp_path, empty) as place:
        yield place


@pytest.fixture(scope="package")
def furnished(place: Place) -> Furniture:
    """Have something of everything in the queue: nothing of it may be changed by a test."""
    scheduled_at = 1000 * int(time.time() + 86_400)
    dead = job("charge_card", 7, kwargs={"api_key": "sk_live_1"}, max_attempts=1)
    running = job("export_orders", "never")
    waiting = [job("send_receipt", n, queue="closed") for n in range(5)]
    long = job("of_a_very_long_name_" * 8, "x" * 400, queue="q" * 60, kwargs={"y" * 80: ["z" * 90]})
    with place.client() as client:
        client.push([dead, running, long, *waiting, job("send_receipt", 9, run_after=scheduled_at)])
        client.pause("closed")
        for wanted, state in ((dead, "dead"), (running, "running")):
            place.wait_for(client, wanted.id, state)
    return Furniture(dead.id, running.id, waiting[0].id, long.id)


@pytest.fixture
def client(place: Place) -> Iterator[SyncClient]:
    with place.client() as client:
        yield client


@pytest.fixture
def queue() -> str:
    """Return the name of a queue that only this test has, and no worker takes from."""
    return f"test-{secrets.token_hex(3)}"


@pytest.fixture
def tab(browser: Browser, request: pytest.FixtureRequest) -> Iterator[OpenTab]:
    """Return what opens a tab as somebody: `tab("boss", color_scheme="dark")`.

    Every tab is looked at when the test ends: no complaint, and nobody else's host.
    """
    from tests.browser.tab import a_tab

    tabs: list[Tab] = []

    def open_tab(
        who: str | None = "boss",
        *,
        place: Place | None = None,
        site: Site | None = None,
        **options: Any,
    ) -> Tab:
        place = place or request.getfixturevalue("place")
        site = site or request.getfixturevalue("site")
        new = a_tab(browser, site, place.sessions[who] if who else None, **options)
        tabs.append(new)
        return new

    yield open_tab
    for each in tabs:
        each.context.close()
    for each in tabs:
        each.check()
