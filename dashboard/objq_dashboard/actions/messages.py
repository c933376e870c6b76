"""An action's report in sentences: what was done, what was not and why, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from django.contrib import messages
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from objq_dashboard.actions.actions import JobAction
from objq_dashboard.pages.parts import STATES
from objq_dashboard.wording import number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from objq_dashboard.actions.actions import QueueAction
    from objq_dashboard.actions.applying import Fate, Report

NAMED: Final = 20
"""Jobs that one message lists; the others are counted."""

LEVELS: Final = {
    "done": messages.SUCCESS,
    "asked": messages.SUCCESS,
    "conflict": messages.WARNING,
    "missing": messages.WARNING,
    "refused": messages.ERROR,
    "unknown": messages.ERROR,
    "untried": messages.ERROR,
}


class Message(NamedTuple):
    level: int
    text: str


def sentences(
    action: JobAction | QueueAction, report: Report, address: Callable[[str], str] | None = None
) -> list[Message]:
    """Return a message for each group. `address`: of a job's page; names the jobs, with links."""
    found = []
    for fate, ids in report.groups.items():
        if isinstance(action, JobAction):
            text = _of_jobs(action, fate, len(ids))
        else:
            text = _of_queues(action, fate, ids)
        if address is not None and fate.became != "done":
            text = format_html("{} {}", text, _names(ids, address))
        found.append(Message(LEVELS[fate.became], text))
    return found


def _of_jobs(action: JobAction, fate: Fate, count: int) -> str:
    values = {"count": number(count), "why": fate.why, "past": action.past}
    match fate.became:
        case "done":
            return _done(action.name, count) % values
        case "asked":
            text = ngettext(
                "The worker of %(count)s running job was asked to stop. The job ends as cancelled, "
                "unless it succeeds before its worker obeys.",
                "The workers of %(count)s running jobs were asked to stop. The jobs end as "
                "cancelled, unless they succeed before their workers obey.",
                count,
            )
        case "conflict":
            values["state"] = STATES.get(fate.state, "")
            text = _conflict(action, fate.state, count)
        case "missing":
            text = ngettext(
                "%(count)s job is not there any more.",
                "%(count)s jobs are not there any more.",
                count,
            )
        case "refused":
            text = ngettext(
                "%(count)s job was refused and is as it was: %(why)s",
                "%(count)s jobs were refused and are as they were: %(why)s",
                count,
            )
        case "unknown":
            text = ngettext(
                "Whether %(count)s job was %(past)s is not known. %(why)s Look at the job; doing "
                "it again is safe, since a job that has changed is left alone.",
                "Whether %(count)s jobs were %(past)s is not known. %(why)s Look at the jobs; "
                "doing it again is safe, since a job that has changed is left alone.",
                count,
            )
        case _ if not fate.why:
            text = ngettext(
                "%(count)s job was not touched, since this has taken long enough. Do it again for "
                "that one.",
                "%(count)s jobs were not touched, since this has taken long enough. Do it again "
                "for those.",
                count,
            )
        case _:
            text = ngettext(
                "%(count)s job was not touched, since nobody answered: %(why)s Try again when a "
                "broker leads.",
                "%(count)s jobs were not touched, since nobody answered: %(why)s Try again when "
                "a broker leads.",
                count,
            )
    return text % values


def _done(name: str, count: int) -> str:
    if name == "retry":
        return ngettext(
            "%(count)s job was put at the end of its queue.",
            "%(count)s jobs were put at the end of their queues.",
            count,
        )
    if name == "run_now":
        return ngettext("%(count)s job is ready now.", "%(count)s jobs are ready now.", count)
    if name == "cancel":
        return ngettext("%(count)s job was cancelled.", "%(count)s jobs were cancelled.", count)
    return ngettext("%(count)s job was deleted.", "%(count)s jobs were deleted.", count)


def _conflict(action: JobAction, state: str, count: int) -> str:
    if state == "running" and action.name == "delete":
        return ngettext(
            "%(count)s job was left alone: it is running now, and a running job is never deleted. "
            "Cancel it first.",
            "%(count)s jobs were left alone: they are running now, and running jobs are never "
            "deleted. Cancel them first.",
            count,
        )
    if state == "running" and action.name == "retry":
        return ngettext(
            "%(count)s job was left alone: it is running now, and a running job is never retried.",
            "%(count)s jobs were left alone: they are running now, and running jobs are never "
            "retried.",
            count,
        )
    if state:
        return ngettext(
            "%(count)s job was left alone: it is %(state)s now.",
            "%(count)s jobs were left alone: they are %(state)s now.",
            count,
        )
    return ngettext(
        "%(count)s job was left alone: it is in another state now.",
        "%(count)s jobs were left alone: they are in other states now.",
        count,
    )


def _of_queues(action: QueueAction, fate: Fate, names: Sequence[str]) -> str:
    values = {"names": ", ".join(names), "why": fate.why, "past": action.past}
    match fate.became, action.name:
        case "done", "pause":
            text = _(
                "Paused: %(names)s. No more jobs are given out; pushes and running jobs go on."
            )
        case "done", _other:
            text = _("Resumed: %(names)s. Jobs are given out again.")
        case "unknown", _other:
            text = _(
                "Whether this was %(past)s is not known: %(names)s. %(why)s Look at the queue; "
                "doing it again is safe."
            )
        case "refused", _other:
            text = _("Refused: %(names)s. %(why)s")
        case _other if not fate.why:
            text = _(
                "Not touched, since this has taken long enough: %(names)s. Do it again for these."
            )
        case _other:
            text = _(
                "Not touched, since nobody answered: %(names)s. %(why)s Try again when a broker "
                "leads."
            )
    return text % values


def _names(ids: Sequence[str], address: Callable[[str], str]) -> str:
    # No list of its own: the admin would make each of its items look like a message.
    links = ((address(job_id), job_id) for job_id in ids[:NAMED])
    rows = format_html_join("", '<div role="listitem"><a href="{}">{}</a></div>', links)
    left = len(ids) - NAMED
    if left > 0:
        more = ngettext("and %(count)s more", "and %(count)s more", left)
        rows = format_html('{}<div role="listitem">{}</div>', rows, more % {"count": number(left)})
    return format_html(
        '<details class="objq-which"><summary>{}</summary><div role="list">{}</div></details>',
        _("Which jobs"),
        rows,
    )
