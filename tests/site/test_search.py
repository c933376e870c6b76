from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from django.db import connection

from project import search
from project.models import Page

if TYPE_CHECKING:
    from django.test import Client

ROOT = Path(__file__).resolve().parent.parent.parent


def make(path: str, body: str = "", **fields: str) -> Page:
    page = Page.objects.create(**{"path": path, "title": path, "body": body, **fields})
    search.put(page.pk)
    return page


def find(query: str) -> list[str]:
    return [hit.path for hit in search.Hits(query)[0:20]]


@pytest.mark.parametrize(
    ("query", "expression"),
    [
        ("", ""),
        ("  ", ""),
        ('*** - ( "', ""),
        ("word", '"word"*'),
        ("two words", '"two" "words"*'),
        ("json.decoder", '"json.decoder"*'),
        ('say "hello"', '"say" """hello"""*'),
        ("NOT (a OR b)", '"NOT" "(a" "OR" "b)"*'),
        ("nul\x00byte", '"nul" "byte"*'),
        ("a " * 50, " ".join(['"a"'] * search.MAX_WORDS) + "*"),
    ],
)
def test_expression_quotes_every_word(query: str, expression: str) -> None:
    assert search.expression(query) == expression


@pytest.mark.django_db
@pytest.mark.parametrize("query", ['"', "a*b", "col:x", "NEAR(", "-", "^x", "{a}", "\x00", "'; --"])
def test_no_query_is_a_syntax_error(query: str) -> None:
    make("a", "some text")
    assert search.Hits(query).count() == len(find(query))


@pytest.mark.django_db
def test_all_words_must_be_there_and_the_last_may_be_a_beginning() -> None:
    make("one", "alpha beta gamma")
    make("two", "alpha delta")
    assert find("alpha") == ["one", "two"] or find("alpha") == ["two", "one"]
    assert find("alpha gam") == ["one"]
    assert find("gamma alpha") == ["one"]
    assert find("gam alpha") == []
    assert find("alpha.beta") == ["one"]
    assert find("beta.alpha") == []


@pytest.mark.django_db
def test_title_path_and_keywords_count_more_than_the_text() -> None:
    make("text", "walrus " * 3 + "and more text about it")
    make("title", "something else", title="The walrus")
    make("keyword", "something else", keywords="walrus")
    assert find("walrus")[-1] == "text"
    assert find("walrus")[0] == "title"


@pytest.mark.django_db
def test_putting_twice_changes_nothing_and_a_change_replaces() -> None:
    page = make("page", "first")
    search.put(page.pk)
    assert search.Hits("first").count() == 1
    Page.objects.filter(pk=page.pk).update(body="second")
    search.put(page.pk)
    assert (find("first"), find("second")) == ([], ["page"])


@pytest.mark.django_db
def test_a_page_that_is_gone_leaves_the_index() -> None:
    page = make("page", "here")
    pk = page.pk
    page.delete()
    assert search.put(pk) is False
    assert find("here") == []


def test_snippet_is_split_at_its_marks() -> None:
    marked = f"{search.MARK}b{search.UNMARK}"
    assert search.pieces(f"a {marked} c {marked}") == (
        ("a ", False),
        ("b", True),
        (" c ", False),
        ("b", True),
    )
    assert search.pieces("plain") == (("plain", False),)


@pytest.mark.django_db
def test_search_page(client: Client) -> None:
    make("page", "a needle in a haystack")
    text = client.get("/search/?q=needle").content.decode()
    assert '<a class="name" href="/pages/page/">' in text
    assert "<mark>needle</mark>" in text
    assert "What are you looking for?" in client.get("/search/").content.decode()
    assert "Nothing found" in client.get("/search/?q=%2A").content.decode()


@pytest.mark.django_db
def test_search_has_pages(client: Client) -> None:
    for number in range(23):
        make(f"page/{number}", "same")
    second = client.get("/search/?q=same&page=2").content.decode()
    assert second.count('<a class="name"') == 3
    assert 'rel="prev" href="?q=same&amp;page=1"' in second


INDEX_ALL = """
import django; django.setup()
from concurrent.futures import ThreadPoolExecutor
from django.db import connection
from project import search
from project.models import Page
def put(pk):
    try:
        Page.objects.filter(pk=pk).update(body="latest text", indexed_at=None)
        search.put(pk)
    finally:
        connection.close()
keys = list(Page.objects.values_list("pk", flat=True))
connection.close()
with ThreadPoolExecutor(4) as pool:
    list(pool.map(put, keys))
"""

PREPARE = """
import django; django.setup()
from django.core.management import call_command
from project.models import Page
call_command("migrate", verbosity=0)
Page.objects.bulk_create(Page(path=f"p/{n}", title="t", body="old text") for n in range(40))
"""

COUNT = """
import django; django.setup()
from project import search
from project.models import Page
print(Page.objects.filter(indexed_at=None).count(), search.Hits("latest").count(),
      search.Hits("old").count(), search.Hits("p").count())
"""


def test_many_writers_in_several_processes_wait_for_each_other(tmp_path: Path) -> None:
    environ = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "project.settings",
        "OBJQ_DEMO_DATA": str(tmp_path),
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "dashboard")]),
    }

    def start(code: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", code],
            env=environ,
            cwd=ROOT,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def finish(process: subprocess.Popen[str]) -> str:
        output, _ = process.communicate()
        assert process.returncode == 0, output
        return output

    finish(start(PREPARE))
    for process in [start(INDEX_ALL) for _ in range(3)]:
        finish(process)
    assert finish(start(COUNT)).split() == ["0", "40", "0", "40"]


@pytest.mark.django_db
def test_index_is_one_row_a_page() -> None:
    page = make("page", "text")
    search.put(page.pk)
    with connection.cursor() as cursor:
        cursor.execute("SELECT rowid FROM project_search")
        assert cursor.fetchall() == [(page.pk,)]
