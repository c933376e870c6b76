"""The socket as a site serves it: daphne, a broker, a store, a database and a websocket."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from websockets.exceptions import InvalidHandshake, InvalidStatus

from objq_dashboard.live.consumer import MAX_UNREAD
from tests.browser.jobs import job
from tests.browser.place import Place, Site, a_place
from tests.dashboard.onlooker import LIVE, Json, looking_on

if TYPE_CHECKING:
    from objq.client.sync import SyncClient

pytestmark = pytest.mark.xdist_group("live_site")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with a_place(tmp_path_factory.mktemp("live")) as place:
        place.broker()
        yield place


@pytest.fixture(scope="module")
def site(place: Place) -> Site:
    return place.serve()


@pytest.fixture
def client(place: Place) -> Iterator[SyncClient]:
    with place.client() as client:
        yield client


def ids(page: Json) -> set[str]:
    return {row["key"] for row in page["tables"]["jobs"]}


def test_a_push_is_seen(place: Place, site: Site, client: SyncClient) -> None:
    with looking_on(site.url, place.sessions["looker"], "jobs", queue="seen") as onlooker:
        assert "snapshot" in onlooker.next()
        client.push([job("send", queue="seen", id="first")])
        onlooker.until(lambda page: ids(page) == {"first"})
        client.push([job("send", queue="seen", id="second"), job("send", queue="other")])
        onlooker.until(lambda page: ids(page) == {"first", "second"})
        assert {key for message in onlooker.messages[1:] for key in message} == {"delta"}


def test_ages_grow_without_any_push(place: Place, site: Site) -> None:
    with looking_on(site.url, place.sessions["boss"]) as onlooker:
        sentences = set[str]()
        while len(sentences) < 3:
            onlooker.next()
            sentences.add(onlooker.page["health"]["sentence"])


def test_looking_on_writes_nothing(place: Place, site: Site, client: SyncClient) -> None:
    boss = place.sessions["boss"]
    before = client.stats().seq
    with looking_on(site.url, boss) as first, looking_on(site.url, boss, "broker") as second:
        for _ in range(4):  # ages, each a second later
            first.next()
            second.next()
    assert client.stats().seq == before


@pytest.mark.parametrize("who", [None, "visitor", "clerk"])
def test_who_may_not_look_on(place: Place, site: Site, who: str | None) -> None:
    with looking_on(site.url, place.sessions[who] if who else None) as onlooker:
        assert onlooker.until_closed() == (4403, {"closing": "denied", "reason": ""})
        assert len(onlooker.messages) == 1


def test_a_permission_is_taken_away_meanwhile(place: Place, site: Site) -> None:
    with looking_on(site.url, place.sessions["looker"]) as onlooker:
        assert "snapshot" in onlooker.next()
        place.grant("looker")
        code, message = onlooker.until_closed()
        assert (code, message["closing"]) == (4403, "denied")
    place.grant("looker", "view_queue")
    with looking_on(site.url, place.sessions["looker"]) as onlooker:
        assert "snapshot" in onlooker.next()


def test_signed_out_meanwhile(place: Place, site: Site) -> None:
    with looking_on(site.url, place.sessions["manager"]) as onlooker:
        assert "snapshot" in onlooker.next()
        place.sign_out("manager")
        code, message = onlooker.until_closed()
        assert (code, message["closing"]) == (4403, "denied")


@pytest.mark.parametrize("origin", ["http://evil.org", "null", ""])
def test_pages_of_others_do_not_get_in(place: Place, site: Site, origin: str) -> None:
    with (
        pytest.raises(InvalidStatus) as refused,
        looking_on(site.url, place.sessions["boss"], origin=origin),
    ):
        pass
    assert refused.value.response.status_code == 403


def test_paths_and_pages_that_there_are_not(place: Place, site: Site) -> None:
    boss = place.sessions["boss"]
    with pytest.raises(InvalidStatus), looking_on(site.url, boss, path="/nowhere/"):
        pass
    with looking_on(site.url, boss, "nonsense") as onlooker:
        code, message = onlooker.until_closed()
        assert (code, message["closing"]) == (4404, "unknown")


def test_who_was_not_let_in_to_the_page_is_not_let_in_here(place: Place, site: Site) -> None:
    """A site may ask for more than a session, such as a second factor."""
    with looking_on(site.url, place.sessions["boss"], given_pass="x") as onlooker:
        code, message = onlooker.until_closed()
        assert (code, message["closing"]) == (4404, "unknown")


def test_another_admin_has_it_too(place: Place, site: Site) -> None:
    path = LIVE.replace("/admin/", "/staff/operations/")
    with looking_on(site.url, place.sessions["boss"], path=path) as onlooker:
        assert "snapshot" in onlooker.next()


def test_below_a_prefix(place: Place) -> None:
    site = place.serve("below", prefix="/below")
    with looking_on(site.url, place.sessions["boss"]) as onlooker:
        assert "snapshot" in onlooker.next()
    place.stack.kill("below")


def test_who_does_not_read_holds_up_nobody_and_gets_the_newest(
    place: Place, site: Site, client: SyncClient
) -> None:
    boss = place.sessions["boss"]
    with (
        looking_on(site.url, boss, "jobs", queue="slow") as slow,
        looking_on(site.url, boss, "jobs", queue="slow") as quick,
    ):
        slow.next(answer=False)
        for number in range(5):
            name = f"slow-{number}"
            client.push([job("send", queue="slow", id=name)])
            quick.until(lambda page, name=name: name in ids(page))  # type: ignore[misc]
        for _ in range(MAX_UNREAD - 1):
            slow.next(answer=False)
        slow.answer()
        slow.next()
        assert ids(slow.page) == ids(quick.page)
        assert len(slow.messages) == MAX_UNREAD + 1


def test_a_broker_is_killed_and_another_takes_over(tmp_path: Path) -> None:
    with a_place(tmp_path) as place:
        place.broker("leader")
        place.broker("standby")
        site = place.serve()
        with (
            place.client() as client,
            looking_on(site.url, place.sessions["boss"], "jobs") as onlooker,
        ):
            client.push([job("send", id="before")])
            onlooker.until(lambda page: ids(page) == {"before"})
            first = onlooker.page["health"]["sentence"].split()[1]
            place.stack.kill("leader")
            onlooker.until(lambda page: first not in page["health"]["sentence"])
            client.push([job("send", id="after")])
            page = onlooker.until(lambda page: ids(page) == {"before", "after"})
            page = onlooker.until(lambda page: page["health"]["level"] == "good")
            assert "leads since" in page["health"]["sentence"] and page["known"]


def test_no_broker_and_then_one(tmp_path: Path) -> None:
    with a_place(tmp_path) as place:
        site = place.serve()
        with looking_on(site.url, place.sessions["boss"]) as onlooker:
            onlooker.until(lambda page: page["health"]["level"] == "bad")
            place.broker()
            onlooker.until(lambda page: page["known"] and page["health"]["level"] == "good")
            place.stack.kill("broker")
            onlooker.until(lambda page: page["known"] and page["health"]["level"] != "good")


def test_without_websockets_the_page_is_there_to_poll(place: Place, client: SyncClient) -> None:
    site = place.serve("wsgi", wsgi=True)
    client.push([job("send", queue="polled", id="polled")])
    status, answer = http(place, site, "/admin/objq_dashboard/queue/jobs/?queue=polled")
    assert (status, ids(json.loads(answer))) == (200, {"polled"})
    status, answer = http(place, site, LIVE)
    assert status == 426 and b"websocket" in answer
    with pytest.raises(InvalidHandshake), looking_on(site.url, place.sessions["boss"]):
        pass
    place.stack.kill("wsgi")


def http(place: Place, site: Site, path: str) -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", site.port, timeout=60)
    headers = {"Accept": "application/json", "Cookie": f"sessionid={place.sessions['boss']}"}
    connection.request("GET", site.prefix + path, headers=headers)
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response.status, body
