"""What a leader has in hand at this moment, for `/metrics`."""

from __future__ import annotations

from typing import NamedTuple

from objq.core.document import Document


class Gauges(NamedTuple):
    """`document` is the one in memory, with what is being written; `size_bytes` as last written."""

    document: Document | None
    waiting_claims: int
    waiting_requests: int
    watchers: int
    size_bytes: int
    wall_ms: int
