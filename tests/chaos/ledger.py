"""Every push and every run against the document: who was lost, doubled, or came from nowhere.

`lost`: acked, and not run to its end or not recorded as succeeded. `unexpected`: there, though
refused or never pushed. `duplicated`: one push with two effects, for no reason that design §3
allows. `recovered`: there, though its pusher was told Unknown, or killed before it was told.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from objq.core.document import Document
from objq.core.totals import mismatches
from tests.chaos.notes import read_notes

UNHEARD = 5 / 6
"""The share of the timeout for which a worker has to be stopped to lose its claims: heartbeats come
every sixth of it, so the last one may be so old when it stops."""

SHOWN = 20
"""Of each kind of problem."""


@dataclass
class Push:
    """`told`: ok, refused, unknown, other, or open if the pusher was killed before."""

    number: int
    began: float
    told: str = "open"
    detail: str = ""
    """The id of the job if ok, else the name of the error."""
    ended: float | None = None


@dataclass
class Run:
    pid: int
    began: float
    ended: float | None = None


@dataclass(frozen=True)
class Harm:
    """What was done to a process. `ended` is None for ever: it was killed."""

    began: float
    ended: float | None = None


@dataclass
class Account:
    problems: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    ran_again: Counter[str] = field(default_factory=Counter)
    """Jobs that ran twice, by the reason that design §3 allows."""

    def blame(self, word: str, problem: str) -> None:
        self.counts[word] += 1
        if self.counts[word] <= SHOWN:
            self.problems.append(f"{word}: {problem}")

    def figures(self) -> dict[str, Any]:
        words = ("pushed", "ok", "refused", "unknown", "open", "runs", "recovered")
        faults = ("lost", "unexpected", "duplicated")
        counted = {word: self.counts[word] for word in (*words, *faults)}
        return {**counted, "ran_again": dict(self.ran_again)}


def read_pushes(path: Path, offset: int = 0) -> dict[int, Push]:
    """Return the pushes that began after this offset in the file, by number."""
    pushes: dict[int, Push] = {}
    for words, at in read_notes(path, offset):
        number = int(words[1])
        if words[0] == "begun":
            pushes[number] = Push(number, at)
        if number not in pushes or words[0] == "begun":
            continue
        push = pushes[number]
        push.told, push.detail, push.ended = words[0], words[2], at
    return pushes


def read_runs(path: Path) -> dict[int, list[Run]]:
    """Return the runs of each number, in the order in which they began."""
    runs: defaultdict[int, list[Run]] = defaultdict(list)
    for (word, number, pid), at in read_notes(path):
        if word == "began":
            runs[int(number)].append(Run(int(pid), at))
            continue
        open_run = next(r for r in runs[int(number)] if r.pid == int(pid) and r.ended is None)
        open_run.ended = at
    return runs


def settle(
    pushes: Mapping[int, Push],
    runs: Mapping[int, Sequence[Run]],
    harms: Mapping[int, Sequence[Harm]],
    document: Document,
    timeout_s: float,
) -> Account:
    """Account for everything. `harms` by pid; `timeout_s`: the heartbeat timeout."""
    account = Account()
    account.counts.update(push.told for push in pushes.values())
    account.counts.update(pushed=len(pushes), runs=sum(map(len, runs.values())))
    account.counts.pop("other", None)
    recorded = _recorded(document, account)
    for number, push in pushes.items():
        _settle_push(push, runs.get(number, ()), recorded.get(number, []), account)
    for number in sorted((runs.keys() | recorded.keys()) - pushes.keys()):
        account.blame("unexpected", f"{number} was never pushed")
    for number, of_one in runs.items():
        for run, following in pairwise(of_one):
            reason = reason_of(run, following, harms.get(run.pid, ()), timeout_s)
            if reason is not None:
                account.ran_again[reason] += 1
                continue
            account.blame("duplicated", f"{number} ran {run}, then {following}, for no reason")
    _check_histories(document, account)
    for mismatch in mismatches(document):
        account.problems.append(f"totals: {mismatch}")
    return account


def reason_of(run: Run, following: Run, harms: Sequence[Harm], timeout_s: float) -> str | None:
    """Return why this run may have been followed by that one, or None if nothing allows it."""
    for harm in harms:
        if harm.began > following.began:
            continue
        if harm.ended is None:
            return "its worker was killed"
        stopped_s = min(harm.ended, following.began) - harm.began
        if harm.ended >= run.began and stopped_s >= timeout_s * UNHEARD:
            return "its worker was stopped for longer than the timeout"
    return None


def _recorded(document: Document, account: Account) -> dict[int, list[str]]:
    """Return the ids under which each number stands in the document as succeeded."""
    recorded: defaultdict[int, list[str]] = defaultdict(list)
    for where in ("jobs", "dead"):
        for job in getattr(document, where).values():
            account.problems.append(f"left in {where}: {job.raw.decode()[:300]}")
    for view in document.views(document.finished):
        assert view is not None
        (number, *_) = json.loads(bytes(view.args))
        recorded[number].append(view.id)
    return recorded


def _settle_push(push: Push, runs: Sequence[Run], ids: Sequence[str], account: Account) -> None:
    ended = any(run.ended is not None for run in runs)
    if len(ids) > 1:
        account.blame("duplicated", f"{push} stands in the document as {ids}")
    if push.told == "other":
        account.problems.append(f"{push}: neither ok nor refused nor unknown")
    elif push.told == "ok":
        if not ended:
            account.blame("lost", f"{push} was acked and never ran to its end")
        elif push.detail not in ids:
            account.blame("lost", f"{push} was acked, ran, and stands in the document as {ids}")
    elif push.told == "refused" and (runs or ids):
        account.blame("unexpected", f"{push} was refused and ran ({len(runs)} times)")
    elif push.told in ("unknown", "open"):
        account.counts["recovered"] += bool(ids)
        if bool(ids) != ended:
            account.blame("lost", f"{push} has {len(runs)} runs and the records {ids}")


def _check_histories(document: Document, account: Account) -> None:
    """Check that each job succeeded once and last; its claims before expired or were released."""
    for view in document.views(document.finished):
        assert view is not None
        outcomes = [attempt.outcome for attempt in view.history]
        ended_well = outcomes[-1:] == ["succeeded"] and view.state == "succeeded"
        if not ended_well or not set(outcomes[:-1]) <= {"expired", "released"}:
            account.blame("duplicated", f"job {view.id} is {view.state} with {outcomes}")
