"""The library's full-text index: a SQLite FTS5 table beside the pages, one row for each page.

`put` may be called any number of times and from any number of processes: it takes SQLite's write
lock first and reads the page under it, so the row always ends up with the page's latest text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from django.db import connection, transaction
from django.utils import timezone

from project.models import Page

MAX_WORDS: Final = 20
MARK, UNMARK = "\x02", "\x03"
WORD = re.compile(r"\w", re.UNICODE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A page found. `excerpt` is its text around the match, in pieces: (text, is it a match)."""

    path: str
    title: str
    excerpt: tuple[tuple[str, bool], ...]


def put(page_id: int) -> bool:
    """Bring the page's row up to date; return False if there is no such page (any more)."""
    with transaction.atomic(), connection.cursor() as cursor:
        page = Page.objects.filter(pk=page_id).first()
        cursor.execute("DELETE FROM project_search WHERE rowid = %s", [page_id])
        if page is None:
            return False
        cursor.execute(
            "INSERT INTO project_search (rowid, title, path, keywords, body)"
            " VALUES (%s, %s, %s, %s, %s)",
            [page.pk, page.title, page.path, page.keywords, page.body],
        )
        Page.objects.filter(pk=page_id).update(indexed_at=timezone.now())
    return True


def expression(query: str) -> str:
    """Return what FTS5 shall match: every word, as a phrase where it has punctuation in it.

    Words are quoted, so that nothing which people type is taken for FTS5's own syntax. The last one
    also matches as a beginning. Empty if the query has no word in it.
    """
    words = [word for word in query.replace("\x00", " ").split() if WORD.search(word)][:MAX_WORDS]
    if not words:
        return ""
    phrases = ['"{}"'.format(word.replace('"', '""')) for word in words]
    return " ".join(phrases) + "*"


class Hits:
    """The pages that match, best first; counted and sliced in the database, for a paginator."""

    def __init__(self, query: str) -> None:
        self.expression = expression(query)

    def count(self) -> int:
        if not self.expression:
            return 0
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM project_search WHERE project_search MATCH %s",
                [self.expression],
            )
            return int(cursor.fetchone()[0])

    __len__ = count

    def __getitem__(self, part: slice) -> list[Hit]:
        if not self.expression:
            return []
        start, stop = part.start or 0, part.stop
        with connection.cursor() as cursor:
            # The weights are those of the columns in order: a word in a title counts ten times.
            cursor.execute(
                "SELECT path, title, snippet(project_search, -1, %s, %s, '…', 28)"
                " FROM project_search WHERE project_search MATCH %s"
                " ORDER BY bm25(project_search, 10.0, 6.0, 6.0, 1.0), rowid LIMIT %s OFFSET %s",
                [MARK, UNMARK, self.expression, -1 if stop is None else stop - start, start],
            )
            return [
                Hit(path=path, title=title, excerpt=pieces(snippet))
                for path, title, snippet in cursor.fetchall()
            ]


def pieces(snippet: str) -> tuple[tuple[str, bool], ...]:
    """Split a snippet at its marks, so that a template can escape every piece by itself."""
    plain, *rest = snippet.split(MARK)
    found: list[tuple[str, bool]] = [(plain, False)]
    for part in rest:
        match, _, after = part.partition(UNMARK)
        found += [(match, True), (after, False)]
    return tuple((text, marked) for text, marked in found if text)
