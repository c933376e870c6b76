"""How far a session has seen: the settings, the request ids and the order of answers (S7, S11).

What is seen comes from three sides: documents that this process read itself, the welcome of a
broker, and the answers that were handed out.
"""

from __future__ import annotations

import msgspec

from objq.client.request_ids import RequestIds
from objq.client.ticket import READS
from objq.clock import Clock
from objq.core import ops
from objq.core.document import Document
from objq.ids import Ids


class Horizon:
    """`settings`: one's own, in force until the document's are seen. Times: monotonic seconds."""

    def __init__(self, settings: ops.DocumentSettings, clock: Clock, ids: Ids) -> None:
        self.settings = settings
        """The document's, as last seen or told by the broker."""
        self.request_ids = RequestIds(clock, ids, settings.dedupe_window_s)
        self._own_window_s = settings.dedupe_window_s
        self._newest = (-1, -1)
        """(epoch, seq) of the newest version of which an answer was handed out (S11)."""

    def saw(self, document: Document, began: float) -> None:
        """Take note of a document that a store access, begun then, found to be the newest."""
        self._keep_to(document.settings)
        self.request_ids.saw(document.seq, began)

    def welcomed(self, welcome: ops.Welcome, asked_at: float) -> bool:
        """Take note of what a broker says, unless it is behind what was seen: then return False."""
        if welcome.epoch < self._newest[0]:
            return False
        self._keep_to(welcome.settings)
        self.request_ids.saw(welcome.seq, asked_at)
        return True

    def is_behind(self, op: ops.Op, answer: ops.Answer) -> bool:
        """Return whether a reader would see the queue go back in time."""
        version = version_of(answer)
        return isinstance(op, READS) and version is not None and version < self._newest

    def hand_out(self, answer: ops.Answer, sent_at: float) -> ops.Answer:
        """Return the answer for the caller, whose request was sent at `sent_at`."""
        version = version_of(answer)
        if version is None:
            return answer
        if version < self._newest:  # the repeat of a change; its old position says nothing new
            return msgspec.structs.replace(answer, position=None)
        self._newest = version
        self.request_ids.saw(version[1], sent_at)
        return answer

    def _keep_to(self, settings: ops.DocumentSettings) -> None:
        self.settings = settings
        self.request_ids.window_s = min(self._own_window_s, settings.dedupe_window_s)


def version_of(answer: ops.Answer) -> tuple[int, int] | None:
    """Return (epoch, seq) of the version that the answer tells of, if it does."""
    if isinstance(answer, ops.Statistics):
        return answer.epoch, answer.seq
    return answer.position[:2] if answer.position is not None else None
