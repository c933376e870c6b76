"""The rules of claims while they live: granting and heartbeats (promises S5, S7, S8, S10)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, cast

import msgspec

from objq.core import ops
from objq.core.document import Document, riding
from objq.core.job import Job
from objq.core.requests import parse_request

MAX_GRANTED_BYTES: Final = 2 * 1024 * 1024
"""Of jobs granted to one claim, beyond the first: an answer has to fit a socket's buffers."""


class Context(NamedTuple):
    """What grants need from outside.

    `now`: wall clock, ms. `mint` draws claim tokens. `epoch`: the leader's; None: granted directly.
    """

    now: int
    mint: Callable[[], str]
    epoch: int | None


def take(document: Document, op: ops.TakeClaim, context: Context) -> ops.Granted:
    """Grant up to `op.max` jobs. A repeat gets those of this claim still held, and never more."""
    held = document.claims_by_id.get(op.claim)
    if held:
        jobs = sorted(held.values(), key=lambda job: (-job.priority, job.order))
        return ops.Granted(jobs=tuple(_granted(job) for job in jobs))
    remembered = parse_request(op.claim) is not None
    if remembered and document.find_claim(op.claim):
        return ops.Granted()
    grants: list[ops.Grant] = []
    size_bytes = 0
    while len(grants) < op.max:
        job = document.next_ready(op.queues)
        if job is None:
            break
        size_bytes += len(job.raw)
        if grants and size_bytes > MAX_GRANTED_BYTES:
            break
        alone = job.view().alone
        if alone and grants:
            break
        grants.append(_granted(_grant(document, job, op, context, alone)))
        if alone:
            break
    if grants and remembered:
        document.record_claim(op.claim, document.stamp(context.now))
    return ops.Granted(jobs=tuple(grants))


def _grant(document: Document, job: Job, op: ops.TakeClaim, context: Context, alone: bool) -> Job:
    # A job whose last claim expired unstarted may be what killed its worker: it is granted alone
    # and counts as started at once, so that it cannot go round for ever (S10).
    stamp = document.stamp(context.now)
    claim = ops.Claim(
        token=context.mint(),
        id=op.claim,
        worker=op.worker,
        claimed_at=stamp,
        heartbeat_at=stamp,
        heartbeat_seq=document.seq + 1,
        epoch=context.epoch,
        started_at=stamp if alone else None,
        alone=alone,
    )
    document.totals_of(job.queue).claimed += 1
    attempts = job.view().attempts + alone
    return document.change(job, state="running", claim=claim, attempts=attempts, alone=False)


def _granted(job: Job) -> ops.Grant:
    view = job.view()
    claim = cast(ops.Claim, view.claim)
    return ops.Grant(
        id=view.id,
        token=claim.token,
        queue=view.queue,
        task=view.task,
        args=view.args,
        kwargs=view.kwargs,
        attempt=view.attempt,
        max_attempts=view.max_attempts,
        pushed_at=view.pushed_at,
        claimed_at=claim.claimed_at,
        priority=view.priority,
        history=view.history,
        cancel_requested=view.cancel_requested,
        alone=claim.alone,
    )


def beat(document: Document, heard: Iterable[str], started: Iterable[str], now: int) -> None:
    """Write down that these holders live. Rides on the next commit: never makes one by itself.

    `heartbeat_seq` is the seq of that commit, by which direct workers see a claim move (§1).
    """
    # A heartbeat alone is nothing to tell those who watch.
    touched, document.touched = document.touched, None
    stamp = document.stamp(now)
    begun = set(started)
    with riding(document):
        for token in sorted({*heard, *begun}):  # the same in, the same out
            job = document.claims.get(token)
            if job is None or job.claim is None:
                continue
            claim = job.claim
            starts = token in begun and claim.started_at is None
            attempts = job.view().attempts + starts
            claim = msgspec.structs.replace(
                claim,
                heartbeat_at=stamp,
                heartbeat_seq=document.seq + 1,
                started_at=stamp if starts else claim.started_at,
            )
            document.change(job, claim=claim, attempts=attempts)
            if starts and touched is not None:
                touched[job.id] = None
    document.touched = touched


def beats_behind(document: Document, heard: Iterable[str], now: int) -> bool:
    """Tell whether heartbeats heard of these tokens have to be committed now.

    Half of what a claim's `heartbeat_at` may be behind leaves time for the write itself.
    """
    behind_ms = document.settings.beat_behind_s * 1000 / 2
    stamp = document.stamp(now)
    for token in heard:
        job = document.claims.get(token)
        if job is not None and job.claim and stamp - job.claim.heartbeat_at >= behind_ms:
            return True
    return False


def beaten(document: Document, op: ops.Heartbeat) -> ops.Beaten:
    """Return the answer to a heartbeat: which claims are lost, and which jobs should stop."""
    lost, cancel = [], []
    for token in dict.fromkeys((*op.tokens, *op.started)):
        job = document.claims.get(token)
        if job is None:
            lost.append(token)
        elif job.cancel_requested:
            cancel.append(token)
    return ops.Beaten(lost=tuple(lost), cancel=tuple(cancel))
