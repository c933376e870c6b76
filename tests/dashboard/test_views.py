"""The pages as a browser gets them: HTML, and JSON at the same addresses."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.staticfiles import finders
from django.test import override_settings
from django.urls import clear_script_prefix, reverse, set_script_prefix
from django.utils import timezone

from objq.core.ops import RecentHistory
from objq.errors import Unavailable
from objq_dashboard.live import served
from objq_dashboard.pages import PAGES
from objq_dashboard.routing import dashboard_sockets
from objq_dashboard.source import source
from tests.dashboard.test_pages import history, point

if TYPE_CHECKING:
    from collections.abc import Callable

    from django.http import HttpRequest, HttpResponse
    from django.test import Client
    from pytest_django.fixtures import Settings

    from tests.dashboard.conftest import FakeQueue

NAMES = tuple(PAGES)
JSON = {"accept": "application/json"}


def address(name: str) -> str:
    url = "changelist" if name == "overview" else name
    args = ["run-1"] if name == "job" else []
    return reverse(f"admin:objq_dashboard_queue_{url}", args=args)


@pytest.fixture
def browser(signed_in: Callable[..., Client]) -> Client:
    return signed_in("view_queue")


@pytest.fixture
def full(queue: FakeQueue) -> FakeQueue:
    """A queue of which every page has something to show."""
    queue.answer = None
    queue.recent = history(point())
    queue.world.push("dead-1", max_attempts=1)
    queue.world.fail(queue.world.take())
    queue.world.push("run-1", kwargs=b'{"to":"<b>ann</b>"}')
    queue.world.take()
    queue.world.push("wait-1")
    return queue


def get(browser: Client, name: str, **query: str) -> str:
    response = browser.get(address(name), query)
    assert response.status_code == 200
    return response.content.decode()


class Tags(HTMLParser):
    """The tags of a page, with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def having(self, name: str) -> dict[str, dict[str, str | None]]:
        """Return the attributes of tags that have this one, by its value."""
        return {attrs[name] or "": attrs for _, attrs in self.found if name in attrs}


@pytest.mark.parametrize("name", NAMES)
def test_page_and_data_say_the_same(browser: Client, full: FakeQueue, name: str) -> None:
    text = get(browser, name)
    data = browser.get(address(name), headers=JSON).json()
    assert data["known"] is True
    assert data["health"]["sentence"] in text
    tags = Tags(text)
    tables, places = tags.having("data-objq-table"), tags.having("data-objq-text")
    for table, rows in data["tables"].items():
        if rows and rows[0]["cells"]:
            assert table in tables
        for row in rows if table in tables else ():
            assert f'<tr data-key="{row["key"]}"' in text
    # Whatever is shown has a place (but what only the bar of actions shows), and each is filled.
    health = {"sentence", "advice", "command", "besides"}
    assert set(data["texts"]) - {"state-code"} == set(places) - health


@pytest.mark.parametrize("name", NAMES)
def test_the_script_is_told_what_it_needs(
    browser: Client, full: FakeQueue, settings: Settings, name: str
) -> None:
    settings.OBJQ_DASHBOARD = {"SOCKETS": True}
    tags = Tags(get(browser, name, text="x y"))
    (root,) = tags.having("data-objq-page").values()
    assert root["data-objq-page"] == name
    assert root["data-objq-base"] == "/admin/objq_dashboard/queue/"
    assert root["data-objq-socket"] == "/admin/objq_dashboard/queue/live/"
    assert root["data-objq-query"] == ("text=x+y&job=run-1" if name == "job" else "text=x+y")
    assert root["data-objq-language"] == "en-us"
    assert root["data-objq-zone"] == "America/Chicago"


def socket_of(browser: Client) -> str:
    (root,) = Tags(get(browser, "overview")).having("data-objq-page").values()
    return root["data-objq-socket"] or ""


def test_only_where_the_socket_is_routed_pages_try_it(
    browser: Client, full: FakeQueue, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "_routed", False)
    assert not socket_of(browser)
    settings.OBJQ_DASHBOARD = {"SOCKETS": True}
    assert socket_of(browser)
    settings.OBJQ_DASHBOARD = {}
    dashboard_sockets()
    assert socket_of(browser)
    settings.OBJQ_DASHBOARD = {"SOCKETS": False}
    assert not socket_of(browser)


