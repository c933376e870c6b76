from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from django.test import Client

from project.models import IndexJob, Page
from project.views import PAGES_A_PAGE

if TYPE_CHECKING:
    from tests.site.conftest import FakeQueue

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("empty_index")]

FORM = {"title": "A guide", "path": "guide/start", "keywords": "", "body": "Read me first."}


def make(path: str = "guide/start", **fields: str) -> Page:
    return Page.objects.create(**{"path": path, "title": path, **fields})


def test_empty_library_says_what_to_do(client: Client) -> None:
    text = client.get("/").content.decode()
    assert "The library is empty." in text
    assert 'href="/new/"' in text


def test_saving_goes_to_the_page_and_indexes_it(client: Client) -> None:
    response = client.post("/new/", FORM)
    assert response.status_code == 302
    assert response["Location"] == "/pages/guide/start/"
    assert re.fullmatch(r"save;dur=[\d.]+, enqueue;dur=[\d.]+", response["Server-Timing"])
    page = Page.objects.get()
    assert (page.title, page.body) == ("A guide", "Read me first.")
    assert page.indexed_at is not None
    assert IndexJob.objects.filter(page=page).count() == 1


def test_text_is_kept_but_for_line_ends(client: Client) -> None:
    client.post("/new/", {**FORM, "body": "  indented\r\nlast line\r\n"})
    assert Page.objects.get().body == "  indented\nlast line\n"


def test_a_page_may_be_empty(client: Client) -> None:
    assert client.post("/new/", {**FORM, "body": ""}).status_code == 302
    assert b"This page has no text." in client.get("/pages/guide/start/").content


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("title", "", "This field is required."),
        ("path", "", "This field is required."),
        ("path", "/leading", "single slashes between the parts"),
        ("path", "two//slashes", "single slashes between the parts"),
        ("path", "with space", "single slashes between the parts"),
        ("path", "taken", "already exists"),
        ("body", "zero\x00byte", "Null characters are not allowed."),
    ],
)
def test_bad_input_is_refused_beside_its_field(
    client: Client, field: str, value: str, message: str
) -> None:
    make("taken")
    response = client.post("/new/", {**FORM, field: value})
    assert response.status_code == 422
    assert message in response.content.decode()
    assert "The page is not saved." in response.content.decode()
    assert Page.objects.count() == 1


def test_editing_changes_the_page_and_indexes_it_again(client: Client) -> None:
    client.post("/new/", FORM)
    assert b"Read me first." in client.get("/edit/guide/start/").content
    client.post("/edit/guide/start/", {**FORM, "body": "Read me second."})
    assert Page.objects.get().body == "Read me second."
    assert IndexJob.objects.count() == 2
    assert b"Nothing found" in client.get("/search/?q=first").content
    assert b'href="/pages/guide/start/"' in client.get("/search/?q=second").content


def test_form_needs_its_csrf_token(settings: object) -> None:
    strict = Client(enforce_csrf_checks=True)
    assert strict.post("/new/", FORM).status_code == 403
    token = re.search(
        r'name="csrfmiddlewaretoken" value="([^"]+)"', strict.get("/new/").content.decode()
    )
    assert token is not None
    good = strict.post("/new/", {**FORM, "csrfmiddlewaretoken": token[1]})
    assert good.status_code == 302


def test_an_icon_is_where_browsers_look_for_it(client: Client) -> None:
    assert client.get("/favicon.ico")["Location"].endswith("project/icon.svg")


def test_list_has_pages(client: Client) -> None:
    Page.objects.bulk_create(
        Page(path=f"page/{n:03}", title=f"Page {n}") for n in range(PAGES_A_PAGE + 3)
    )
    first, second = client.get("/").content.decode(), client.get("/?page=2").content.decode()
    assert first.count('<a class="name"') == PAGES_A_PAGE
    assert second.count('<a class="name"') == 3
    assert "1 of 2" in first
    assert 'rel="next" href="?page=2"' in first
    assert client.get("/?page=nonsense").status_code == 200


def test_unknown_page_is_not_found(client: Client) -> None:
    response = client.get("/pages/nowhere/")
    assert response.status_code == 404
    assert b"There is no such page." in response.content


def test_text_is_never_markup(client: Client) -> None:
    client.post("/new/", {**FORM, "title": "<b>T</b>", "body": "<script>x</script> needle"})
    for address in ("/", "/pages/guide/start/", "/search/?q=needle", "/edit/guide/start/"):
        text = client.get(address).content.decode()
        assert "<b>T" not in text
        assert "<script>x" not in text


def test_no_inline_code_or_style(client: Client, queue: FakeQueue) -> None:
    client.post("/new/", FORM)
    addresses = ("/", "/new/", "/edit/guide/start/", "/pages/guide/start/", "/search/?q=read")
    for address in (*addresses, "/status/", "/pages/nowhere/"):
        response = client.get(address)
        text = response.content.decode()
        assert "default-src 'none'" in response["Content-Security-Policy"]
        assert not re.search(r"<style|\sstyle=|\son\w+=", text), address
        for attributes in re.findall(r"<script([^>]*)>", text):
            assert "src=" in attributes or "application/json" in attributes, address
