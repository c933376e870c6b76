"""Requests that change nothing, answered from a document that this process has just confirmed."""

from __future__ import annotations

from typing import Final

from objq.broker.leases import Leases
from objq.broker.roster import Roster
from objq.clock import Clock
from objq.core import ops
from objq.core.claiming import beaten
from objq.core.document import Document
from objq.core.listing import Listing
from objq.core.silence import SilenceWatch
from objq.core.statistics import statistics
from objq.errors import Unsupported

FROM_DOCUMENT: Final = (ops.Get, ops.Stats, ops.ListJobs)
"""Those of which a broker knows no more than the document does."""


class LookUps:
    """What is told of running jobs is what this process has seen move (`watch`)."""

    def __init__(self, clock: Clock, watch: SilenceWatch) -> None:
        self._clock = clock
        self._watch = watch
        self._listing = Listing()

    def answer(self, document: Document, op: ops.Op) -> ops.Answer:
        """Answer from the confirmed document; raises Rejected."""
        match op:
            case ops.Get():
                # The version, so that no session sees the queue go back in time (S11).
                version = (document.epoch, document.seq, 0)
                return ops.Jobs(position=version, jobs=document.views(op.ids))
            case ops.Stats():
                return statistics(document, self._watch.unmoved_s)
            case ops.ListJobs():
                return self._listing.page(document, op, self._watch.unmoved_s)
            case ops.Workers():
                return Roster(self._clock).look(document, self._leases(document))
            case ops.Heartbeat():
                return beaten(document, op)
        raise Unsupported(f"{ops.op_name(op)} is what a broker remembers, and none leads.")

    def forget(self) -> None:
        """Give memory back."""
        self._listing.forget()

    def _leases(self, document: Document) -> Leases:
        leases = Leases(document.settings.heartbeat_timeout_s)
        now = self._clock.monotonic()
        for token in document.claims:
            leases.hear(token, now - (self._watch.unmoved_s(token) or 0.0))
        return leases
