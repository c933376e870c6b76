"""Whoever switches off a check says why, in the same line or in the comment above it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDERS = ("objq", "dashboard", "project", "bench", "tools")

CODES = r"(?:[:\[ ]+[A-Za-z0-9-]+(?:, ?[A-Za-z0-9-]+)*\]?)?"
SWITCHED_OFF = re.compile(rf"#\s*(?:type:\s*ignore|noqa){CODES}(?P<rest>.*)$")


def without_reason(text: str) -> list[int]:
    """Return the numbers of the lines that switch off a check and do not say why."""
    lines = text.splitlines()
    found = []
    for number, line in enumerate(lines):
        match = SWITCHED_OFF.search(line)
        if match and not match["rest"].strip(" #-:"):
            above = lines[number - 1].strip() if number else ""
            if not above.startswith("#"):
                found.append(number + 1)
    return found


def test_every_exception_has_a_reason() -> None:
    sources = (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")))
    bare = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sources
        for number in without_reason(path.read_text())
    ]
    assert not bare, f"no reason given: {', '.join(bare)}"


def test_a_reason_is_seen_beside_it_or_above_it() -> None:
    mark = "# type: " + "ignore[misc]"
    assert without_reason(f"a = 1  {mark}") == [1]
    assert without_reason(f"a = 1  {mark}  # the stubs are wrong") == []
    assert without_reason(f"# The stubs are wrong.\na = 1  {mark}") == []
    assert without_reason("a = 1  # no" + "qa: A001 - a word") == []
    assert without_reason("a = 1  # no" + "qa: A001, B002") == [1]
