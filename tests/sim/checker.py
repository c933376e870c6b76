"""Do the promises hold in this history? `check` answers in words, and counts jobs in four.

Of jobs of which an operator's hand took something away (`rewound`), nothing is promised.

`lost`: acked and not there; `unexpected`: there, though refused or never pushed; `duplicated`: one
push with two effects; `recovered`: there, though its client was told Unknown. The last is no fault.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct

from objq.core import ops
from tests.sim.history import Asked, Run
from tests.sim.versions import Token, Walk
from tests.sim.watched import check_watchers

if TYPE_CHECKING:
    from tests.sim.world import World


class Verdict(Struct):
    """`problems` are violations, each beginning with its promise."""

    problems: list[str]
    lost: int
    unexpected: int
    duplicated: int
    recovered: int


def check(world: World) -> Verdict:
    walk = Walk(world)
    walk.run()
    problems = [*world.history.problems, *walk.problems]
    unexpected = recovered = 0
    for asked in world.history.pushed:
        for job_id in asked.ids:
            if job_id in walk.rewound:
                continue
            told = asked.told[job_id]
            first = walk.first_at.get(job_id)
            if told == "ok":
                problems.extend(_check_ack(asked, job_id, first, walk))
            elif told in ("rejected", "unsent") and first is not None:
                unexpected += 1
                problems.append(
                    f"S12: {job_id} was {told} ({asked.codes.get(job_id)}) at {asked.ended} "
                    f"and stood in the document from {first[0]:.2f}"
                )
            recovered += told in ("unknown", "open") and first is not None
    problems.extend(_check_reports(world, walk))
    problems.extend(_check_runs(world, walk))
    problems.extend(_check_sessions(world, walk))
    problems.extend(check_watchers(world, walk))
    return Verdict(
        problems=problems,
        lost=len(walk.lost),
        unexpected=unexpected,
        duplicated=len(walk.duplicated),
        recovered=recovered,
    )


def _check_ack(asked: Asked, job_id: str, first: tuple[float, int] | None, walk: Walk) -> list[str]:
    if first is None:
        walk.lost.add(job_id)
        return [f"S1: {job_id} was acked at {asked.ended} and is in no version"]
    assert asked.ended is not None
    if first[0] > asked.ended:
        return [f"S2: {job_id} was acked at {asked.ended:.2f}, durable only at {first[0]:.2f}"]
    if asked.position is not None and asked.position[1] < first[1]:
        return [f"S2: {job_id} has the position {asked.position} and came with seq {first[1]}"]
    return []


def _check_reports(world: World, walk: Walk) -> list[str]:
    """Check that what workers were told of their reports is what the log says (S2, S6)."""
    problems = []
    for asked in world.history.reported:
        for text in asked.ids if asked.ended is not None else ():
            token = walk.tokens.get(text)
            if token is None:
                problems.append(f"unexpected: token {text} is in no version")
            elif token.job not in walk.rewound:
                problems.extend(_check_report(asked, text, token, walk))
    return problems


def _check_report(asked: Asked, text: str, token: Token, walk: Walk) -> list[str]:
    problems = []
    outcomes = {"complete": "succeeded", "fail": "failed", "release": "released"}
    name, ended, told = ops.op_name(asked.op), asked.ended, asked.told.get(text)
    assert ended is not None
    same = token.outcome == outcomes[name]
    at = f"{text} of {token.job} at {ended:.2f}"
    if told == "ok" and not (same or token.outcome == "gone"):
        problems.append(f"S6: {name} of {at} was ok, and its claim is {token.outcome}")
    if told == "ok" and token.ended_at > ended:
        problems.append(f"S2: {name} of {at} was ok before it was durable")
    if asked.codes.get(text) != "claim_lost":
        return problems
    if token.ended_at > ended and not walk.is_aside(ended):
        problems.append(f"S6: {name} of {at} was refused, and its claim was live")
    kept = walk.gone_at.get(token.job, float("inf")) > ended
    if same and kept and token.job not in walk.retried:
        problems.append(f"S6: the repeat of {name} of {at} was refused")
    return problems


def _check_runs(world: World, walk: Walk) -> list[str]:
    """Check that jobs ran under live claims, and again only for a reason (S2, S5, S7, S10)."""
    problems = []
    seen: dict[str, Run] = {}
    by_job: dict[str, list[Run]] = {}
    for run in world.history.runs:
        if run.job in walk.rewound:
            continue
        by_job.setdefault(run.job, []).append(run)
        token = walk.tokens.get(run.token)
        at = f"{run.job} on {run.by.name} at {run.began:.2f}"
        if run.token in seen:
            problems.append(f"S7: {at} ran twice under one claim")
        seen[run.token] = run
        if token is None:
            problems.append(f"S2: {at} ran under a claim that no version holds")
            continue
        if not token.granted_at <= run.began <= token.ended_at:
            problems.append(f"S5: {at} began under a claim that ended at {token.ended_at:.2f}")
        pushed = world.jobs.get(run.job)
        if pushed is None or bytes(pushed.args) != run.args:
            problems.append(f"S9: {at} ran with other arguments")
    for job_id, runs in by_job.items():
        if len(runs) < 2:
            continue
        # What ended unheard of, or was handed back, counts as no attempt.
        most = world.jobs[job_id].max_attempts * (1 + walk.retried.get(job_id, 0))
        counted = [
            token
            for run in runs
            if (token := walk.tokens.get(run.token)) is not None
            and token.outcome != "released"
            and (token.outcome != "expired" or token.started)
        ]
        if len(counted) > most:
            problems.append(f"S10: {job_id} ran {len(counted)} times")
        problems.extend(_check_again(world, walk, runs))
    return problems


def _check_again(world: World, walk: Walk, runs: list[Run]) -> list[str]:
    """Check each run that was followed by another of the same job."""
    problems = []
    for run, following in pairwise(runs):
        token = walk.tokens.get(run.token)
        if token is None:
            continue
        again = f"{run.job} ran again at {following.began:.2f}"
        if token.outcome in ("live", "succeeded", "gone") and run.job not in walk.retried:
            walk.duplicated.add(run.job)
            problems.append(f"S7: {again}, and its claim before is {token.outcome}")
        ended = run.ended if run.ended is not None else run.by.died_at
        overlaps = ended is None or ended > following.began
        if overlaps and token.outcome not in ("expired", "released"):
            problems.append(f"S5: {again} while it still ran")
        if token.outcome == "released" and run.by.name not in world.history.draining:
            problems.append(f"S10: {again}: released by a worker that was not ending")
    return problems


def _check_sessions(world: World, walk: Walk) -> list[str]:
    problems = []
    for name, reads in world.history.reads.items():
        newest = before = (-1, -1)
        last_at = float("-inf")
        for at, version in reads:
            # Which of two callers goes on first that are answered in the same instant is chance.
            before, last_at = (newest if at > last_at else before), at
            if version < before:
                problems.append(f"S11: {name} saw {version} at {at:.2f} after {before}")
            if walk.durable_at.get(version, float("inf")) > at:
                problems.append(f"S2: {name} saw {version} at {at:.2f}, before it was durable")
            newest = max(newest, version)
    return problems
