"""Ways to spoil a small history: each yields every history that it makes of one.

Most of what they make is bad; some is good after all (an ok that was never heard), and that is for
two judges to agree on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

from tests.sim.small import ENDED, Call, End, Entry, Heard, Read, Small, changed

Spoil = Callable[[Small], Iterator[Small]]


def _with(small: Small, index: int, jobs: tuple[Entry, ...], *, on: bool) -> Small:
    """Put these jobs into a version, and with `on` keep the change in those that follow."""
    spoilt = changed(small, index, jobs=jobs)
    if not on:
        return spoilt
    was = {entry.id: entry for entry in small.versions[index].jobs}
    new = {entry.id: entry for entry in jobs}
    for later in range(index + 1, len(small.versions)):
        kept = tuple(
            new.get(entry.id, entry) if entry == was.get(entry.id) else entry
            for entry in small.versions[later].jobs
            if entry.id not in was or entry.id in new
        )
        spoilt = changed(spoilt, later, jobs=kept)
    return spoilt


def _each_entry(small: Small) -> Iterator[tuple[int, int, Entry]]:
    for index, made in enumerate(small.versions):
        for place, entry in enumerate(made.jobs):
            yield index, place, entry


def _put(jobs: tuple[Entry, ...], place: int, *entries: Entry) -> tuple[Entry, ...]:
    return (*jobs[:place], *entries, *jobs[place + 1 :])


# --- jobs ----------------------------------------------------------------------------------------


def a_job_is_dropped(small: Small) -> Iterator[Small]:
    for index, place, _ in _each_entry(small):
        jobs = _put(small.versions[index].jobs, place)
        yield _with(small, index, jobs, on=True)
        yield _with(small, index, jobs, on=False)


def a_job_stands_there_twice(small: Small) -> Iterator[Small]:
    for index, place, entry in _each_entry(small):
        yield _with(small, index, _put(small.versions[index].jobs, place, entry, entry), on=False)


def a_job_comes_from_nowhere(small: Small) -> Iterator[Small]:
    for index, made in enumerate(small.versions):
        yield _with(small, index, (Entry("job-9"), *made.jobs), on=False)


def a_job_has_other_arguments(small: Small) -> Iterator[Small]:
    for index, place, entry in _each_entry(small):
        other = _put(small.versions[index].jobs, place, entry._replace(args="[2]"))
        yield _with(small, index, other, on=False)
        yield _with(small, index, other, on=True)


def waiting_jobs_change_places(small: Small) -> Iterator[Small]:
    for index, made in enumerate(small.versions):
        waiting = [entry for entry in made.jobs if entry.state not in ENDED]
        if len(waiting) > 1:
            rest = [entry for entry in made.jobs if entry.state in ENDED]
            yield _with(small, index, (*reversed(waiting), *rest), on=False)


def a_job_is_pushed_for_another_time(small: Small) -> Iterator[Small]:
    for place, job in enumerate(small.jobs):
        for due in (None, 2.0, 100.0):
            jobs = list(small.jobs)
            jobs[place] = job._replace(due=due)
            yield replace(small, jobs=tuple(jobs))


def a_job_has_another_priority(small: Small) -> Iterator[Small]:
    for place, job in enumerate(small.jobs):
        jobs = list(small.jobs)
        jobs[place] = job._replace(priority=9)
        yield replace(small, jobs=tuple(jobs))


def a_job_changes_its_state(small: Small) -> Iterator[Small]:
    for index, place, entry in _each_entry(small):
        for state in ("ready", "succeeded", "dead"):
            if entry.token is None and state != entry.state:
                jobs = _put(small.versions[index].jobs, place, entry._replace(state=state))
                yield _with(small, index, jobs, on=False)
                yield _with(small, index, jobs, on=True)


def attempts_are_counted_wrongly(small: Small) -> Iterator[Small]:
    for index, place, entry in _each_entry(small):
        for attempts in {entry.attempts + 1, entry.attempts - 1, 7} - {-1}:
            jobs = _put(small.versions[index].jobs, place, entry._replace(attempts=attempts))
            yield _with(small, index, jobs, on=False)
            yield _with(small, index, jobs, on=True)


# --- claims --------------------------------------------------------------------------------------


def a_claim_has_another_token(small: Small) -> Iterator[Small]:
    tokens = {entry.token for _, _, entry in _each_entry(small) if entry.token}
    for index, place, entry in _each_entry(small):
        if entry.token is None:
            continue
        for token in {"token-9", *tokens} - {entry.token}:
            jobs = _put(small.versions[index].jobs, place, entry._replace(token=token))
            yield _with(small, index, jobs, on=False)
            yield _with(small, index, jobs, on=True)


def a_claim_vanishes(small: Small) -> Iterator[Small]:
    for index, place, entry in _each_entry(small):
        if entry.token is not None:
            free = entry._replace(token=None, worker="", started=False, state="ready")
            jobs = _put(small.versions[index].jobs, place, free)
            yield _with(small, index, jobs, on=False)
            yield _with(small, index, jobs, on=True)


def a_job_is_claimed_by_nobody_s_turn(small: Small) -> Iterator[Small]:
    for index, place, entry in _each_entry(small):
        if entry.state in ("ready", "scheduled", "succeeded", "dead"):
            held = entry._replace(token="token-8", worker="worker-1", state="running")
            jobs = _put(small.versions[index].jobs, place, held)
            yield _with(small, index, jobs, on=False)
            yield _with(small, index, jobs, on=True)


def a_claim_ends_otherwise(small: Small) -> Iterator[Small]:
    for index, place, entry in _each_entry(small):
        for outcome in ("succeeded", "failed", "expired", "released"):
            for at, end in enumerate(entry.history):
                if end.outcome == outcome:
                    continue
                other = end._replace(outcome=outcome)
                history = (*entry.history[:at], other, *entry.history[at + 1 :])
                jobs = _put(small.versions[index].jobs, place, entry._replace(history=history))
                yield _with(small, index, jobs, on=True)


def what_a_claim_came_to_is_forgotten(small: Small) -> Iterator[Small]:
    for index, place, entry in _each_entry(small):
        if entry.history:
            jobs = _put(small.versions[index].jobs, place, entry._replace(history=()))
            yield _with(small, index, jobs, on=True)


def a_claim_ends_that_nobody_had(small: Small) -> Iterator[Small]:
    for index, place, entry in _each_entry(small):
        if entry.token is None:
            end = End("token-7", "worker-1", "failed", True)
            new = entry._replace(history=(*entry.history, end))
            yield _with(small, index, _put(small.versions[index].jobs, place, new), on=True)


def a_holder_is_heard(small: Small) -> Iterator[Small]:
    seen = set()
    for made in small.versions:
        for end in (end for entry in made.jobs for end in entry.history):
            if end.outcome == "expired" and end not in seen:
                seen.add(end)
                heard = Heard(made.by, end.token, made.sent - 2.0)
                yield replace(small, heard=(*small.heard, heard))


def nobody_has_died(small: Small) -> Iterator[Small]:
    for at in range(len(small.died)):
        yield replace(small, died=(*small.died[:at], *small.died[at + 1 :]))


# --- versions ------------------------------------------------------------------------------------


def a_number_is_wrong(small: Small) -> Iterator[Small]:
    for index, made in enumerate(small.versions[1:], 1):
        wrong: tuple[dict[str, Any], ...] = (
            {"seq": made.seq + 1},
            {"seq": made.seq - 1},
            {"epoch": made.epoch + 1},
            {"epoch": made.epoch - 1},
            {"commit": small.versions[index - 1].commit},
            {"commit": small.versions[0].commit},
        )
        for changes in wrong:
            yield changed(small, index, **changes)


def a_version_is_missing(small: Small) -> Iterator[Small]:
    for index in range(len(small.versions)):
        if len(small.versions) > 1:
            versions = (*small.versions[:index], *small.versions[index + 1 :])
            yield replace(small, versions=versions)


def a_version_is_missing_and_the_numbers_fit(small: Small) -> Iterator[Small]:
    for index in range(1, len(small.versions)):
        later = [
            made._replace(seq=made.seq - 1, commit=f"{made.commit}x")
            for made in small.versions[index + 1 :]
        ]
        calls = tuple(
            call._replace(seq=None if call.seq and call.seq >= index + 1 else call.seq)
            for call in small.calls
        )
        reads = tuple(read for read in small.reads if read.version[1] <= index)
        versions = (*small.versions[:index], *later)
        yield replace(small, versions=versions, calls=calls, reads=reads)


def somebody_else_has_written_it(small: Small) -> Iterator[Small]:
    for index, made in enumerate(small.versions):
        for by in {"broker-1", "broker-2", "client-9"} - {made.by}:
            yield changed(small, index, by=by)


def an_old_leader_comes_back(small: Small) -> Iterator[Small]:
    for index in range(1, len(small.versions)):
        made = small.versions[index]
        if made.broker == "broker-2":
            yield changed(small, index, broker="broker-1", by="broker-1", epoch=made.epoch + 1)


def an_old_version_is_there_again(small: Small) -> Iterator[Small]:
    for index in range(2, len(small.versions)):
        yield changed(small, index, jobs=small.versions[index - 2].jobs)


# --- what was told -------------------------------------------------------------------------------


def _each_call(small: Small, spoil: Callable[[Call], Iterator[Call]]) -> Iterator[Small]:
    for at, call in enumerate(small.calls):
        for other in spoil(call):
            yield replace(small, calls=(*small.calls[:at], other, *small.calls[at + 1 :]))


def an_answer_is_another(small: Small) -> Iterator[Small]:
    def spoil(call: Call) -> Iterator[Call]:
        more = ("unsent",) if call.kind == "push" else ()
        for told in ("ok", "rejected", "unknown", "open", *more):
            if told != call.told:
                ended = None if told == "open" else call.ended or call.began + 0.6
                yield call._replace(told=told, ended=ended, seq=None)

    return _each_call(small, spoil)


def an_answer_is_too_early(small: Small) -> Iterator[Small]:
    def spoil(call: Call) -> Iterator[Call]:
        if call.ended is not None:
            yield call._replace(ended=call.began + 0.05, seq=None)

    return _each_call(small, spoil)


def an_answer_has_an_old_position(small: Small) -> Iterator[Small]:
    def spoil(call: Call) -> Iterator[Call]:
        if call.seq is not None and call.kind == "push" and call.seq > 1:
            yield call._replace(seq=call.seq - 1)

    return _each_call(small, spoil)


def a_request_was_never_made(small: Small) -> Iterator[Small]:
    for at, call in enumerate(small.calls):
        rest = (*small.calls[:at], *small.calls[at + 1 :])
        if call.kind != "push":
            yield replace(small, calls=rest)


def a_report_is_of_another_kind(small: Small) -> Iterator[Small]:
    def spoil(call: Call) -> Iterator[Call]:
        for kind in ("complete", "fail", "release"):
            if call.kind not in ("push", kind):
                yield call._replace(kind=kind)

    return _each_call(small, spoil)


def a_report_is_refused_again(small: Small) -> Iterator[Small]:
    for call in small.calls:
        if call.kind != "push":
            began = small.versions[-1].at + 1.0
            again = call._replace(began=began, ended=began + 0.5, told="rejected", seq=None)
            yield replace(small, calls=(*small.calls, again))


def an_older_version_is_seen(small: Small) -> Iterator[Small]:
    at = max([small.versions[-1].at, *(read.at for read in small.reads)]) + 1.0
    for made in small.versions:
        read = Read("client-1", at, (made.epoch, made.seq))
        yield replace(small, reads=(*small.reads, read))


# --- runs ----------------------------------------------------------------------------------------


def a_run_is_at_another_time(small: Small) -> Iterator[Small]:
    for at, run in enumerate(small.runs):
        times = [run.began - 1.0, run.began + 10.0, *(made.at + 0.2 for made in small.versions)]
        for began in times:
            ended = None if run.ended is None else max(began + 0.01, run.ended)
            other = run._replace(began=began, ended=ended)
            runs = (*small.runs[:at], other, *small.runs[at + 1 :])
            yield replace(small, runs=tuple(sorted(runs, key=lambda one: one.began)))


def a_job_runs_again(small: Small) -> Iterator[Small]:
    tokens = {entry.token for _, _, entry in _each_entry(small) if entry.token}
    for run in small.runs:
        for token in sorted({*tokens, "token-6"}):
            for later in (0.3, 2.0):
                again = run._replace(token=token, began=run.began + later, ended=None)
                runs = (*small.runs, again)
                yield replace(small, runs=tuple(sorted(runs, key=lambda one: one.began)))


def a_run_has_other_arguments(small: Small) -> Iterator[Small]:
    for at, run in enumerate(small.runs):
        other = run._replace(args="[2]")
        yield replace(small, runs=(*small.runs[:at], other, *small.runs[at + 1 :]))


def a_run_never_ends(small: Small) -> Iterator[Small]:
    for at, run in enumerate(small.runs):
        other = run._replace(ended=None)
        yield replace(small, runs=(*small.runs[:at], other, *small.runs[at + 1 :]))


def nobody_was_ending(small: Small) -> Iterator[Small]:
    if small.draining:
        yield replace(small, draining=())


SPOILS: Final[tuple[Spoil, ...]] = (
    a_job_is_dropped,
    a_job_stands_there_twice,
    a_job_comes_from_nowhere,
    a_job_has_other_arguments,
    waiting_jobs_change_places,
    a_job_is_pushed_for_another_time,
    a_job_has_another_priority,
    a_job_changes_its_state,
    attempts_are_counted_wrongly,
    a_claim_has_another_token,
    a_claim_vanishes,
    a_job_is_claimed_by_nobody_s_turn,
    a_claim_ends_otherwise,
    what_a_claim_came_to_is_forgotten,
    a_claim_ends_that_nobody_had,
    a_holder_is_heard,
    nobody_has_died,
    a_number_is_wrong,
    a_version_is_missing,
    a_version_is_missing_and_the_numbers_fit,
    somebody_else_has_written_it,
    an_old_leader_comes_back,
    an_old_version_is_there_again,
    an_answer_is_another,
    an_answer_is_too_early,
    an_answer_has_an_old_position,
    a_request_was_never_made,
    a_report_is_of_another_kind,
    a_report_is_refused_again,
    an_older_version_is_seen,
    a_run_is_at_another_time,
    a_job_runs_again,
    a_run_has_other_arguments,
    a_run_never_ends,
    nobody_was_ending,
)
