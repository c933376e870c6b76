"""The document in memory: jobs with their indexes, and the one way to move a job.

`raw` is the truth of a job: its JSON text as it stands in the file. What the rules need to find a
job without reading all of them is kept beside it, in indexes that `_enter` and `_leave` maintain;
no operation scans the jobs. A change of a job decodes `raw`, replaces fields and encodes again (a
few microseconds), so that a million waiting jobs cost little more than their text.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import msgspec
from msgspec import Struct

from objq.core.heap import Heap
from objq.core.job import PLACES, Job, as_ready, became_ready, encode_view, place_of
from objq.core.ops import Attempt, BrokerInfo, Challenge, DocumentSettings, JobState, JobView
from objq.core.ready import Ready
from objq.core.requests import Remembered, RequestMemory

CLAIM_RESERVE_BYTES: Final = 256
"""Room kept per job for its claim, so that a full document can still be drained (S13)."""

KEPT_SHARE: Final = 8
"""`finished` and `dead` may each fill one part in this many of `MAX_BYTES`."""

ERRORS_SHARE: Final = 64
"""The errors of one job's attempts may fill one part in this many of `MAX_BYTES`; beyond, those of
the oldest are shortened. With its arguments and its result, of which the options bound the size, a
job that has ended is then within its list's share."""

REQUESTS_SHARE: Final = 16
"""What is remembered of requests may fill one part in this many of `MAX_BYTES`."""

UNBURNT_HISTORY: Final = 8
"""Ended claims kept in a job's history beyond its `max_attempts`."""


class Totals(Struct):
    """Counts since the document was made, per queue; they always reconcile (design §5)."""

    pushed: int = 0
    retried: int = 0
    claimed: int = 0
    succeeded: int = 0
    failed: int = 0
    dead: int = 0
    expired: int = 0
    cancelled: int = 0
    deleted: int = 0


_Due = tuple[int, int, Job]
"""A scheduled job, behind its `run_after` and its place in push order."""


class QueueState(Struct, omit_defaults=True):
    paused: bool = False


class Header(Struct, frozen=True, kw_only=True):
    """What stands before `jobs`: enough to find the broker. `uptime_ms` is the leaders' time."""

    objq: int
    document: str
    seq: int
    epoch: int
    commit: str
    at: int = 0
    uptime_ms: int = 0
    broker: BrokerInfo | None
    challenge: Challenge | None

    def heard(self, epoch: int, seq: int) -> Header:
        """Return what is known after a broker told of this version: nothing older may follow (S14).

        Of a newer one no more is known, so that any commit may have made it.
        """
        if seq <= self.seq:
            return self
        epoch = max(self.epoch, epoch)
        return msgspec.structs.replace(self, epoch=epoch, seq=seq, commit="")


@contextmanager
def riding(document: Document) -> Iterator[None]:
    """Let what is done inside ask for no commit: it rides on the next one."""
    dirty = document.dirty
    try:
        yield
    finally:
        document.dirty = dirty


