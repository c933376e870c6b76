"""Every rule of the queue: what an operation does to the document (promises S5 to S10, S13, S15).

`apply(document, op, now)` is pure: time comes in as `now` (wall clock, ms), fresh claim tokens from
`mint`. It changes the document in place and returns the answer, or raises `Rejected` when the whole
request is refused. Applying an operation again, on this version or on any later one, has no second
effect and gives the same answer: that is what lets the commit loop re-apply a batch after a
conflict, and a client repeat a request whose reply was lost.

The life of a job (the table is `objq.core.transitions`):

    push → scheduled → ready → running → succeeded
               ↑         ↑        │ fail, expire: an attempt is burnt if it had started
               └─backoff─┴────────┤ release: none is burnt
                                  └ at the limit → dead → retry → ready

An item that cannot be applied never harms its neighbours: it gets an outcome of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from objq.core import claiming, ending, operating, ops, pushing
from objq.core.document import Document
from objq.errors import Unsupported


class Applied(NamedTuple):
    """What an operation did. `changed`: a commit has to hold it before it is answered (S2)."""

    answer: ops.Answer
    changed: bool


def apply(
    document: Document,
    op: ops.Change,
    now: int,
    *,
    mint: Callable[[], str],
    epoch: int | None,
) -> Applied:
    """Apply one operation to the document.

    `now`: wall clock, ms. `mint` draws claim tokens. `epoch`: the leader's; None: granted directly.
    Raises a subclass of `Rejected` when the request as a whole is refused; nothing has changed
    then.
    """
    was_dirty, document.dirty = document.dirty, False
    try:
        answer: ops.Answer
        if isinstance(op, ops.TakeClaim):
            answer = claiming.take(document, op, claiming.Context(now, mint, epoch))
        elif (rule := _RULES.get(type(op))) is not None:
            answer = rule(document, op, now)
        else:
            raise Unsupported(f"{ops.op_name(op)} does not change the document.")
        return Applied(answer, document.dirty)
    finally:
        document.dirty = document.dirty or was_dirty


def tick(document: Document, now: int, led_ms: int) -> None:
    """Let time pass: due jobs become ready, old request ids go.

    `led_ms`: how long this leader has led since the last tick, by its monotonic clock; retention
    ages by that alone (S15). Nothing of this needs a commit of its own: it rides on the next one.
    """
    document.uptime_ms += led_ms
    document.make_due_ready(now)
    forget(document, now)


def forget(document: Document, now: int) -> None:
    """Let go of request ids that were not used for `DEDUPE_WINDOW`, as any writer may (S7).

    If what was used least recently was used at a time that is yet to come, the file's time stands
    still and ages say nothing. Half of what may be remembered is then kept, and the rest goes: that
    is room for what clients draw meanwhile, and for a window more when time goes on.
    """
    window_ms = int(document.settings.dedupe_window_s * 1000)
    requests = document.requests
    requests.prune(document.stamp(now) - window_ms)
    if (first_used_at := requests.first_used_at()) is not None and first_used_at > now:
        requests.shrink(
            most_clients=document.settings.max_clients // 2,
            most_bytes=document.requests_bytes() // 2,
        )


def tidy(document: Document) -> None:
    """Let records go that are kept no longer; only with a commit that is made anyway.

    It comes after the requests of that commit. So no record's time runs out between two commits, in
    memory only, and the repeat of an outcome (S6) is told what a durable version says. Beyond
    number and bytes the oldest go at once when a job ends (`Document.finish`), also between two
    requests of one commit: the later one may find a record gone that the commit will not hold.
    """
    document.trim("finished")
    document.trim("dead")


_RULES: dict[type[ops.Op], Callable[..., ops.Answer]] = {
    ops.Push: pushing.push,
    ops.Complete: ending.complete,
    ops.Fail: ending.fail,
    ops.Release: ending.release,
    ops.Cancel: operating.on_jobs,
    ops.Retry: operating.on_jobs,
    ops.Delete: operating.on_jobs,
    ops.RunNow: operating.on_jobs,
    ops.Pause: operating.pause,
    ops.Resume: operating.resume,
}
