"""How the pages look and read: themes, widths, directions, and to whom."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

import pytest
from playwright.sync_api import Page, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

from objq_dashboard.page import Cell, Health, Row, as_json
from objq_dashboard.page import Page as Shown
from tests.browser import chromium
from tests.browser.jobs import job
from tests.browser.place import OVERVIEW, Place

if TYPE_CHECKING:
    from objq.client.sync import SyncClient
    from tests.browser.conftest import Furniture, OpenTab

PAGES = [
    "",
    "jobs/",
    "jobs/{dead}/",
    "jobs/{running}/",
    "jobs/{long}/",
    "jobs/no-such-job/",
    "workers/",
    "dead/",
    "broker/",
]

PHONE: Any = {"width": 320, "height": 640}

AXE = """async () => {
  await Promise.all(document.getAnimations().map((each) => each.finished));
  return (await axe.run(document, {resultTypes: ["violations"]})).violations
  .filter((each) => ["serious", "critical"].includes(each.impact))
  .flatMap((each) => each.nodes.map((node) => `${each.id}: ${node.target} ${node.failureSummary}`));
}"""

LUMINANCE = """(element) => {
  const colour = getComputedStyle(element).backgroundColor;
  const [red, green, blue] = colour.match(/[0-9.]+/g).map(Number);
  return (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255;
}"""

INK = """(canvas) => {
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const found = new Map();
  for (let at = 0; at < data.length; at += 4) {
    if (data[at + 3] < 255) continue;
    const colour = `${data[at]},${data[at + 1]},${data[at + 2]}`;
    found.set(colour, (found.get(colour) ?? 0) + 1);
  }
  return [...found].sort((one, other) => other[1] - one[1]).slice(0, 6).map(([colour]) => colour);
}"""

BEYOND = """() => [...document.querySelectorAll("#container *")]
  .filter((each) => !each.closest(".objq-scroll, .objq-tabs, pre, #nav-sidebar")
    && each.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .map((each) => each.outerHTML.slice(0, 120))"""

WIDTHS = "[document.documentElement.scrollWidth, innerWidth]"


@pytest.mark.parametrize("path", PAGES)
def test_nobody_is_hindered_and_a_phone_is_wide_enough(
    tab: OpenTab, furnished: Furniture, path: str
) -> None:
    looking = tab(color_scheme="light")
    page = looking.open_live(OVERVIEW + path.format(**furnished._asdict()))
    page.evaluate(chromium.axe())
    themes: list[Literal["light", "dark"]] = ["light", "dark"]
    for theme in themes:
        page.emulate_media(color_scheme=theme)
        assert page.evaluate(AXE) == [], theme
    page.set_viewport_size(PHONE)
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert_fits(page)
    assert page.evaluate(AXE) == []


WIDE = {
    "jobs": (
        "…1b2c3d4e", "shop.tasks.send_monthly_receipts", "newsletters", "to be cancelled",
        "order=4711, address='ann@example.com', api_key=•••••", "2/3", "2026-01-31 14:15:16",
        "web-7f9c6d5b8-x2x4q-31415-a1b2, for 12 min, last heartbeat 21 s, stale",
    ),
    "workers": (
        "web-7f9c6d5b8-x2x4q-31415-a1b2", "not connected", "web-7f9c6d5b8-x2x4q", "0.1.0",
        "default, newsletters, reports", "12/16", "shop.tasks.send_monthly_receipts and 11 others",
        "12 min", "21 s, stale",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", list(WIDE))
def test_a_small_screen_shows_all_columns(tab: OpenTab, furnished: Furniture, name: str) -> None:
    """Also with the admin's sidebar open, and with long names."""
    page = tab(viewport={"width": 1280, "height": 800}).open_live(f"{OVERVIEW}{name}/")
    page.locator("[data-objq-pause]").click()
    expect(page.locator("#nav-sidebar")).to_be_visible()
    row = Row(key="wide", cells=tuple(Cell(text=text) for text in WIDE[name]))
    health = Health(level="good", sentence="All is well.")
    shown = Shown(health=health, known=True, tables={name: (row,)})
    page.evaluate("(page) => objq.place(page)", as_json(shown))
    table = page.locator(f"[data-objq-table={name}]")
    expect(table.locator("tbody tr")).to_have_count(1)
    columns = "(table) => [table.tHead, table.tBodies[0]].map((each) => each.rows[0].cells.length)"
    in_head, in_body = table.evaluate(columns)
    assert in_head == in_body
    wanted, there = table.evaluate(
        "(table) => [table.parentElement.scrollWidth, table.parentElement.clientWidth]"
    )
    assert wanted <= there


def test_the_question_before_an_action_hinders_nobody(tab: OpenTab, furnished: Furniture) -> None:
    looking = tab("manager", color_scheme="dark")
    page = looking.open_live(f"{OVERVIEW}jobs/?queue=closed&state=ready")
    page.locator("[data-objq-all]").check()
    page.locator("button[value=delete]").click()
    expect(page.locator(".objq-counts")).to_contain_text("5")
    page.evaluate(chromium.axe())
    assert page.evaluate(AXE) == []
    page.set_viewport_size(PHONE)
    assert_fits(page)


def test_the_fields_of_a_filter_stand_below_their_labels(
    tab: OpenTab, furnished: Furniture
) -> None:
    """Also beside a button with something below it."""
    looking = tab(viewport={"width": 1280, "height": 800})
    page = looking.open_live(f"{OVERVIEW}jobs/?queue=closed")
    expect(page.locator(".objq-clear")).to_be_visible()
    gaps, heights = page.locator(".objq-filter").evaluate("""(form) => {
      const labels = [...form.querySelectorAll("label")];
      const boxes = labels.map((each) => each.control.getBoundingClientRect());
      return [labels.map((each, at) => boxes[at].top - each.getBoundingClientRect().bottom),
        boxes.map((each) => each.height)];
    }""")
    assert max(gaps) < 5
    assert len(set(heights)) == 1


def test_many_troubles_leave_room_on_a_phone(tab: OpenTab, furnished: Furniture) -> None:
    looking = tab(viewport=PHONE)
    page = looking.open_live(OVERVIEW)
    page.locator("[data-objq-pause]").click()
    options = " ".join(f"--queue queue-{number}" for number in range(100))
    health = Health(level="bad", sentence="Jobs wait.", command=f"objq_worker {options}")
    page.evaluate("(page) => objq.place(page)", as_json(Shown(health=health, known=True)))
    box = page.locator(".objq-health").bounding_box()
    assert box is not None
    assert box["height"] < PHONE["height"] / 2


def test_how_much_is_known_of_take_overs_can_be_read(tab: OpenTab, furnished: Furniture) -> None:
    page = tab().open_live(f"{OVERVIEW}broker/")
    expect(page.get_by_text("what it has seen since it was started")).to_be_visible()


def test_a_chart_of_another_width_does_not_widen_the_page(
    tab: OpenTab, furnished: Furniture
) -> None:
    """As long as it takes to be drawn for the new one."""
    looking = tab()
    looking.page.add_init_script("ResizeObserver = class { observe() {} };")
    page = looking.open_live(OVERVIEW)
    expect(page.locator("[data-objq-chart=depth] canvas")).to_be_visible()
    page.set_viewport_size(PHONE)
    assert "canvas" in "".join(page.evaluate(BEYOND))
    assert page.evaluate(WIDTHS) == [PHONE["width"]] * 2


def assert_fits(page: Page) -> None:
    """Assert that the page need not be scrolled sideways, and nothing of it is cut off."""
    assert page.evaluate(WIDTHS) == [PHONE["width"]] * 2, page.evaluate(BEYOND)
    try:
        page.wait_for_function(f"() => ({BEYOND})().length === 0")  # charts are drawn anew
    except PlaywrightTimeoutError:
        raise AssertionError(page.evaluate(BEYOND)) from None


def test_dark_is_dark_also_where_it_is_drawn(tab: OpenTab, furnished: Furniture) -> None:
    looking = tab(color_scheme="light")
    looking.tolerated += ["willReadFrequently"]  # by this test
    page = looking.open_live(OVERVIEW)
    canvas = page.locator("[data-objq-chart=depth] canvas")
    page.wait_for_function(f"canvas => ({INK})(canvas).length > 1", arg=canvas.element_handle())
    body, light = page.locator("body"), set(canvas.evaluate(INK))
    assert body.evaluate(LUMINANCE) > 0.9
    page.emulate_media(color_scheme="dark")
    assert body.evaluate(LUMINANCE) < 0.2
    page.wait_for_function(
        f"([canvas, light]) => !({INK})(canvas).some((each) => light.includes(each))",
        arg=[canvas.element_handle(), sorted(light)],
    )
    toggle = page.locator(".theme-toggle")
    toggle.click()  # in a dark browser the admin goes from its own choice to light first
    page.wait_for_function(
        f"([canvas, light]) => ({INK})(canvas).some((each) => light.includes(each))",
        arg=[canvas.element_handle(), sorted(light)],
    )
    assert body.evaluate(LUMINANCE) > 0.9


@pytest.mark.parametrize("path", PAGES)
def test_a_phone_is_wide_enough_from_right_to_left(
    tab: OpenTab, furnished: Furniture, path: str
) -> None:
    looking = tab(viewport=PHONE, locale="he")
    assert_fits(looking.open_live(OVERVIEW + path.format(**furnished._asdict())))


def test_from_right_to_left(tab: OpenTab, client: SyncClient, queue: str) -> None:
    client.push([job("send_receipt", 1, queue=queue)])
    looking = tab(locale="ar")
    page = looking.open_live(OVERVIEW)
    assert page.evaluate("document.dir") == "rtl"
    widths = page.locator(".objq-health").evaluate(
        "box => [getComputedStyle(box).borderRightWidth, getComputedStyle(box).borderLeftWidth]"
    )
    assert widths[0] > widths[1]
    first, last = (
        looking.row("queues", queue).locator("th, td").nth(0),
        looking.row("queues", queue).locator("td").last,
    )
    assert first.bounding_box()["x"] > last.bounding_box()["x"]  # type: ignore[index]  # shown
    client.push([job("send_receipt", 2, queue=queue)])
    expect(looking.row("queues", queue)).to_contain_text("2")


def test_times_are_the_viewers_own_and_utc_is_at_hand(
    tab: OpenTab, client: SyncClient, queue: str
) -> None:
    waiting = job("send_receipt", 1, queue=queue)
    client.push([waiting])
    (pushed,) = client.get([waiting.id]).jobs
    assert pushed is not None
    at = datetime.fromtimestamp(pushed.pushed_at // 1000, UTC)
    here = tab(timezone_id="Asia/Tokyo")
    here.open_live(f"{OVERVIEW}jobs/?queue={queue}")
    cell = here.cell("jobs", waiting.id, "Pushed")
    expect(cell).to_contain_text(f"{at + timedelta(hours=9):%H:%M:%S}")  # no summer time there
    expect(cell).to_have_attribute("title", f"{at:%Y-%m-%d %H:%M:%S} UTC")


# --- where the site is ---------------------------------------------------------------------------


def walk(page: Page, base: str) -> list[str]:
    """Follow every tab of the dashboard; return where they led."""
    seen = []
    tabs = page.locator(".objq-tabs").first.locator("a")
    for number in range(tabs.count()):
        leads_to = tabs.nth(number).evaluate("link => link.href")
        assert leads_to.startswith(base), leads_to
        tabs.nth(number).click()
        expect(page).to_have_url(leads_to)
        expect(page.locator("[data-objq-page]")).to_have_count(1)
        seen.append(page.locator("[data-objq-page]").get_attribute("data-objq-page") or "")
    return seen


EVERY_TAB = {"overview", "jobs", "workers", "dead", "broker"}


def test_below_a_prefix(place: Place, tab: OpenTab, client: SyncClient, queue: str) -> None:
    waiting = job("send_receipt", 1, queue=queue)
    client.push([waiting])
    site = place.serve("below", prefix="/deep/below")
    looking = tab(site=site)
    page = looking.open_live(OVERVIEW)
    assert set(walk(page, site.url + OVERVIEW)) == EVERY_TAB
    looking.open_live(f"{OVERVIEW}jobs/?queue={queue}")
    client.cancel([waiting.id], "ready")
    expect(looking.row("jobs", waiting.id)).to_contain_text("cancelled")
    looking.row("jobs", waiting.id).locator("a").first.click()
    expect(page).to_have_url(f"{site.url}{OVERVIEW}jobs/{waiting.id}/?backend=default")


def test_in_an_admin_of_the_sites_own(tab: OpenTab, client: SyncClient, queue: str) -> None:
    waiting = job("send_receipt", 1, queue=queue)
    client.push([waiting])
    looking = tab()
    base = "/staff/operations/objq_dashboard/queue/"
    page = looking.open_live(base)
    expect(page.locator("#header")).to_contain_text("Operations")
    assert set(walk(page, looking.site.url + base)) == EVERY_TAB
    looking.open_live(f"{base}jobs/?queue={queue}")
    client.cancel([waiting.id], "ready")
    expect(looking.row("jobs", waiting.id)).to_contain_text("cancelled")
    looking.row("jobs", waiting.id).locator("a").first.click()
    expect(page).to_have_url(f"{looking.site.url}{base}jobs/{waiting.id}/?backend=default")
    page.locator(".breadcrumbs a").nth(0).click()
    expect(page).to_have_url(f"{looking.site.url}/staff/operations/")
