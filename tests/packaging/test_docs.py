"""What is written about the code is held against the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from objq import checks
from objq.core.ops import DocumentSettings
from objq.options import DEFAULTS, FIELD_BY_OPTION
from tools import docs

ROOT = Path(__file__).resolve().parent.parent.parent
SETTINGS = (ROOT / "docs/settings.md").read_text()
PAGES = [
    "README.md",
    "CHANGELOG.md",
    *(f"docs/{page.name}" for page in sorted(docs.DOCS.glob("*.md"))),
]
OPTION_ROW = re.compile(r"^\| `(?P<option>[A-Z_]+)` \| (?P<rest>.+) \|$", re.MULTILINE)


def _as_documented(option: str) -> str:
    """Return the default of an option as docs/settings.md writes it."""
    if option == "STORAGE":
        return "required"
    default = DEFAULTS[option]
    if default is None:
        return "none"
    if isinstance(default, bool | str):
        return f"`{default}`"
    assert isinstance(default, int | float)
    if isinstance(default, float):
        return _time(default)
    if "BYTES" in option or option == "COMPRESS_ABOVE":
        return f"{default >> 20} MiB" if default >= 1 << 20 else f"{default >> 10} KiB"
    return f"{default:,}"


def _time(seconds: float) -> str:
    if seconds > 86_400:
        return f"{seconds / 86_400:g} days"
    return f"{seconds / 3_600:g} h" if seconds >= 3_600 else f"{seconds:g} s"


def test_every_option_is_documented_with_its_default() -> None:
    rows = OPTION_ROW.findall(SETTINGS)
    documented = {option: rest.split(" | ")[0] for option, rest in rows}
    assert documented == {option: _as_documented(option) for option in FIELD_BY_OPTION}


def test_the_options_that_the_document_carries_are_marked_as_shared() -> None:
    rows = OPTION_ROW.findall(SETTINGS)
    shared = {option for option, rest in rows if rest.split(" | ")[1] == "yes"}
    assert shared == {
        option
        for option, name in FIELD_BY_OPTION.items()
        if name in DocumentSettings.__struct_fields__
    }


def test_every_check_is_documented() -> None:
    reported = set(re.findall(r"^([EW]\d{3}) ", checks.__doc__ or "", re.MULTILINE))
    listed = set(re.findall(r"^\| `objq\.([EW]\d{3})`", SETTINGS, re.MULTILINE))
    assert reported
    assert listed == reported


def test_tables_from_the_code_are_up_to_date() -> None:
    assert not docs.stale(), "run `make docs`"


def test_a_table_is_a_row_per_operation_and_a_column_per_state() -> None:
    table = {("ready", "claim"): "running", ("running", "claim"): "-", ("ready", "a|b"): "same"}
    assert docs.matrix(table).splitlines() == [
        "|  | ready | running |",
        "| --- | --- | --- |",
        "| **claim** | running | - |",
        "| **a\\|b** | same |  |",
    ]


def test_text_is_replaced_between_markers_only() -> None:
    text = "a\n<!-- begin t -->\nold\n<!-- end t -->\nz"
    assert docs.replace(text, "t", "new") == "a\n<!-- begin t -->\n\nnew\n\n<!-- end t -->\nz"
    with pytest.raises(ValueError, match="markers"):
        docs.replace("nothing here", "t", "new")


@pytest.mark.parametrize("page", PAGES)
def test_links_between_pages_lead_somewhere(page: str) -> None:
    path = ROOT / page
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text()):
        if "://" not in target:
            assert (path.parent / target).exists(), target
