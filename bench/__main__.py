"""Run the parts, print a table of each, and as the last line one JSON object with all figures."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

from bench import dashboard, group_commit, growth

Figures = dict[str, Any]

PARTS: dict[str, Callable[[], Figures]] = {
    "group-commit": group_commit.run,
    "growth": growth.run,
    "dashboard": dashboard.run,
}


def main() -> int:
    only = os.environ.get("ONLY", "")
    if only and only not in PARTS:
        print(f"There is no part {only!r}; there are {', '.join(PARTS)}.", file=sys.stderr)
        return 2
    figures = {name: part() for name, part in PARTS.items() if only in ("", name)}
    print(json.dumps(figures[only] if only else figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
