"""Jobs page by page, without holding anybody up (design §7, `list`).

Jobs are listed in three sections: the waiting and running ones in push order, then the dead, then
the finished ones, each newest first. A page begins where the cursor of the page before says, and
that place is found without walking there: each section is followed in a line that is sorted by
push order, and the line is made only when somebody lists.

One request looks at `MAX_SCANNED` jobs at most, at `MAX_SCANNED_BYTES` of their text, and decodes
`MAX_DECODED` of them; then it answers with what it has found, and a cursor to go on. States and
queues of which there are few jobs are found through the document's own indexes.

A cursor outlives the job that it names, a reload of the document and a take-over. After the last
two a row may come twice if its job is gone; a job that moves meanwhile (it dies, it is retried) may
come twice or not at all.
"""

from __future__ import annotations

import base64
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec

from objq.core import ops
from objq.core.document import Document
from objq.core.filters import Matcher
from objq.core.job import Job, place_of
from objq.core.summaries import brief, summary
from objq.errors import Invalid

MAX_SCANNED: Final = 10_000
MAX_SCANNED_BYTES: Final = 16 * 1024 * 1024
MAX_DECODED: Final = 1_000
"""Of one request; together a few milliseconds."""

SLACK: Final = 1_000
"""Jobs that have left stay in a line until they are more than half of it and this."""

SECTIONS: Final = ("jobs", "dead", "finished")

_UNENDED: Final = frozenset({"ready", "scheduled", "running"})
_order = attrgetter("order")


class _Cursor(NamedTuple):
    """The last job that was looked at. `made`: which numbering `order` belongs to."""

    section: int
    order: int
    made: str
    at: int
    id: str


_decode_cursor = msgspec.json.Decoder(_Cursor).decode


class Listing:
    """The lines of one document after another, and pages of them."""

    def __init__(self) -> None:
        self._document: Document | None = None
        self._lines: dict[str, list[Job]] = {}
        self._made = ""
        self._documents = 0

    def forget(self) -> None:
        """Let go of the lines, which keep jobs that have left; the next page makes them anew."""
        self._document = None
        self._lines = {}

    def page(
        self, document: Document, op: ops.ListJobs, heard_ago_s: Callable[[str], float | None]
    ) -> ops.Listed:
        """Return a page. Raises Invalid if the cursor is none of ours."""
        cursor = _read_cursor(op.page.cursor)
        if document is not self._document:
            self._documents += 1
            self._document, self._lines = document, {}
            self._made = f"{document.epoch}.{document.seq}.{self._documents}"
        matcher = Matcher(op.filter)
        walk = _Walk(matcher, op.page.limit, heard_ago_s)
        first = cursor.section if cursor else 0
        ended = True
        for number in range(first, len(SECTIONS)):
            if not _is_wanted(SECTIONS[number], matcher):
                continue
            ended = self._walk(document, number, walk, cursor if number == first else None)
            if not ended:
                break
        return ops.Listed(
            position=(document.epoch, document.seq, 0),
            jobs=tuple(walk.rows),
            cursor=None if ended else self._cursor(walk),
            scanned=walk.scanned,
            partial=not ended and len(walk.rows) < op.page.limit,
            total=matcher.total(document),
        )

    def _walk(self, document: Document, number: int, walk: _Walk, cursor: _Cursor | None) -> bool:
        section = SECTIONS[number]
        among: dict[str, Job] = getattr(document, section)
        jobs = _few(document, walk.matcher) if section == "jobs" else None
        if jobs is None:
            jobs = self._line(section, among)
        down = section != "jobs"
        start = len(jobs) - 1 if down else 0
        if cursor is not None:
            start = self._place(jobs, among, cursor, down=down)
        places = range(start, -1, -1) if down else range(start, len(jobs))
        before = walk.scanned
        ended = walk.go(jobs, among, places)
        if walk.scanned > before:
            walk.section = number
        return ended

    def _line(self, section: str, among: dict[str, Job]) -> list[Job]:
        line = self._lines.get(section)
        if not line or len(line) > 2 * len(among) + SLACK:
            line = self._lines[section] = list(among.values())
            return line
        last, added = line[-1].order, []
        for job in reversed(among.values()):
            if job.order <= last:
                break
            added.append(job)
        line.extend(reversed(added))
        return line

    def _place(
        self, jobs: Sequence[Job], among: Mapping[str, Job], cursor: _Cursor, *, down: bool
    ) -> int:
        """Return where to begin: after the job that the cursor names, or where it stood."""
        order = cursor.order if cursor.made == self._made else None
        if order is None:
            job = among.get(cursor.id)
            order = job.order if job is not None and _time(job) == cursor.at else None
        if order is not None:
            if down:
                return bisect_left(jobs, order, key=_order) - 1
            return bisect_right(jobs, order, key=_order)
        if down:
            return bisect_right(jobs, cursor.at, key=_time) - 1
        return bisect_left(jobs, cursor.at, key=_time)

    def _cursor(self, walk: _Walk) -> str:
        job = walk.last
        assert job is not None
        cursor = _Cursor(walk.section, job.order, self._made, _time(job), job.id)
        return base64.urlsafe_b64encode(msgspec.json.encode(cursor)).decode()


