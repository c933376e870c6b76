"""Times that people write and read: `90`, `12h`, `30d`."""

from __future__ import annotations

import re
from typing import Final

UNITS_S: Final = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)")


def parse_duration_s(text: str) -> float:
    """Return the seconds of a number with a unit, s, m, h or d. Raises ValueError."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a time: write 90 (seconds), 45m, 12h or 30d.")
    return float(match.group(1)) * UNITS_S[match.group(2)]


def in_words(seconds: float) -> str:
    """Return a time for people, in the largest unit that leaves at least one: `3.5 h`."""
    for unit in ("d", "h", "m"):
        if seconds >= UNITS_S[unit]:
            name = "min" if unit == "m" else unit
            return f"{seconds / UNITS_S[unit]:.3g} {name}"
    return f"{seconds:.3g} s"
