"""The newest version of the document that this process knows of, however it came to know it.

Headers are read to find the broker, whole documents to write around it or without one, and brokers
tell with their answers which version they speak of. What was seen in one of these ways binds the
others (S14): after `objq_doctor --adopt`, or where an old version was put back, a process that has
seen what was there before goes on with nothing older, whichever way it looked.
"""

from __future__ import annotations

from objq.core.document import Header


class Known:
    """`header` is None before anything was seen."""

    def __init__(self) -> None:
        self.header: Header | None = None

    def saw(self, header: Header) -> None:
        """Take note of a version that was checked against what was known when its read began."""
        if self.header is None or header.seq >= self.header.seq:
            self.header = header

    def heard(self, epoch: int, seq: int) -> None:
        """Take note that a broker has answered of this version."""
        if self.header is not None:
            self.header = self.header.heard(epoch, seq)