@pytest.mark.parametrize("name", NAMES)
def test_data_is_not_kept_for_a_page_nor_the_other_way_round(
    browser: Client, full: FakeQueue, name: str
) -> None:
    for headers in (JSON, {}):
        response = browser.get(address(name), headers=headers)
        assert "Accept" in response["Vary"]
        assert "no-store" in response["Cache-Control"]


@pytest.mark.parametrize("name", NAMES)
def test_nothing_inline_and_nothing_from_elsewhere(
    browser: Client, full: FakeQueue, name: str
) -> None:
    text = get(browser, name)
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", text)
    for tag, attrs in Tags(text).found:
        if tag == "script" and attrs.get("type") != "application/json":
            assert (attrs.get("src") or "").startswith("/static/")
        if tag in ("link", "img", "script", "form"):
            for value in (attrs.get("href"), attrs.get("src"), attrs.get("action")):
                assert value is None or value.startswith("/")


def test_all_files_that_pages_name_are_there(browser: Client, full: FakeQueue) -> None:
    named = {
        value
        for name in NAMES
        for _, attrs in Tags(get(browser, name)).found
        for value in (attrs.get("href"), attrs.get("src"))
        if value and value.startswith("/static/objq_dashboard/")
    }
    assert len(named) > 5
    for value in named:
        assert finders.find(value.removeprefix("/static/")), value


@pytest.mark.parametrize("name", NAMES)
def test_it_is_a_page_of_the_admin(browser: Client, full: FakeQueue, name: str) -> None:
    text = get(browser, name)
    assert 'class="breadcrumbs"' in text
    assert 'id="nav-sidebar"' in text
    assert text.count("<h1>") == 1
    ids = re.findall(r'\sid="([^"]+)"', text)
    assert sorted(set(ids)) == sorted(ids)
    labels = {
        label
        for _, attrs in Tags(text).found
        for key in ("aria-labelledby", "for")
        if (label := attrs.get(key))
    }
    assert labels <= set(ids)


@pytest.mark.parametrize("name", NAMES)
def test_tabs_and_breadcrumbs(browser: Client, full: FakeQueue, name: str) -> None:
    text = get(browser, name)
    nav = text[text.index('<nav class="objq-tabs"') :]
    nav = nav[: nav.index("</nav>")]
    assert re.findall(r">([^<]+)</a>", nav) == [
        "Overview",
        "Jobs",
        "Workers",
        "Dead jobs",
        "Broker",
    ]
    shown = re.search(r'aria-current="(\w+)">([^<]+)<', nav)
    assert shown is not None
    title = str(PAGES[name].title)
    assert shown.groups() == (("true", "Jobs") if name == "job" else ("page", title))
    assert "</li><li" not in text, "without a space between them the marks stick to the next"
    text = text.replace("</li>", "\n")
    trail = re.sub(r"<[^>]+>", "", text[text.index('class="breadcrumbs"') :].partition(">")[2])
    words = [word.strip() for word in trail[:400].replace("&rsaquo;", "\n").splitlines()]
    names = [word for word in words if word][:5]
    expected = ["Home", "Job queue", "Overview"]
    if name != "overview":
        expected.append("Jobs" if name == "job" else title)
    if name == "job":
        expected.append("run-1")
    assert names[: len(expected)] == expected


def test_text_is_escaped(browser: Client, full: FakeQueue) -> None:
    for name in ("jobs", "job"):
        text = get(browser, name)
        assert "<b>ann" not in text
        assert "&lt;b&gt;ann" in text
    hostile = "\"'><script>alert(1)</script>"
    for name in ("jobs", "dead"):
        assert "<script>alert" not in get(browser, name, text=hostile, task=hostile, state=hostile)


def test_an_error_is_escaped(browser: Client, queue: FakeQueue) -> None:
    queue.answer = Unavailable("<script>alert(1)</script>")
    assert "<script>alert" not in get(browser, "overview")


