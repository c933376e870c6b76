"""What a page of the dashboard shows, as finished text: the same for template, poll and socket.

All wording, formatting and judging is done before a page is made; the templates and the script only
place what they are given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Level = Literal["good", "warn", "bad"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """One plain sentence on whether the queue moves; if not, what to do, and what to run.

    `besides`: what else is to be said, when that is done with.
    """

    level: Level
    sentence: str
    advice: str = ""
    command: str = ""
    besides: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One place on a page: its text and, as a title, the exact value.

    `mark` is a level or empty. `href` is relative to the overview's address. `detail` is a long
    text, such as a traceback, that is folded behind `text`.
    """

    text: str
    title: str = ""
    mark: str = ""
    href: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of a table. `key` stays the same for the same thing, so that it is patched in place."""

    key: str
    cells: tuple[Cell, ...]
    mark: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    label: str
    unit: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Lines over time; `x` are Unix times in seconds, and each series has a value for each."""

    x: tuple[float, ...]
    series: tuple[Series, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """`known`: the queue was asked and answered; else there is nothing but `health` to show.

    `note` says where the figures are from, if not from a broker.
    """

    health: Health
    known: bool = False
    note: str = ""
    texts: Mapping[str, Cell] = field(default_factory=dict)
    tables: Mapping[str, tuple[Row, ...]] = field(default_factory=dict)
    charts: Mapping[str, Chart] = field(default_factory=dict)


def as_json(page: Page) -> dict[str, Any]:
    return asdict(page)
