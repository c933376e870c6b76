"""What has changed on a page since it was sent: little goes over the wire, and rows are patched.

A patch holds what is new: `health`, `known` and `note` as they are now; in `texts` and `charts` the
changed ones, whole, and None for one that is gone; in `tables` for each changed one its changed
`rows` by key and, if rows came, went or moved, the `order` of their keys, or None for a table that
is gone. A key occurs once in a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from objq_dashboard.page import Cell, Chart, Page, Row

Patch = dict[str, Any]


def diff(old: Page, new: Page) -> Patch | None:
    """Return what makes the new page of the old one; None if they are the same."""
    patch: Patch = {}
    if new.health != old.health:
        patch["health"] = asdict(new.health)
    if new.known != old.known:
        patch["known"] = new.known
    if new.note != old.note:
        patch["note"] = new.note
    parts = {
        "texts": _changed(old.texts, new.texts),
        "tables": _tables(old.tables, new.tables),
        "charts": _changed(old.charts, new.charts),
    }
    patch.update((name, part) for name, part in parts.items() if part)
    return patch or None


def _changed(old: Mapping[str, Cell | Chart], new: Mapping[str, Cell | Chart]) -> Patch:
    changed: Patch = {name: asdict(it) for name, it in new.items() if it != old.get(name)}
    changed.update((name, None) for name in old if name not in new)
    return changed


def _tables(old: Mapping[str, tuple[Row, ...]], new: Mapping[str, tuple[Row, ...]]) -> Patch:
    changed: Patch = {}
    for name, rows in new.items():
        table = _table(old.get(name), rows)
        if table is not None:
            changed[name] = table
    changed.update((name, None) for name in old if name not in new)
    return changed


def _table(old: tuple[Row, ...] | None, new: tuple[Row, ...]) -> Patch | None:
    if new == old:
        return None
    known = {row.key: row for row in old or ()}
    rows = {row.key: asdict(row) for row in new if row != known.get(row.key)}
    order = [row.key for row in new]
    if old is not None and order == list(known):
        return {"rows": rows}
    return {"order": order, "rows": rows}
