"""Who sees what: on every page, and on the socket."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.place import OVERVIEW

if TYPE_CHECKING:
    from tests.browser.conftest import Furniture, OpenTab

PATHS = ["", "jobs/", "jobs/{dead}/", "workers/", "dead/", "broker/"]

ASK_THE_SOCKET = """(path) => new Promise((resolve) => {
  const socket = new WebSocket(path), said = [];
  socket.onmessage = (event) => said.push(JSON.parse(event.data));
  socket.onclose = (event) => resolve([event.code, said]);
})"""


def test_staff_without_permission_sees_nothing_anywhere(tab: OpenTab, furnished: Furniture) -> None:
    clerk = tab("clerk")
    clerk.tolerated += [r"Failed to load resource.*403"]
    clerk.open("/admin/")
    expect(clerk.page.locator("a[href*=objq_dashboard]")).to_have_count(0)
    for path in PATHS:
        reply = clerk.page.goto(clerk.site.url + OVERVIEW + path.format(dead=furnished.dead))
        assert reply is not None
        assert reply.status == 403, path
        assert "objq-dashboard" not in clerk.page.content()


@pytest.mark.parametrize("who", ["clerk", "visitor", None])
def test_the_socket_tells_strangers_nothing(tab: OpenTab, who: str | None) -> None:
    stranger = tab(who)
    stranger.open("/admin/login/")
    code, said = stranger.page.evaluate(ASK_THE_SOCKET, f"{OVERVIEW}live/?page=overview")
    assert code == 4403
    assert [list(message) for message in said] in ([], [["closing", "reason"]], [["closing"]])


def test_who_is_not_signed_in_is_asked_to(tab: OpenTab) -> None:
    nobody = tab(None)
    for path in ("", "jobs/", "dead/"):
        nobody.open(OVERVIEW + path)
        assert "/admin/login/?next=" in nobody.page.url


def test_who_may_only_look_is_offered_nothing_to_do(tab: OpenTab, furnished: Furniture) -> None:
    looker = tab("looker")
    for path in PATHS:
        looker.open_live(OVERVIEW + path.format(dead=furnished.dead))
        expect(looker.page.locator("[data-objq-page]")).to_have_count(1)
        expect(looker.page.locator('form[action*="act/"], input[type=checkbox]')).to_have_count(0)