def test_a_queue_that_cannot_be_asked(browser: Client, queue: FakeQueue) -> None:
    queue.answer = Unavailable("Nothing at 10.0.0.42:3000.")
    text = get(browser, "overview")
    assert "<div data-objq-known hidden>" in text
    assert 'data-objq-text="command">python manage.py runbroker</pre>' in text


@pytest.mark.parametrize("name", NAMES)
def test_empty_states_are_shown_where_there_is_nothing(
    browser: Client, queue: FakeQueue, name: str
) -> None:
    queue.answer = None
    tags = Tags(get(browser, name))
    data = browser.get(address(name), headers=JSON).json()
    for table, attrs in tags.having("data-objq-none").items():
        assert ("hidden" in attrs) is bool(data["tables"].get(table)), table


def test_charts_come_with_the_page(browser: Client, full: FakeQueue) -> None:
    text = get(browser, "overview")
    found = re.findall(r'<script type="application/json">(.*?)</script>', text)
    data = browser.get(address("overview"), headers=JSON).json()
    assert [json.loads(each) for each in found] == list(data["charts"].values())
    full.recent = RecentHistory(every_s=10.0, points=())
    source.refresh("default")
    text = get(browser, "overview")
    found = re.findall(r'<script type="application/json">(.*?)</script>', text)
    assert [bool(json.loads(each)) for each in found] == [False] * 4


def test_filters_stand_in_the_address_and_in_the_form(browser: Client, full: FakeQueue) -> None:
    text = get(browser, "jobs", state="ready", text="wait", queue="default")
    assert 'name="text" value="wait"' in text
    assert "<option selected>default</option>" in text
    assert '<input type="hidden" name="state" value="ready">' in text
    assert 'href="?queue=default&amp;text=wait&amp;state=dead"' in text.replace(
        "text=wait&amp;queue=default", "queue=default&amp;text=wait"
    )
    assert 'data-key="wait-1"' in text
    assert 'data-key="run-1"' not in text


def test_boxes_are_for_those_who_may_manage(
    signed_in: Callable[..., Client], full: FakeQueue, settings: Settings
) -> None:
    browser = signed_in("manage_queue")
    for name, key in (("overview", "default"), ("jobs", "run-1"), ("dead", "dead-1")):
        assert f'name="key" value="{key}"' in get(browser, name)
    settings.OBJQ_DASHBOARD = {"READ_ONLY": True}
    for name in ("overview", "jobs", "dead"):
        assert 'name="key"' not in get(browser, name)


def test_viewers_get_no_boxes(browser: Client, full: FakeQueue) -> None:
    for name in ("overview", "jobs", "dead"):
        text = get(browser, name)
        assert 'name="key"' not in text
        assert "data-objq-selectable" not in text


# --- several backends, and none ------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_several_backends_have_a_switch(
    browser: Client, full: FakeQueue, settings: Settings, name: str
) -> None:
    settings.TASKS = {**settings.TASKS, "slow lane": settings.TASKS["default"]}
    text = get(browser, name, backend="slow lane")
    assert set(full.asked) == {"slow lane"}
    assert re.search(r'backend=slow%20lane" aria-current="true">slow lane</a>', text)
    assert "workers/?backend=slow+lane" in text
    assert browser.get(address(name), {"backend": "nonsense"}).status_code == 404
    assert browser.get(address(name), {"backend": "nonsense"}, headers=JSON).status_code == 404


def test_a_site_without_a_backend_of_objq_is_told_how(
    browser: Client, queue: FakeQueue, settings: Settings
) -> None:
    settings.TASKS = {"default": {"BACKEND": "objq.compat.ImmediateBackend"}}
    for name in NAMES:
        assert "objq.backend.ObjqBackend" in get(browser, name)
        assert browser.get(address(name), headers=JSON).status_code == 404


# --- zone and language ---------------------------------------------------------------------------

AT = "2025-11-29 15:26:40 UTC"


