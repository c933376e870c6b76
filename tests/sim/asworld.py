"""A small history in the form of a world, for the checker."""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final, cast

from msgspec import Raw

from objq.core import ops
from objq.options import Options
from objq.store.base import Tag
from tests.sim.author import is_suspect
from tests.sim.history import Asked, History
from tests.sim.history import Run as RanBefore
from tests.sim.small import ARGS, ENDED, T_S, Call, Entry, Job, Made, Small
from tests.sim.store import Access, Version
from tests.sim.world import World

WALL_MS: Final = 1_764_000_000_000


@dataclass(kw_only=True)
class Somebody:
    """What the checker asks of a process."""

    name: str
    died_at: float | None
    pauses: tuple[tuple[float, float], ...] = ()
    place: str = "nowhere"

    @property
    def clock(self) -> Somebody:
        return self

    def highest_wall_ms(self, until: float) -> int:
        return WALL_MS + int(until * 1000)

    def was_paused(self, since: float, until: float) -> bool:
        return False


def world_of(small: Small) -> World:
    """Return the history in the form that the checker takes."""
    names = {made.by for made in small.versions}
    names |= {run.by for run in small.runs} | {call.by for call in small.calls}
    names |= {entry.worker for made in small.versions for entry in made.jobs if entry.worker}
    died = dict(small.died)
    processes: Any = {name: Somebody(name=name, died_at=died.get(name)) for name in sorted(names)}
    history = History()
    for call in small.calls:
        asked = _asked(call, processes[call.by], small)
        (history.pushed if call.kind == "push" else history.reported).append(asked)
    for run in small.runs:
        history.runs.append(
            RanBefore(
                job=run.job,
                token=run.token,
                by=processes[run.by],
                began=run.began,
                args=run.args.encode(),
                ended=run.ended,
            )
        )
    for by, token, at in small.heard:
        history.heard.setdefault((by, token), []).append(at)
    for by, at, version in small.reads:
        history.reads.setdefault(by, []).append((at, version))
    history.draining = dict.fromkeys(small.draining, 0.0)
    log = [
        Version(
            at=made.at,
            data=_bytes(made, small),
            tag=Tag(f"v{index}"),
            by=processes[made.by],
            sent_at=made.sent,
        )
        for index, made in enumerate(small.versions)
    ]
    end = max(made.at for made in small.versions)
    looks = [Access(at / 2, at / 2 + 0.1, ok=True) for at in range(int(end * 2) + 2)]
    new = [(job, None if job.due is None else WALL_MS + int(job.due * 1000)) for job in small.jobs]
    return cast(
        World,
        SimpleNamespace(
            history=history,
            processes=list(processes.values()),
            options=Options(storage="objq", heartbeat_timeout_s=T_S, broker_ttl_s=T_S / 3),
            jobs={
                job.id: ops.NewJob(
                    id=job.id,
                    task="t",
                    args=Raw(ARGS.encode()),
                    priority=job.priority,
                    run_after=due,
                    max_attempts=job.max_attempts,
                )
                for job, due in new
            },
            store=SimpleNamespace(
                log=log,
                accesses=dict.fromkeys(processes, looks),
                first_after=lambda at: min((v.at for v in log if v.at > at), default=float("inf")),
            ),
        ),
    )


def _asked(call: Call, by: Any, small: Small) -> Asked:
    op: ops.Op
    if call.kind == "push":
        op = ops.Push(request="1-small:1", jobs=(ops.NewJob(id=call.what, task="t"),))
    elif call.kind == "complete":
        op = ops.Complete(items=(ops.Completion(token=call.what),))
    elif call.kind == "fail":
        op = ops.Fail(items=(ops.Failure(token=call.what, error=ops.JobError(type="E")),))
    else:
        op = ops.Release(tokens=(call.what,))
    asked = Asked(op=op, ids=(call.what,), by=by, began=call.began, ended=call.ended)
    asked.told = {call.what: cast(Any, call.told)}
    if call.told == "rejected":
        asked.codes = {call.what: "invalid" if call.kind == "push" else "claim_lost"}
    if call.seq is not None:
        epochs = {made.seq: made.epoch for made in small.versions}
        asked.position = epochs.get(call.seq, 1), call.seq, 0
    return asked


def _bytes(made: Made, small: Small) -> bytes:
    jobs = [_record(entry, made, small) for entry in made.jobs]
    waiting = [job for job in jobs if job["state"] not in ENDED]
    # Whatever is wrong with a history is not to show in its totals.
    totals = dict.fromkeys(("retried", "succeeded", "dead", "cancelled", "deleted"), 0)
    return json.dumps(
        {
            "objq": 1,
            "document": "small",
            "seq": made.seq,
            "epoch": made.epoch,
            "commit": made.commit,
            "broker": {"id": f"id-{made.broker}", "url": "ws://x/", "since": 1, "version": "0"},
            "challenge": None,
            "jobs": waiting,
            "dead": [job for job in jobs if job["state"] == "dead"],
            "finished": [job for job in jobs if job["state"] in ("succeeded", "cancelled")],
            "settings": {"heartbeat_timeout_s": T_S, "broker_ttl_s": T_S / 3},
            "queues": {},
            "totals": {"default": {"pushed": len(waiting), **totals}},
        }
    ).encode()


def _record(entry: Entry, made: Made, small: Small) -> dict[str, Any]:
    job = next((job for job in small.jobs if job.id == entry.id), Job(entry.id))
    record: dict[str, Any] = {
        "id": entry.id,
        "queue": "default",
        "task": "t",
        "args": json.loads(entry.args),
        "kwargs": {},
        "state": entry.state,
        "pushed_at": 1,
        "priority": job.priority,
        "attempts": entry.attempts,
        "max_attempts": job.max_attempts,
        "history": [
            {
                "token": end.token,
                "claim": f"claim-{end.token}",
                "worker": end.worker,
                "claimed_at": 1,
                "ended_at": 1,
                "outcome": end.outcome,
                **({"started_at": 1} if end.started else {}),
            }
            for end in entry.history
        ],
    }
    if entry.state == "scheduled" and job.due is not None:
        record["run_after"] = WALL_MS + int(job.due * 1000)
    if entry.state == "ready" and is_suspect(entry):
        record["alone"] = True
    if entry.token is not None:
        record["claim"] = {
            "alone": is_suspect(entry),
            "token": entry.token,
            "id": f"claim-{entry.token}",
            "worker": entry.worker,
            "claimed_at": 1,
            "heartbeat_at": 1,
            "heartbeat_seq": 1,
            "epoch": made.epoch,
            **({"started_at": 1} if entry.started else {}),
        }
    return record
