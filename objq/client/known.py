"""The newest version of the document that this process knows of, however it came to know it.

Headers are read to find the broker, and whole documents to write around it or without one. What one
of the two has seen binds both (S14): after `objq_doctor --adopt`, or where an old version was put
back, a process that has seen what was there before writes nothing, whichever way it looked.
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
