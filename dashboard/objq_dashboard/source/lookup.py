"""Jobs by their ids, however large they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from objq.errors import TooLarge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from objq.client.sync import SyncClient
    from objq.core import ops


def looked_up(
    client: SyncClient, ids: Sequence[str], timeout_s: float
) -> tuple[ops.JobView | None, ...]:
    """Return the jobs as they are now, in parts where they are too large for one answer."""
    try:
        return client.get(ids, timeout_s=timeout_s).jobs
    except TooLarge:
        if len(ids) == 1:
            raise
    half = len(ids) // 2
    first, second = ids[:half], ids[half:]
    return looked_up(client, first, timeout_s) + looked_up(client, second, timeout_s)
