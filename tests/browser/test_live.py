"""What is looked on moves by itself, and says so when it cannot."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.browser.jobs import job
from tests.browser.place import OVERVIEW
from tests.browser.tab import CUT

if TYPE_CHECKING:
    from objq.client.sync import SyncClient
    from tests.browser.conftest import OpenTab
    from tests.browser.place import Place


def test_a_push_is_seen_over_the_socket_alone(tab: OpenTab, client: SyncClient, queue: str) -> None:
    client.push([job("send_receipt", 0, queue=queue)])
    looking = tab()
    page = looking.open_live(OVERVIEW)
    waiting = looking.cell("queues", queue, "Waiting")
    expect(waiting).to_have_text("1")
    page.route("**/*", lambda route: route.abort())  # so no poll could have brought it
    asked = len(looking.requested)
    delays_s = []
    for number in range(2, 9):
        began = time.monotonic()
        client.push([job("send_receipt", number, queue=queue)])
        page.wait_for_function(
            "([cell, text]) => cell.textContent.trim() === text",
            arg=[waiting.element_handle(), str(number)],
            polling=20,
        )
        delays_s.append(time.monotonic() - began)
    assert len(looking.requested) == asked
    assert len(looking.sockets) == 1
    print(f"from push to page, s: median {statistics.median(delays_s):.2f}, {max(delays_s):.2f}")


def test_selection_focus_and_scroll_survive(tab: OpenTab, client: SyncClient, queue: str) -> None:
    jobs = [job("send_receipt", number, queue=queue) for number in range(40)]
    client.push(jobs)
    looking = tab(viewport={"width": 600, "height": 500})
    page = looking.open_live(f"{OVERVIEW}jobs/?queue={queue}")
    row = looking.row("jobs", jobs[20].id)
    box = row.locator("input[type=checkbox]")
    box.check()
    box.focus()
    page.evaluate("document.querySelector('[data-objq-table=jobs]').parentElement.scrollLeft = 40")
    row.evaluate("row => { row.kept = true; window.getSelection().selectAllChildren(row) }")
    # Where it is on the screen: what comes in above it is scrolled past by the browser.
    seen = "row => [row.getBoundingClientRect().top, getSelection().toString() !== '']"
    top, selected = row.evaluate(seen)
    assert selected

    client.cancel([jobs[30].id], "ready")
    client.push([job("send_receipt", 40, queue=queue)])

    expect(looking.row("jobs", jobs[30].id)).to_contain_text("cancelled")
    expect(looking.page.locator('[data-objq-table="jobs"] tbody tr')).to_have_count(41)
    assert row.evaluate("row => row.kept")
    expect(box).to_be_checked()
    expect(box).to_be_focused()
    page.wait_for_function(  # the browser may scroll a frame later
        "([row, top]) => Math.abs(row.getBoundingClientRect().top - top) <= 1",
        arg=[row.element_handle(), top],
    )
    assert row.evaluate(seen)[1]
    scrolled = "document.querySelector('[data-objq-table=jobs]').parentElement.scrollLeft"
    assert page.evaluate(scrolled) == 40


def test_a_failing_task_shows_its_traceback_to_whoever_waits_for_it(
    tab: OpenTab, client: SyncClient
) -> None:
    failing = job(
        "charge_card", 4711, kwargs={"api_key": "sk_live_2"}, max_attempts=1, priority=-1,
        run_after=1000 * int(time.time() + 86_400),
    )  # fmt: skip
    client.push([failing])
    looking = tab()
    page = looking.open_live(f"{OVERVIEW}jobs/{failing.id}/")
    client.run_now([failing.id], "scheduled")
    summary = page.locator("summary", has_text="CardDeclined").first
    summary.click()
    traceback = page.locator("pre", has_text="_ask_the_bank(order")
    expect(traceback.first).to_be_visible()
    assert "sk_live_2" not in page.content()


def test_a_site_that_goes_away_is_said_and_comes_back(own_place: Place, tab: OpenTab) -> None:
    own_place.broker()
    site = own_place.serve()
    with own_place.client() as client:
        client.push([job("send_receipt", 1)])
        looking = tab(place=own_place, site=site)
        looking.tolerated += CUT
        page = looking.open_live(OVERVIEW)
        waiting = looking.cell("queues", "default", "Waiting")
        expect(waiting).to_have_text("1")
        lost = page.locator("[data-objq-lost]")
        expect(lost).to_be_hidden()

        own_place.stack.kill("site")
        expect(lost).to_be_visible()
        client.push([job("send_receipt", 2)])
        own_place.serve_again(site)

        expect(waiting).to_have_text("2")
        expect(lost).to_be_hidden()


def test_a_broker_that_dies_is_followed_by_the_next(own_place: Place, tab: OpenTab) -> None:
    first = own_place.broker("first")
    second = own_place.broker("second")
    site = own_place.serve()
    with own_place.client() as client:
        client.push([job("send_receipt", 1)])
    looking = tab(place=own_place, site=site)
    page = looking.open_live(OVERVIEW)
    sentence = page.locator(".objq-sentence")
    expect(sentence).to_contain_text(f"127.0.0.1:{first} leads")

    own_place.stack.kill("first")
    expect(sentence).to_contain_text(f"127.0.0.1:{second} leads")
    expect(looking.cell("queues", "default", "Waiting")).to_have_text("1")

    own_place.stack.kill("second")
    expect(page.locator(".objq-health")).to_have_attribute("data-level", "bad")
    expect(sentence).to_contain_text("No broker")
    expect(page.locator(".objq-health")).to_contain_text("runbroker")
    expect(page.locator("[data-objq-note]")).to_contain_text("of the document itself")
    expect(looking.cell("queues", "default", "Waiting")).to_have_text("1")
    assert len(looking.sockets) == 1


def test_who_may_no_longer_look_is_told_and_sent_nothing_more(
    own_place: Place, tab: OpenTab
) -> None:
    own_place.broker()
    site = own_place.serve()
    looker, manager = (tab(name, place=own_place, site=site) for name in ("looker", "manager"))
    for looking in (looker, manager):
        looking.tolerated += [r"Failed to load resource.*403"]
        looking.open_live(OVERVIEW)
    own_place.grant("looker")
    own_place.sign_out("manager")
    for looking in (looker, manager):
        expect(looking.page.locator("[data-objq-lost]")).to_contain_text(
            "may not see this any more"
        )
    frames, asked = looker.frames, len(looker.requested)
    with own_place.client() as client:
        client.push([job("send_receipt", 1)])
    looker.page.wait_for_timeout(1500)  # nothing is what is waited for
    assert looker.frames == frames
    assert len(looker.requested) <= asked + 1
