"""What an operator does, with the mouse and without."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import Page, expect

from tests.browser.jobs import job
from tests.browser.place import OVERVIEW

if TYPE_CHECKING:
    from objq.client.sync import SyncClient
    from objq.core import ops
    from tests.browser.conftest import Furniture, OpenTab
    from tests.browser.place import Place

MOST_TABS = 150
"""Presses of the Tab key after which whatever is looked for is not to be reached."""


def died(place: Place, client: SyncClient, queue: str, count: int) -> list[str]:
    """Have jobs die in a queue that no worker takes from any more; return their ids."""
    jobs = [job("charge_card", number, queue=queue, max_attempts=1) for number in range(count)]
    client.push(jobs)
    place.stack.worker("mortal", "--queue", queue)
    for each in jobs:
        place.wait_for(client, each.id, "dead")
    place.stack.kill("mortal")
    return [each.id for each in jobs]


def states(client: SyncClient, ids: list[str]) -> list[ops.JobState | None]:
    return [each.state if each else None for each in client.get(ids).jobs]


def press(page: Page, action: str) -> None:
    """Press a button and wait for the page that comes of it."""
    with page.expect_navigation():
        page.locator(f'[data-objq-actions] button[value="{action}"]').click()


def test_a_selection_is_retried_and_the_rest_is_not(
    tab: OpenTab, place: Place, client: SyncClient, queue: str
) -> None:
    ids = died(place, client, queue, 4)
    looking = tab("manager")
    page = looking.open_live(f"{OVERVIEW}dead/?queue={queue}")
    for each in ids[:3]:
        looking.row("dead", each).locator("input[type=checkbox]").check()
    press(page, "retry")
    expect(page.locator(".messagelist")).to_contain_text("3")
    assert states(client, ids) == ["ready"] * 3 + ["dead"]
    for each in ids[:3]:
        expect(looking.row("dead", each)).to_have_count(0)
    expect(looking.row("dead", ids[3])).to_have_count(1)


def test_all_that_match_are_deleted_after_the_count_was_confirmed(
    tab: OpenTab, client: SyncClient, queue: str
) -> None:
    jobs = [job("send_receipt", number, queue=queue) for number in range(120)]
    client.push(jobs)
    looking = tab()
    page = looking.open_live(f"{OVERVIEW}jobs/?state=ready&queue={queue}")
    page.locator("[data-objq-all]").check()
    press(page, "delete")
    expect(page.locator("h1")).to_have_text("Delete these jobs?")
    expect(page.locator(".objq-counts")).to_contain_text("120")
    assert states(client, [jobs[0].id]) == ["ready"]  # nothing was done yet
    page.get_by_role("button", name="Delete: 120").click()
    expect(page.locator(".messagelist")).to_contain_text("120")
    assert states(client, [jobs[0].id, jobs[119].id]) == [None, None]
    expect(page.locator('[data-objq-none="jobs"]')).to_be_visible()
    page.goto(f"{looking.site.url}/admin/")
    expect(page.locator("#recent-actions-module")).to_contain_text("120")


def test_a_queue_is_paused_and_resumed(tab: OpenTab, client: SyncClient, queue: str) -> None:
    client.push([job("send_receipt", 1, queue=queue)])
    looking = tab("manager")
    page = looking.open_live(OVERVIEW)
    state = looking.cell("queues", queue, "State")
    expect(state).to_have_text("open")
    looking.row("queues", queue).locator("input[type=checkbox]").check()
    press(page, "pause")
    expect(looking.cell("queues", queue, "State")).to_have_text("paused")
    assert client.stats().queues[queue].paused
    looking.row("queues", queue).locator("input[type=checkbox]").check()
    press(page, "resume")
    expect(looking.cell("queues", queue, "State")).to_have_text("open")
    assert not client.stats().queues[queue].paused


def tab_to(page: Page, selector: str, key: str = "Tab") -> None:
    """Press the key until the focus is there, and see that it can be seen."""
    for _ in range(MOST_TABS):
        page.keyboard.press(key)
        if page.evaluate("(selector) => document.activeElement.matches(selector)", selector):
            outline = page.evaluate(
                "() => { const style = getComputedStyle(document.activeElement);"
                " return style.outlineStyle !== 'none' || style.boxShadow !== 'none'; }"
            )
            assert outline, f"{selector} has the focus and does not show it"
            return
    raise AssertionError(f"{selector} cannot be reached with the Tab key")


def test_a_retry_with_the_keyboard_alone(
    tab: OpenTab, place: Place, client: SyncClient, queue: str
) -> None:
    first, second = died(place, client, queue, 2)
    looking = tab()
    page = looking.open_live(f"{OVERVIEW}dead/?queue={queue}")
    tab_to(page, f'input[type=checkbox][value="{second}"]')
    page.keyboard.press("Space")
    tab_to(page, 'button[value="retry"]', "Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".messagelist")).to_be_visible()
    assert states(client, [first, second]) == ["dead", "ready"]


def test_one_job_is_run_now_and_cancelled(tab: OpenTab, client: SyncClient, queue: str) -> None:
    later = job("send_receipt", 1, queue=queue, run_after=32_503_680_000_000)
    client.push([later])
    looking = tab()
    page = looking.open_live(f"{OVERVIEW}jobs/{later.id}/")
    press(page, "run_now")
    expect(page.locator(".messagelist")).to_be_visible()
    assert states(client, [later.id]) == ["ready"]
    press(page, "cancel")
    expect(page.locator("[data-objq-text=state-code]")).to_have_text("cancelled")
    assert states(client, [later.id]) == ["cancelled"]


def test_where_it_is_read_only_nothing_is_offered_or_done(
    tab: OpenTab, place: Place, furnished: Furniture
) -> None:
    site = place.serve("read-only", dashboard={"READ_ONLY": True})
    looking = tab(site=site)
    looking.tolerated += [r"Failed to load resource.*403"]
    for path in ("", "jobs/", f"jobs/{furnished.waiting}/", "dead/"):
        looking.open_live(OVERVIEW + path)
        expect(looking.page.locator("form[action*=act], [data-objq-actions]")).to_have_count(0)
    status = looking.page.evaluate(
        """(path) => fetch(path, {method: "POST", headers: {
          "X-CSRFToken": document.cookie.match(/csrftoken=([^;]+)/)?.[1] ?? ""}})
          .then((reply) => reply.status)""",
        f"{OVERVIEW}act/",
    )
    assert status == 403