def started(browser: Client) -> Any:
    """Return the time at which `run-1` was pushed, as it is shown."""
    data = browser.get(address("job"), headers=JSON).json()
    (row,) = [row for row in data["tables"]["facts"] if row["key"] == "pushed"]
    return row["cells"][1]


def test_times_are_in_the_zone_of_the_site_if_no_other_is_known(
    browser: Client, full: FakeQueue
) -> None:
    cell = started(browser)
    assert "09:26:40" in cell["text"]
    assert cell["title"] == AT


def test_times_are_in_the_browsers_zone(browser: Client, full: FakeQueue) -> None:
    browser.cookies["objq_zone"] = "Asia%2FTokyo"
    cell = started(browser)
    assert "00:26:40" in cell["text"]
    assert cell["title"] == AT
    (root,) = Tags(get(browser, "job")).having("data-objq-page").values()
    assert root["data-objq-zone"] == "Asia/Tokyo"
    assert timezone.get_current_timezone_name() == "America/Chicago"


@pytest.mark.parametrize("name", ["Nowhere/Land", "../../etc/passwd", "", "%00"])
def test_a_zone_that_there_is_not_is_ignored(browser: Client, full: FakeQueue, name: str) -> None:
    browser.cookies["objq_zone"] = name
    assert "09:26:40" in started(browser)["text"]


def activate_berlin(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    def middleware(request: HttpRequest) -> HttpResponse:
        with timezone.override("Europe/Berlin"):
            return get_response(request)

    return middleware


def test_a_site_that_has_chosen_a_zone_is_not_overruled(
    browser: Client, full: FakeQueue, settings: Settings
) -> None:
    browser.cookies["objq_zone"] = "Asia%2FTokyo"
    chosen = [*settings.MIDDLEWARE, "tests.dashboard.test_views.activate_berlin"]
    with override_settings(MIDDLEWARE=chosen):
        assert "16:26:40" in started(browser)["text"]
        (root,) = Tags(get(browser, "job")).having("data-objq-page").values()
    assert root["data-objq-zone"] == "Europe/Berlin"
    assert "data-objq-zone-chosen" in root


def test_numbers_follow_the_language(browser: Client, full: FakeQueue, settings: Settings) -> None:
    settings.LANGUAGE_CODE = "de"
    full.recent = history(point(finished=25))
    data = browser.get(address("overview"), headers=JSON).json()
    assert data["texts"]["finished"]["text"].startswith("2,5")


# --- where the site puts it ----------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_pages_of_an_admin_site_of_ones_own_stay_in_it(
    browser: Client, full: FakeQueue, settings: Settings, name: str
) -> None:
    settings.ROOT_URLCONF = "tests.dashboard.twosites"
    settings.OBJQ_DASHBOARD = {"SOCKETS": True}
    base = "/ops/inner/objq_dashboard/queue/"
    path = {"overview": "", "job": "jobs/run-1/"}.get(name, f"{name}/")
    text = browser.get(f"{base}{path}").content.decode()
    links = re.findall(r'(?:href|action|data-objq-base|data-objq-socket)="(/[^"]*)"', text)
    assert len(links) > 10
    ours = ("/ops/inner/", "/static/")
    assert [link for link in links if not link.startswith(ours) and link != "/"] == []
    (root,) = Tags(text).having("data-objq-page").values()
    assert root["data-objq-base"] == base
    assert root["data-objq-socket"] == f"{base}live/"


@pytest.mark.parametrize("name", NAMES)
def test_pages_under_a_prefix_of_the_site_stay_under_it(
    browser: Client, full: FakeQueue, settings: Settings, name: str
) -> None:
    settings.STATIC_URL = "/prefix/static/"
    path = {"overview": "", "job": "jobs/run-1/"}.get(name, f"{name}/")
    set_script_prefix("/prefix/")  # as the handler of a request under a prefix does
    try:
        text = browser.get(f"/admin/objq_dashboard/queue/{path}").content.decode()
    finally:
        clear_script_prefix()
    links = re.findall(r'(?:href|src|action|data-objq-base|data-objq-socket)="(/[^"]*)"', text)
    assert len(links) > 10
    assert [link for link in links if not link.startswith("/prefix/") and link != "/"] == []
