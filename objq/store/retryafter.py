"""How long a throttling store asks to wait."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

LONGEST_S: Final = 60.0
"""A longer wait than this is not believed."""


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of a `Retry-After` header (names in lower case), or None.

    The form with a date is ignored: it would compare two machines' clocks.
    """
    try:
        seconds = float(headers.get("retry-after", ""))
    except ValueError:
        return None
    return min(seconds, LONGEST_S) if seconds >= 0 else None