class Document:
    """One `queue.json`. The rules are in `objq.core.rules`, its bytes in `objq.core.codec`."""

    def __init__(
        self,
        header: Header,
        settings: DocumentSettings,
        queues: dict[str, QueueState],
        requests: RequestMemory,
        totals: dict[str, Totals],
    ) -> None:
        self.schema = header.objq
        self.id = header.document
        self.seq = header.seq
        self.epoch = header.epoch
        self.commit = header.commit
        self.at = header.at
        self.uptime_ms = header.uptime_ms
        self.broker = header.broker
        self.challenge = header.challenge
        self.settings = settings
        self.queues = queues
        self.requests = requests
        self.totals = totals
        self.dirty = False
        self.jobs: dict[str, Job] = {}
        self.dead: dict[str, Job] = {}
        self.finished: dict[str, Job] = {}
        self._places = {"jobs": self.jobs, "dead": self.dead, "finished": self.finished}
        self.claims: dict[str, Job] = {}
        self.claims_by_id: dict[str, dict[str, Job]] = {}
        self.ended: dict[str, Job] = {}
        self.counts: dict[str, dict[str, int]] = {}
        self.bytes: dict[str, int] = dict.fromkeys(PLACES, 0)
        self.dropped: dict[str, int] = {"finished": 0, "dead": 0, "queues": 0}
        self.ready: dict[str, Ready] = {}
        self.touched: dict[str, None] | None = None
        """The ids of jobs that came, went or changed, while somebody watches; else None."""
        jobs = self.jobs  # not `self`: a document that holds itself is freed only by the collector
        self._scheduled: Heap[_Due] = Heap(lambda entry: _is_scheduled(entry, jobs))
        self._next_order = 0

    # --- identity -------------------------------------------------------------------------------

    @classmethod
    def new(cls, document_id: str, settings: DocumentSettings, now: int) -> Document:
        """Return a document that nobody has written yet (seq 0, epoch 0)."""
        header = Header(
            objq=1,
            document=document_id,
            seq=0,
            epoch=0,
            commit="",
            at=now,
            broker=None,
            challenge=None,
        )
        document = cls(header, settings, {}, RequestMemory(0, {}), {})
        document.dirty = True
        return document

    def header(self) -> Header:
        return Header(
            objq=self.schema,
            document=self.id,
            seq=self.seq,
            epoch=self.epoch,
            commit=self.commit,
            at=self.at,
            uptime_ms=self.uptime_ms,
            broker=self.broker,
            challenge=self.challenge,
        )

    def stamp(self, now: int) -> int:
        """Return the time to write for `now` (ms): times in the file never go back (S15)."""
        return max(self.at, now)

    # --- finding --------------------------------------------------------------------------------

    def find(self, job_id: str) -> Job | None:
        return self.jobs.get(job_id) or self.dead.get(job_id) or self.finished.get(job_id)

    def find_request(self, request: str) -> Remembered | None:
        """Return what is remembered of a request that was applied; None if it was not (S7).

        Raises Invalid and ExpiredId, as `RequestMemory.find` does, and Overloaded if one more could
        not be remembered.
        """
        kept = self.requests.find(request, self.seq)
        if kept is None:
            self.requests.check_room(request, self.settings.max_clients, self.requests_bytes())
        return kept

    def find_claim(self, claim: str) -> Remembered | None:
        """Return what is remembered of a claim that was granted something, as `find_request` does.

        There is always room for one more (S13): see `record_claim`.
        """
        return self.requests.find(claim, self.seq)

    def views(self, ids: Iterable[str]) -> tuple[JobView | None, ...]:
        """Return each job as it is now, or None where there is no such job."""
        return tuple(job.view() if (job := self.find(job_id)) else None for job_id in ids)

    def next_ready(self, queues: Iterable[str]) -> Job | None:
        """Return the job that a claim on `queues` gets next: by priority, then push order (S8)."""
        best: Job | None = None
        for name in queues:
            ready = self.ready.get(name)
            if ready is None or self.is_paused(name):
                continue
            job = ready.first()
            if job and (best is None or (-job.priority, job.order) < (-best.priority, best.order)):
                best = job
        return best

    def indexed(self, states: Container[str], queues: Iterable[str], most: int) -> list[Job] | None:
        """Return what the indexes hold of waiting and running jobs, if it is at most `most`.

        `queues`: those of which ready jobs are wanted. The jobs are in no order, may stand there
        twice, and some may have left or changed: see for yourself.
        """
        ready: list[Ready] = []
        if "ready" in states:
            ready = [self.ready[name] for name in queues if name in self.ready]
        running = self.claims.values() if "running" in states else ()
        scheduled = self._scheduled.entries if "scheduled" in states else ()
        if sum(each.count() for each in ready) + len(running) + len(scheduled) > most:
            return None
        ready_jobs = [job for each in ready for job in each.entries()]
        return [*ready_jobs, *running, *(job for _, _, job in scheduled)]

    def is_paused(self, queue: str) -> bool:
        state = self.queues.get(queue)
        return state is not None and state.paused

    def next_due(self) -> int | None:
        """Return when the next scheduled job becomes ready (ms), or None."""
        head = self._scheduled.head()
        return head[0] if head else None

    def waiting_bytes(self) -> int:
        """Return the bytes of all jobs that are not done, with the room reserved for each."""
        return self.bytes["jobs"] + len(self.jobs) * CLAIM_RESERVE_BYTES

    def room_bytes(self) -> int:
        """Return how many bytes of jobs the document may hold: what is kept besides is left out."""
        most = self.settings.max_bytes
        return most - 2 * (most // KEPT_SHARE) - self.requests_bytes()

    def requests_bytes(self) -> int:
        """Return how many bytes what is remembered of requests may have."""
        return self.settings.max_bytes // REQUESTS_SHARE

    # --- changing -------------------------------------------------------------------------------

    def add(self, view: JobView) -> Job:
        """Append a job to the waiting ones, at the end of the push order."""
        job = self._job(view, encode_view(view))
        self._enter(job)
        self._index_history(job, (), view.history)
        return job

    def load(self, view: JobView, raw: bytes) -> None:
        """Add a job as it was read from the file, to where its state says that it stands."""
        job = self._job(view, raw)
        self._enter(job)
        self._index_history(job, (), view.history)

    def change(self, job: Job, **fields: Any) -> Job:
        """Replace fields of a job that stays among the waiting and running ones."""
        old = job.view()
        view = msgspec.structs.replace(old, **fields)
        self._leave_indexes(job)
        self.bytes["jobs"] -= len(job.raw)
        job.raw = encode_view(view)
        job.state, job.run_after, job.claim = view.state, view.run_after, view.claim
        job.cancel_requested = view.cancel_requested
        job.ready_since = became_ready(view.pushed_at, view.run_after, view.history)
        self.bytes["jobs"] += len(job.raw)
        self._enter_indexes(job)
        self._index_history(job, old.history, view.history)
        self.dirty = True
        return job

    def finish(self, job: Job, now: int, *, state: JobState, **fields: Any) -> Job:
        """Move a job from the waiting ones to `dead` or `finished`, as `state` says."""
        old = job.view()
        view = msgspec.structs.replace(
            old,
            claim=None,
            run_after=None,
            finished_at=self.stamp(now),
            kept_from_ms=self.uptime_ms,
            state=state,
            **fields,
        )
        self._leave(job)
        ended = self._job(view, encode_view(view))
        self._enter(ended)
        self._index_history(ended, old.history, view.history)
        self.trim(place_of(state))
        return ended

    def record_claim(self, claim: str, stamp: int) -> None:
        """Remember a claim that was granted something.

        Where that takes more than what is remembered may have, the prefixes that were used least
        recently go for it: a grant is never refused for want of room (S13).
        """
        self.requests.record(claim, stamp)
        self.requests.shrink(most_bytes=self.requests_bytes())

    def remove(self, job: Job) -> None:
        """Take a job out of the document, with all that is known of it."""
        self._index_history(job, job.view().history, ())
        self._leave(job)

    def make_due_ready(self, now: int) -> None:
        """Let jobs whose `run_after` has come by the wall clock be ready (S15); needs no commit."""
        with riding(self):
            while (due := self._scheduled.head()) is not None and due[0] <= now:
                self._make_ready(due[2])

    def _make_ready(self, job: Job) -> None:
        """Do what `change(job, state="ready")` does, in less time, since many come due at once."""
        raw = as_ready(job.raw)
        if raw is None:
            self.change(job, state="ready")
            return
        self._leave_indexes(job)
        self.bytes["jobs"] += len(raw) - len(job.raw)
        job.raw, job.state = raw, "ready"
        self._enter_indexes(job)

    def trim(self, where: str) -> int:
        """Drop the oldest of `finished` or `dead` beyond age, count or bytes; return how many.

        The last one that is left is never too large: a job that has just ended would be gone (S1,
        S10).
        """
        settings = self.settings
        ttl_s, most = {
            "finished": (settings.result_ttl_s, settings.max_finished),
            "dead": (settings.dead_ttl_s, settings.max_dead),
        }[where]
        kept = self._places[where]
        most_bytes = self.settings.max_bytes // KEPT_SHARE
        before = len(kept)
        with riding(self):
            while kept:
                oldest = next(iter(kept.values()))
                age_ms = self.uptime_ms - (oldest.kept_from_ms or 0)
                too_large = self.bytes[where] > most_bytes and len(kept) > 1
                if age_ms <= ttl_s * 1000 and len(kept) <= most and not too_large:
                    break
                self.remove(oldest)
        gone = before - len(kept)
        self.dropped[where] += gone
        return gone

    def is_idle(self, queue: str) -> bool:
        """Tell whether there is nothing to know of a queue but its totals."""
        return queue not in self.queues and not any(self.counts.get(queue, {}).values())

    def forget_queue(self, queue: str) -> None:
        """Forget the name of an idle queue, with its totals."""
        del self.totals[queue]
        self.counts.pop(queue, None)
        self.ready.pop(queue, None)
        self.dropped["queues"] += 1
        self.dirty = True

    def totals_of(self, queue: str) -> Totals:
        return self.totals.setdefault(queue, Totals())

    def _job(self, view: JobView, raw: bytes) -> Job:
        self._next_order += 1
        return Job(
            id=view.id,
            queue=view.queue,
            state=view.state,
            priority=view.priority,
            order=self._next_order,
            raw=raw,
            pushed_at=view.pushed_at,
            run_after=view.run_after,
            claim=view.claim,
            cancel_requested=view.cancel_requested,
            kept_from_ms=view.kept_from_ms,
            ready_since=became_ready(view.pushed_at, view.run_after, view.history),
        )

    def _enter(self, job: Job) -> None:
        where = place_of(job.state)
        self._places[where][job.id] = job
        self.bytes[where] += len(job.raw)
        self._enter_indexes(job)
        self.dirty = True

    def _leave(self, job: Job) -> None:
        where = place_of(job.state)
        del self._places[where][job.id]
        self.bytes[where] -= len(job.raw)
        self._leave_indexes(job)
        self.dirty = True
        if self.touched is not None:
            self.touched[job.id] = None

    def _enter_indexes(self, job: Job) -> None:
        if self.touched is not None:
            self.touched[job.id] = None
        counts = self.counts.setdefault(job.queue, {})
        counts[job.state] = counts.get(job.state, 0) + 1
        if job.state == "ready":
            ready = self.ready.get(job.queue)
            if ready is None:
                ready = self.ready[job.queue] = Ready(self.jobs)
            ready.add(job)
        elif job.state == "scheduled":
            self._scheduled.add((job.run_after or 0, job.order, job))
        if job.claim is not None:
            self.claims[job.claim.token] = job
            self.claims_by_id.setdefault(job.claim.id, {})[job.claim.token] = job

    def _leave_indexes(self, job: Job) -> None:
        self.counts[job.queue][job.state] -= 1
        if job.state == "ready":
            self.ready[job.queue].leave(job)
        elif job.state == "scheduled":
            self._scheduled.leave(job)
        if job.claim is not None:
            del self.claims[job.claim.token]
            held = self.claims_by_id[job.claim.id]
            del held[job.claim.token]
            if not held:
                del self.claims_by_id[job.claim.id]

    def _index_history(self, job: Job, old: tuple[Attempt, ...], new: tuple[Attempt, ...]) -> None:
        for attempt in old:
            self.ended.pop(attempt.token, None)
        for attempt in new:
            self.ended[attempt.token] = job


def _is_scheduled(entry: _Due, present: Mapping[str, Job]) -> bool:
    run_after, _, job = entry
    here = present.get(job.id) is job
    return here and job.state == "scheduled" and (job.run_after or 0) == run_after
