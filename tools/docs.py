"""Write the tables in `docs/` that come from the code, between their markers.

`python -m tools.docs` writes them, `python -m tools.docs --check` only says which are stale.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

DOCS: Final = Path(__file__).resolve().parent.parent / "docs"


def transition_table() -> str:
    """Return what every operation does to a job in every state, as a Markdown table."""
    from objq.core.transitions import TABLE

    return matrix(TABLE)


def matrix(table: Mapping[tuple[str, str], str]) -> str:
    """Return {(state, operation): outcome} as Markdown: a row per operation, a column per state."""
    states = list(dict.fromkeys(state for state, _ in table))
    operations = list(dict.fromkeys(operation for _, operation in table))
    lines = [_row("", *states), _row(*["---"] * (len(states) + 1))]
    for operation in operations:
        outcomes = (str(table.get((state, operation), "")) for state in states)
        lines.append(_row(f"**{operation}**", *outcomes))
    return "\n".join(lines)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


TABLES: Final[dict[str, tuple[str, Callable[[], str]]]] = {
    "transitions": ("architecture.md", transition_table),
}
"""Name of the marker: the file that it is in, and what makes the text."""


def replace(text: str, name: str, body: str) -> str:
    """Return `text` with what is between the markers called `name` replaced by `body`.

    Raises ValueError if the markers are not both there.
    """
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    before, found_begin, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not (found_begin and found_end):
        raise ValueError(f"The markers {begin} and {end} are missing.")
    return f"{before}{begin}\n\n{body}\n\n{end}{after}"


def stale(docs: Path = DOCS) -> dict[Path, str]:
    """Return the files that are not up to date, with the text that they should have."""
    wanted: dict[Path, str] = {}
    for name, (filename, make) in TABLES.items():
        path = docs / filename
        wanted[path] = replace(wanted.get(path) or path.read_text(), name, make())
    return {path: text for path, text in wanted.items() if text != path.read_text()}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.docs", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if stale")
    check: bool = parser.parse_args().check
    changed = stale()
    for path, text in changed.items():
        print(f"{path.name} {'is stale: run make docs' if check else 'written'}")
        if not check:
            path.write_text(text)
    return 1 if check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