class _Walk:
    """One request's way through the sections, until the page is full or a bound is met."""

    def __init__(
        self, matcher: Matcher, limit: int, heard_ago_s: Callable[[str], float | None]
    ) -> None:
        self.matcher = matcher
        self.rows: list[ops.JobSummary] = []
        self.scanned = 0
        self.last: Job | None = None
        self.section = 0
        """The section of the last job that was looked at."""
        self._limit = limit
        self._heard_ago_s = heard_ago_s
        self._bytes = 0
        self._decoded = 0

    def go(self, jobs: Sequence[Job], among: Mapping[str, Job], places: range) -> bool:
        """Look at the jobs at these places; return False if it stopped before their end."""
        if not places:
            return True
        if self._is_over():
            return False
        matcher, indexed = self.matcher, self.matcher.is_indexed
        states, queues = matcher.states, matcher.queues
        seen = 0
        for place in places[: MAX_SCANNED - self.scanned]:  # a tight loop: most jobs end in it
            seen += 1
            job = jobs[place]
            if among.get(job.id) is not job:
                continue
            if (states and job.state not in states) or (queues and job.queue not in queues):
                continue
            if not indexed:
                self._bytes += len(job.raw)
                if matcher.may_match(job.raw):
                    self._take(job)
                elif self._bytes < MAX_SCANNED_BYTES:
                    continue
            else:
                self._take(job)
            if self._is_over():
                break
        self.scanned += seen
        self.last = jobs[places[seen - 1]]
        return seen == len(places)

    def _is_over(self) -> bool:
        return (
            len(self.rows) >= self._limit
            or self.scanned >= MAX_SCANNED
            or self._bytes >= MAX_SCANNED_BYTES
            or self._decoded >= MAX_DECODED
        )

    def _take(self, job: Job) -> None:
        self._decoded += 1
        found = brief(job)
        if self.matcher.matches(found):
            heard = self._heard_ago_s(job.claim.token) if job.claim else None
            self.rows.append(summary(found, heard))


def _is_wanted(section: str, matcher: Matcher) -> bool:
    return not matcher.states or any(place_of(state) == section for state in matcher.states)


def _few(document: Document, matcher: Matcher) -> list[Job] | None:
    """Return the waiting and running jobs that may be wanted, in push order, if they are few."""
    states = matcher.states & _UNENDED or _UNENDED
    queues = matcher.queues or document.ready.keys()
    found = document.indexed(states, queues, MAX_SCANNED // 2)
    if found is None:
        return None
    return sorted({job.order: job for job in found}.values())


def _time(job: Job) -> int:
    """Return a time of the job that rises along its section (ms)."""
    return job.pushed_at if job.kept_from_ms is None else job.kept_from_ms


def _read_cursor(text: str | None) -> _Cursor | None:
    if text is None:
        return None
    try:
        cursor = _decode_cursor(base64.urlsafe_b64decode(text))
    except (ValueError, msgspec.MsgspecError):
        raise Invalid("This cursor is not one that `list` has answered with.") from None
    if not 0 <= cursor.section < len(SECTIONS):
        raise Invalid("This cursor is not one that `list` has answered with.")
    return cursor
