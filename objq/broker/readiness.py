"""What a broker says of the store and the document at `/readyz`."""

from __future__ import annotations

from typing import Any

from objq.broker.commit import Committer
from objq.clock import Clock


def describe(committer: Committer, clock: Clock, ttl_s: float) -> dict[str, Any]:
    """Return what is known. `store_ok`: reached within `ttl_s` seconds, and may be written."""
    age_s = clock.monotonic() - committer.confirmed_at
    seen = committer.seen
    return {
        "store_ok": age_s <= ttl_s and committer.trouble is None,
        "store_reached_s_ago": round(age_s, 3) if age_s != float("inf") else None,
        "problem": committer.trouble,
        "document": seen.document if seen else None,
        "epoch": seen.epoch if seen else None,
        "seq": seen.seq if seen else None,
        "leader": seen.broker.url if seen and seen.broker else None,
    }
