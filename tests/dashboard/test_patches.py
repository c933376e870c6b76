"""A patch makes the new page of the old one, whatever they are, and says no more than it must."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from objq_dashboard.live.patches import diff
from objq_dashboard.page import Cell, Chart, Health, Page, Row, Series, as_json
from tests.dashboard.onlooker import Json, applied

texts = st.text("ab", max_size=2)
names = st.sampled_from(["x", "y", "z"])
cells = st.builds(Cell, text=texts, title=texts, mark=texts, href=texts, detail=texts)
rows = st.builds(
    Row,
    key=st.sampled_from("abcdefg"),
    cells=st.lists(cells, min_size=1, max_size=2).map(tuple),
    mark=texts,
)
tables = st.lists(rows, max_size=6, unique_by=lambda row: row.key).map(tuple)
points = st.lists(st.sampled_from([1.0, 2.0]), max_size=2).map(tuple)
lines = st.builds(Series, label=texts, unit=texts, values=points)
charts = st.builds(Chart, x=points, series=st.lists(lines, max_size=2).map(tuple))
pages = st.builds(
    Page,
    health=st.builds(Health, level=st.sampled_from(["good", "bad"]), sentence=texts),
    known=st.booleans(),
    note=texts,
    texts=st.dictionaries(names, cells),
    tables=st.dictionaries(names, tables),
    charts=st.dictionaries(names, charts),
)

PAGE = Page(
    health=Health(level="good", sentence="All is well."),
    texts={"waiting": Cell(text="1")},
    tables={"jobs": tuple(Row(key=key, cells=(Cell(text=key),)) for key in "abc")},
)


def sent(value: Json) -> Json:
    """Return it as it comes out of the wire."""
    received: Json = json.loads(json.dumps(value))
    return received


@given(pages, pages)
def test_the_patched_page_is_the_new_page(old: Page, new: Page) -> None:
    patch = diff(old, new)
    assert (patch is None) == (old == new)
    assert applied(sent(as_json(old)), sent(patch or {})) == sent(as_json(new))


@given(pages)
def test_what_has_not_changed_is_not_sent(page: Page) -> None:
    assert diff(page, replace(page)) is None


def test_a_row_that_changes_is_sent_alone_and_moves_nothing() -> None:
    first, second, third = PAGE.tables["jobs"]
    changed = replace(second, cells=(Cell(text="new"),))
    patch = diff(PAGE, replace(PAGE, tables={"jobs": (first, changed, third)}))
    assert patch is not None
    assert list(patch) == ["tables"]
    assert list(patch["tables"]["jobs"]) == ["rows"]
    assert list(patch["tables"]["jobs"]["rows"]) == ["b"]


def test_rows_that_come_go_or_move_are_told_by_the_order_of_their_keys() -> None:
    first, second, third = PAGE.tables["jobs"]
    new = Row(key="d", cells=(Cell(text="d"),))
    for now, sent_rows in [
        ((first, third), []),
        ((new, first, second, third), ["d"]),
        ((third, second, first), []),
    ]:
        patch = diff(PAGE, replace(PAGE, tables={"jobs": now}))
        assert patch is not None
        assert patch["tables"]["jobs"]["order"] == [row.key for row in now]
        assert list(patch["tables"]["jobs"]["rows"]) == sent_rows
