"""Does a job meet a filter? First by what is indexed, then by its bytes, and only then decoded."""

from __future__ import annotations

import json

import msgspec

from objq.core import ops
from objq.core.document import Document
from objq.core.summaries import Brief


class Matcher:
    """One filter, prepared for looking at many jobs."""

    def __init__(self, wanted: ops.Filter) -> None:
        self.states = frozenset(wanted.states)
        self.queues = frozenset(wanted.queues)
        self.is_indexed = wanted.task is None and wanted.text is None and wanted.error is None
        """The filter names states and queues only, which the document counts."""
        self._wanted = wanted
        self._text = spellings(wanted.text)
        task = () if wanted.task is None else (msgspec.json.encode(wanted.task),)
        needles = (task, self._text, spellings(wanted.error))
        self._needles = [needle for needle in needles if needle]

    def may_match(self, raw: bytes) -> bool:
        """Tell whether the rest of the filter may be met; a job that cannot is not decoded."""
        for needle in self._needles:
            for spelling in needle:
                if spelling in raw:
                    break
            else:
                return False
        return True

    def matches(self, job: Brief) -> bool:
        wanted = self._wanted
        if wanted.task is not None and job.task != wanted.task:
            return False
        if wanted.text is not None and not self._has_text(job, wanted.text):
            return False
        return wanted.error is None or _has_error(job, wanted.error)

    def total(self, document: Document) -> int | None:
        """Return how many jobs there are, if that is known without looking at them."""
        if not self.is_indexed:
            return None
        return sum(
            count
            for queue in (self.queues or document.counts)
            for state, count in document.counts.get(queue, {}).items()
            if not self.states or state in self.states
        )

    def _has_text(self, job: Brief, text: str) -> bool:
        return is_named(job.id, job.task, text) or stands_in(
            self._text, bytes(job.args), bytes(job.kwargs)
        )


def is_named(job_id: str, task: str, text: str) -> bool:
    """Tell whether a text is found in what a job is called, whatever its arguments are."""
    return job_id.startswith(text) or text in task


def stands_in(needle: tuple[bytes, ...], args: bytes, kwargs: bytes) -> bool:
    """Tell whether a text, given by its `spellings`, is found in arguments as JSON text."""
    return any(spelling in args or spelling in kwargs for spelling in needle)


def spellings(text: str | None) -> tuple[bytes, ...]:
    """Return the ways in which a text may stand inside JSON text: as it is, and escaped."""
    if text is None:
        return ()
    ascii_only = json.dumps(text)[1:-1]
    escaped = json.dumps(text, ensure_ascii=False)[1:-1]
    plain = text.encode(errors="replace")
    return tuple({plain: 0, ascii_only.encode(): 0, escaped.encode(errors="replace"): 0})


def _has_error(job: Brief, text: str) -> bool:
    error = job.error
    if error is not None and (text in error.type or text in error.message):
        return True
    return job.reason is not None and text in job.reason
