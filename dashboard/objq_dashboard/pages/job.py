"""One job: what it is, why it waits, what became of its attempts."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import msgspec
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from msgspec import UNSET

from objq.core import ops
from objq_dashboard import masking
from objq_dashboard.page import Cell, Row
from objq_dashboard.pages.parts import (
    Query,
    answered,
    fact,
    heartbeat,
    link,
    short,
    state_cell,
)
from objq_dashboard.pages.waiting import why_it_waits
from objq_dashboard.wording import NOTHING, age, moment, number, utc

if TYPE_CHECKING:
    from objq.core.ops import Attempt, JobView, Statistics
    from objq_dashboard.source.source import Source

MOST_SHOWN: Final = 32_768
"""Characters of arguments or of a result; longer ones are cut."""

OUTCOMES: Final = {
    "succeeded": gettext_lazy("succeeded"),
    "failed": gettext_lazy("failed"),
    "expired": gettext_lazy("expired: its worker fell silent"),
    "released": gettext_lazy("handed back"),
}

NONE: Final = ("state-code", "gone", "why", "args", "kwargs", "result", "error", "traceback")


@answered
def build(source: Source, query: Query, stats: Statistics) -> dict[str, Any]:
    job_id = query.get("job", "")
    job = source.get([job_id])[0] if 0 < len(job_id) <= ops.MAX_JOB_ID else None
    texts = {name: Cell(text="") for name in NONE}
    if job is None:
        texts["gone"] = Cell(text=what_is_known(job_id))
        return {"texts": texts, "tables": {"facts": (), "attempts": ()}}
    mask = masking.mask_for(job.task)
    texts["state-code"] = Cell(text=job.state)
    texts["why"] = Cell(text=" ".join(why_it_waits(source, job, stats)))
    texts["args"] = Cell(text=pretty(mask.args(bytes(job.args)).text))
    texts["kwargs"] = Cell(text=pretty(mask.kwargs(bytes(job.kwargs)).text))
    texts["result"] = Cell(text=result(job, mask))
    error = job.history[-1].error if job.history else None
    if error is not None and job.state != "succeeded":
        message = f"{error.type}: {error.message}" if error.message else error.type
        texts["error"] = Cell(text=message, mark="bad")
        texts["traceback"] = Cell(text=error.traceback)
    beat = heard(source, job, stats)
    return {
        "texts": texts,
        "tables": {
            "facts": facts(source, job, beat),
            "attempts": attempts(source, job, beat),
        },
    }


def heard(source: Source, job: JobView, stats: Statistics) -> Cell:
    """Return the last heartbeat of the claim that is alive, if one is."""
    if job.claim is None:
        return Cell(text=NOTHING)
    ago_s = next((each.heard_ago_s for each in stats.running if each.id == job.id), None)
    if ago_s is None:  # of many running jobs the statistics tell of those most silent only
        ago_s = max(0, source.now_ms - job.claim.heartbeat_at) / 1000
    return heartbeat(source, ago_s, stats.heartbeat_timeout_s)


def result(job: JobView, mask: masking.Mask) -> str:
    if job.result_dropped is not None:
        return _("It was left out: %(why)s") % {"why": job.result_dropped}
    return "" if job.result is UNSET else pretty(mask.result(bytes(job.result)).text)


def pretty(text: str) -> str:
    """Return JSON text in lines, its numbers and letters as they are, and cut if it is long."""
    if text in ("[]", "{}"):
        return NOTHING
    if len(text) <= MOST_SHOWN:
        text = msgspec.json.format(text, indent=2)
    if len(text) <= MOST_SHOWN:
        return text
    left = _("… and %(count)s more characters") % {"count": number(len(text) - MOST_SHOWN)}
    return f"{text[:MOST_SHOWN]}\n{left}"


def facts(source: Source, job: JobView, beat: Cell) -> tuple[Row, ...]:
    now_ms = source.now_ms
    state = state_cell(job.state, cancel_requested=job.cancel_requested)
    before = any(was_before(job, each) for each in job.history)
    counted = _("%(count)s of %(most)s since then") if before else _("%(count)s of %(most)s")
    rows = [
        fact("id", _("Id"), job.id),
        fact("task", _("Task"), job.task, href=link(source, "jobs/", task=job.task)),
        fact("queue", _("Queue"), job.queue, href=link(source, "jobs/", queue=job.queue)),
        fact("state", _("State"), state.text, state.title, state.mark),
        moment_fact("pushed", _("Retried") if before else _("Pushed"), job.pushed_at, now_ms),
        fact("attempts", _("Attempts"), counted % {
            "count": number(job.attempts), "most": number(job.max_attempts)
        }),
    ]  # fmt: skip
    if job.priority:
        rows.append(fact("priority", _("Priority"), number(job.priority)))
    if job.run_after is not None:
        rows.append(moment_fact("run_after", _("Not before"), job.run_after, now_ms))
    if job.claim is not None:
        claim = job.claim
        rows += [
            fact("holder", _("Held by"), claim.worker or _("a worker without a name")),
            fact("token", _("Claim token"), short(claim.token)),
            moment_fact("claimed", _("Claimed"), claim.claimed_at, now_ms),
            fact("heartbeat", _("Last heartbeat"), beat.text, beat.title, beat.mark),
        ]
    if job.finished_at is not None:
        rows.append(moment_fact("finished", _("Ended"), job.finished_at, now_ms))
    if job.reason is not None:
        rows.append(fact("reason", _("Why it ended"), job.reason))
    return tuple(rows)


def moment_fact(key: str, label: str, at_ms: int, now_ms: int) -> Row:
    ago = _("%(time)s, %(age)s ago") if at_ms <= now_ms else _("%(time)s, in %(age)s")
    said = {"time": moment(at_ms), "age": age(abs(now_ms - at_ms) / 1000)}
    return fact(key, label, ago % said, utc(at_ms))


def attempts(source: Source, job: JobView, beat: Cell) -> tuple[Row, ...]:
    """Return the timeline, oldest first; the last row may be the claim that is alive."""
    rows = [
        attempt_row(index, each, before=was_before(job, each))
        for index, each in enumerate(job.history, 1)
    ]
    if job.claim is not None:
        claim = job.claim
        began = claim.started_at
        for_ = (source.now_ms - (began or claim.claimed_at)) / 1000
        rows.append(
            Row(
                key=claim.token,
                cells=(
                    Cell(text=number(len(rows) + 1)),
                    Cell(text=moment(claim.claimed_at), title=utc(claim.claimed_at)),
                    Cell(text=claim.worker or NOTHING),
                    after(claim.claimed_at, began),
                    Cell(text=age(for_)),
                    Cell(
                        text=_("runs") if began else _("claimed, not started yet"), mark=beat.mark
                    ),
                    Cell(text=NOTHING),
                ),
            )
        )
    return tuple(rows)


def was_before(job: JobView, attempt: Attempt) -> bool:
    """Return whether the job was retried after it, which counts as if it were pushed anew."""
    return attempt.ended_at < job.pushed_at


def attempt_row(index: int, attempt: Attempt, *, before: bool) -> Row:
    error = attempt.error
    took_s = (attempt.ended_at - (attempt.started_at or attempt.claimed_at)) / 1000
    message = f"{error.type.rpartition('.')[2]}: {error.message}" if error else NOTHING
    return Row(
        key=attempt.token,
        cells=(
            Cell(
                text=_("%(number)s, before the retry") % {"number": number(index)}
                if before
                else number(index)
            ),
            Cell(text=moment(attempt.claimed_at), title=utc(attempt.claimed_at)),
            Cell(text=attempt.worker or NOTHING),
            after(attempt.claimed_at, attempt.started_at),
            Cell(text=age(took_s), title=utc(attempt.ended_at)),
            Cell(
                text=str(OUTCOMES[attempt.outcome]),
                mark="bad" if attempt.outcome in ("failed", "expired") else "",
            ),
            Cell(text=message, detail=error.traceback if error else ""),
        ),
    )


def after(claimed_at: int, started_at: int | None) -> Cell:
    if started_at is None:
        return Cell(text=_("never"))
    return Cell(text=age((started_at - claimed_at) / 1000), title=utc(started_at))


def what_is_known(job_id: str) -> str:
    """Return what can be said of a job that is not there.

    For how long and how many finished jobs are kept is up to the broker that leads; the settings of
    this site may be others.
    """
    said = [
        _("There is no job %(id)s.") % {"id": job_id},
        _(
            "It was deleted, or was finished so long ago, or so many jobs ago, that it is not kept "
            "any more; or there never was one."
        ),
    ]
    made_ms = drawn_at(job_id)
    if made_ms is not None:
        said.append(_("Its id was drawn %(time)s.") % {"time": moment(made_ms)})
    return " ".join(said)


def drawn_at(job_id: str) -> int | None:
    """Return when a time-ordered id was drawn (ms); None if it is not such an id."""
    try:
        found = UUID(job_id)
    except ValueError:
        return None
    if found.version != 7:
        return None
    at_ms = found.int >> 80
    try:
        datetime.fromtimestamp(at_ms / 1000)  # noqa: DTZ006 - only whether there is such a time
    except (OverflowError, ValueError, OSError):
        return None
    return at_ms
