"""Why a socket is closed, as the page is told; the table is in `consumer`."""

from __future__ import annotations

from typing import Final

MAX_REASON: Final = 40
"""Characters, so that a close has room for them in any script: it has 123 bytes."""

CODES: Final = {"denied": 4403, "unknown": 4404, "full": 4429, "failed": 4500}

REASONS: Final = {
    "unknown": "The pass of the page is missing or too old.",
    "full": "Too many pages are looked on here already.",
}
"""What is said where nothing else is."""


class Closing(Exception):
    """The socket is to be closed; `why` is one of CODES."""

    def __init__(self, why: str, reason: str = "") -> None:
        self.why = why
        self.code = CODES[why]
        self.reason = reason or REASONS.get(why, "")
        super().__init__(self.reason or why)
