"""What the page's scripts promise by themselves: placing in place, pausing, hiding, polling."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from objq_dashboard.live.patches import diff
from objq_dashboard.page import Cell, Health, Page, Row, as_json
from tests.browser.jobs import job
from tests.browser.place import OVERVIEW
from tests.browser.tab import CUT

if TYPE_CHECKING:
    from playwright.sync_api import Page as Document

    from objq.client.sync import SyncClient
    from tests.browser.conftest import OpenTab
    from tests.browser.place import Place
    from tests.browser.tab import Tab

SHOWN = """() => [...document.querySelectorAll('[data-objq-table=jobs] tbody tr')].map((row) =>
  [row.dataset.key, row.dataset.mark ?? '', ...[...row.querySelectorAll('th, td:not(.objq-select)')]
    .map((cell) => [
      cell.querySelector('summary, a')?.textContent ?? cell.textContent,
      cell.querySelector('a')?.getAttribute('href') ?? '',
      cell.querySelector('pre')?.textContent ?? '',
      cell.title, cell.dataset.mark ?? ''])])"""

HIDE = """(hidden) => {
  Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });
  document.dispatchEvent(new Event('visibilitychange'));
}"""


@pytest.fixture
def still(tab: OpenTab, queue: str) -> Document:
    """Return a page of jobs that is paused, so that only the test writes to it."""
    page = tab().open_live(f"{OVERVIEW}jobs/?queue={queue}")
    page.locator("[data-objq-pause]").click()
    expect(page.locator("[data-objq-pace]")).to_have_attribute("data-state", "paused")
    return page


def place(page: Document, what: Page) -> None:
    page.evaluate("(page) => objq.place(page)", as_json(what))


def patch(page: Document, old: Page, new: Page) -> None:
    page.evaluate("(patch) => objq.patch(patch)", diff(old, new) or {})


def a_page(*rows: Row) -> Page:
    health = Health(level="good", sentence="All is well.")
    return Page(health=health, known=True, tables={"jobs": rows})


def a_row(key: str, *texts: str, **changes: str) -> Row:
    return Row(key=key, cells=tuple(Cell(text=text, **changes) for text in texts))


def shown(page: Page) -> list[list[Any]]:
    return [
        [row.key, row.mark, *(cell_shown(cell) for cell in row.cells)]
        for row in page.tables["jobs"]
    ]


def cell_shown(cell: Cell) -> list[str]:
    href = f"{OVERVIEW}{cell.href}" if cell.href and not cell.detail else ""
    return [cell.text, href, cell.detail, cell.title, cell.mark]


def test_what_is_patched_is_what_is_placed(still: Document) -> None:
    """Any page after any other, by the patch between them."""
    dice = random.Random(7)

    def cell() -> Cell:
        kind = dice.choice([{}, {}, {"href": "jobs/x/"}, {"detail": "long"}, {"mark": "bad"}])
        return Cell(text=dice.choice("abc"), title=dice.choice(["", "t"]), **kind)

    def some() -> Page:
        keys = dice.sample("abcdefgh\"'<", dice.randrange(9))
        rows = (Row(key=key, cells=(cell(), cell()), mark=dice.choice(["", "x"])) for key in keys)
        return a_page(*rows)

    now = some()
    place(still, now)
    for _ in range(100):
        assert still.evaluate(SHOWN) == shown(now)
        old, now = now, some()
        patch(still, old, now)
    place(still, a_page())
    assert still.evaluate(SHOWN) == []
    expect(still.locator("[data-objq-none=jobs]")).to_be_visible()


def test_a_patch_leaves_alone_what_it_does_not_name(still: Document) -> None:
    rows = [a_row(key, key, "same", detail="long") for key in "abcd"]
    place(still, a_page(*rows))
    body = still.locator("[data-objq-table=jobs] tbody")
    body.locator("tr[data-key=c] summary").first.click()
    body.locator("tr[data-key=b] input").check()
    body.locator("tr[data-key=c] summary").last.focus()
    still.evaluate("""() => { window.kept = document.querySelector('tr[data-key=c]');
        window.changes = 0;
        new MutationObserver((all) => { window.changes += all.length })
          .observe(window.kept, { subtree: true, childList: true, characterData: true }); }""")
    changed = a_row("b", "b", "new", detail="long")
    new = a_row("e", "e", "same", detail="long")
    patch(still, a_page(*rows), a_page(new, rows[3], changed, rows[2]))
    assert still.evaluate("document.querySelector('tr[data-key=c]') === kept && changes === 0")
    assert still.evaluate("document.activeElement === kept.querySelectorAll('summary')[1]")
    expect(body.locator("tr[data-key=c] details").first).to_have_attribute("open", "")
    expect(body.locator("tr[data-key=b] input")).to_be_checked()
    expect(body.locator("tr[data-key=e] input")).to_have_value("e")
    assert still.evaluate(SHOWN) == shown(a_page(new, rows[3], changed, rows[2]))

    patch(still, a_page(new, rows[2]), a_page(new))  # the focus was in the row that goes
    assert still.evaluate(
        "document.activeElement.querySelector(':scope > [data-objq-table=jobs]') !== null"
    )


def test_text_is_text(still: Document) -> None:
    evil = "<img src=x onerror=alert(1)>"
    place(still, a_page(a_row("a", evil, evil, title=evil), a_row("b", evil, detail=evil)))
    assert still.locator("[data-objq-table=jobs] img").count() == 0
    place(still, replace(a_page(), health=Health(level="bad", sentence=evil, advice=evil)))
    expect(still.locator(".objq-sentence")).to_have_text(evil)


def test_only_a_change_of_health_is_read_out(still: Document) -> None:
    said = still.locator("[data-objq-announce]")
    place(still, a_page())
    before = said.text_content()
    for age in range(3):
        health = Health(level="good", sentence=f"Commit {age} s ago.")
        patch(still, a_page(), replace(a_page(), health=health))
    assert said.text_content() == before
    health = Health(level="bad", sentence="No broker answers.")
    patch(still, a_page(), replace(a_page(), health=health))
    expect(said).to_contain_text("No broker answers.")


def test_a_paused_page_stands_still_and_goes_on(
    tab: OpenTab, client: SyncClient, queue: str
) -> None:
    looking = tab()
    page = looking.open_live(f"{OVERVIEW}jobs/?queue={queue}")
    pace, button = page.locator("[data-objq-pace]"), page.locator("[data-objq-pause]")
    expect(pace).to_have_attribute("data-state", "live")
    button.click()
    expect(pace).to_have_attribute("data-state", "paused")
    expect(pace).to_contain_text(":")
    sockets, requested = len(looking.sockets), len(looking.requested)
    pushed = job("send_receipt", 1, queue=queue)
    client.push([pushed])
    page.wait_for_timeout(1500)  # nothing is what is waited for
    expect(looking.row("jobs", pushed.id)).to_have_count(0)
    assert (len(looking.sockets), len(looking.requested)) == (sockets, requested)
    button.click()
    expect(looking.row("jobs", pushed.id)).to_be_visible()
    expect(pace).to_have_attribute("data-state", "live")


def test_a_hidden_page_comes_back_when_it_is_looked_at(own_place: Place, tab: OpenTab) -> None:
    own_place.broker()
    site = own_place.serve()
    looking = tab(place=own_place, site=site)
    looking.tolerated += CUT
    page = looking.open_live(OVERVIEW)
    page.evaluate(HIDE, True)
    own_place.stack.kill("site")
    expect(page.locator("[data-objq-lost]")).to_be_visible()
    tries = len(looking.sockets), len(looking.requested)
    page.wait_for_timeout(1500)  # longer than the first try takes to come
    assert (len(looking.sockets), len(looking.requested)) == tries
    own_place.serve_again(site)
    page.evaluate(HIDE, False)
    expect(page.locator("[data-objq-pace]")).to_have_attribute("data-state", "live")
    expect(page.locator("[data-objq-lost]")).to_be_hidden()


def test_where_no_socket_is_routed_none_is_tried(own_place: Place, tab: OpenTab) -> None:
    own_place.broker()
    looking = tab(place=own_place, site=own_place.serve(wsgi=True))
    page = looking.open(OVERVIEW)
    pace = page.locator("[data-objq-pace]")
    expect(pace).to_have_attribute("data-state", "polls")
    assert "no route" in (pace.get_attribute("title") or "")
    with own_place.client() as client:
        client.push([job("send_receipt", 1)])
    expect(looking.row("queues", "default")).to_be_visible()
    assert looking.sockets == []


def test_without_sockets_it_polls_until_there_is_one(own_place: Place, tab: OpenTab) -> None:
    own_place.broker()
    site = own_place.serve(wsgi=True, dashboard={"SOCKETS": True})
    looking = tab(place=own_place, site=site)
    looking.tolerated += CUT
    looking.open(OVERVIEW)
    pace = looking.page.locator("[data-objq-pace]")
    expect(pace).to_have_attribute("data-state", "polls")
    page = looking.open(OVERVIEW)  # which remembers it
    expect(pace).to_have_attribute("data-state", "polls")
    assert "could not be opened" in (pace.get_attribute("title") or "")
    page.wait_for_timeout(1500)  # nothing is what is waited for
    assert len(looking.sockets) == 1
    with own_place.client() as client:
        client.push([job("send_receipt", 1)])
    expect(looking.row("queues", "default")).to_be_visible()
    expect(page.locator("[data-objq-lost]")).to_be_hidden()
    own_place.stack.kill("site")
    own_place.serve_again(site)
    page.evaluate("window.dispatchEvent(new Event('online'))")
    expect(pace).to_have_attribute("data-state", "live")


def test_a_socket_is_tried_as_rarely_where_nothing_may_be_stored(
    own_place: Place, tab: OpenTab
) -> None:
    own_place.broker()
    site = own_place.serve(wsgi=True, dashboard={"SOCKETS": True})
    looking = tab(place=own_place, site=site)
    looking.tolerated += [*CUT, "error: nothing is stored"]  # that of the admin's own script
    looking.page.add_init_script("""Object.defineProperty(window, "sessionStorage", {
      get() { throw new Error("nothing is stored"); }});""")
    page = looking.open(OVERVIEW)
    expect(page.locator("[data-objq-pace]")).to_have_attribute("data-state", "polls")
    page.wait_for_timeout(2000)  # nothing is what is waited for
    assert len(looking.sockets) == 1


def test_who_is_signed_out_while_polling_is_told(own_place: Place, tab: OpenTab) -> None:
    own_place.broker()
    site = own_place.serve(wsgi=True)
    looking: Tab = tab("manager", place=own_place, site=site)
    looking.tolerated += CUT
    page = looking.open(OVERVIEW)
    expect(page.locator("[data-objq-pace]")).to_have_attribute("data-state", "polls")
    own_place.sign_out("manager")
    banner = page.locator("[data-objq-lost]")
    expect(banner).to_contain_text("may not see this any more")
