"""What a commit tells once it is confirmed: how long jobs waited and ran, which claims expired."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from objq.broker.batch import Batch
from objq.broker.measures import Measures
from objq.core import ops
from objq.core.document import Document
from objq.core.ending import Expired

logger = logging.getLogger("objq.broker")

MOST_NAMED: Final = 5
"""Of the claims that expired in one commit, in its line of the log."""


def note_commit(measures: Measures, batch: Batch, document: Document) -> None:
    """Count a batch that is durable in `document`."""
    changed = 0
    for entry in batch.everyone():
        if not entry.changed:
            continue
        changed += 1
        if isinstance(entry.outcome, ops.Granted):
            _note_waits(measures, entry.outcome, document)
        elif entry.begun:
            measures.ran(max(0, document.at - began) / 1000 for began in entry.begun)
    if changed:
        measures.batch(changed)
    measures.expired += len(batch.expired)
    log_expired(logger, batch.expired)
    _note_dropped(measures, document)


def _note_waits(measures: Measures, granted: ops.Granted, document: Document) -> None:
    for grant in granted.jobs:
        job = document.claims.get(grant.token)
        if job is None or grant.attempt > 1 or grant.history:
            continue  # of a later grant it is not known since when the job was ready
        measures.waited(max(0, grant.claimed_at - job.ready_since) / 1000)


def log_expired(log: logging.Logger, expired: Sequence[Expired]) -> None:
    """Tell of claims that have expired in a commit that is durable."""
    if not expired:
        return
    named = [f"job {each.job} of worker {each.worker or 'unnamed'}" for each in expired]
    others = len(expired) - MOST_NAMED
    more = f" and {others} more" if others > 0 else ""
    log.warning(
        "%d %s expired: %s%s.", len(expired), "claim" if len(expired) == 1 else "claims",
        ", ".join(named[:MOST_NAMED]), more, extra={"event": "claims_expired"},
    )  # fmt: skip


def _note_dropped(measures: Measures, document: Document) -> None:
    for where, count in document.dropped.items():
        if count:
            measures.dropped[where] += count
            document.dropped[where] = 0
            logger.info(
                "%d of %s were dropped, as %s says.", count, where,
                "MAX_QUEUES" if where == "queues" else "retention",
                extra={"event": "records_dropped"},
            )  # fmt: skip
