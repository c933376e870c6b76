"""What a page offers to do: the bar of buttons above its table, for whoever may use them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from objq.errors import ObjqError
from objq_dashboard import frame
from objq_dashboard.access import may_act
from objq_dashboard.actions.actions import JOB_ACTIONS, QUEUE_ACTIONS, as_state

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from django.contrib.admin import AdminSite
    from django.http import HttpRequest

    from objq_dashboard.actions.actions import JobAction, QueueAction
    from objq_dashboard.source.source import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A form of buttons. `fields`: what it sends besides, whichever button is pressed.

    `selects`: it is about the rows that are ticked, else about the one job of the page.
    `any_match`: it may also be about all that match the page's filter.
    """

    address: str
    fields: Sequence[tuple[str, str]]
    offers: Sequence[JobAction | QueueAction]
    selects: bool
    any_match: bool
    state: str = ""
    """Of the one job of the page; what does not fit it is there, but hidden."""


def bar(
    request: HttpRequest,
    site: AdminSite,
    page: str,
    source: Source | None,
    query: Mapping[str, str],
) -> Bar | None:
    """Return the bar of a page, or None where there is nothing to do, or not for this user."""
    if source is None or not may_act(request.user):
        return None
    own = {key: value for key, value in query.items() if key not in ("backend", "job")}
    fields = [("backend", source.alias), ("page", page), ("query", urlencode(own))]
    offers: Sequence[JobAction | QueueAction]
    state = ""
    if page == "overview":
        offers = tuple(QUEUE_ACTIONS.values())
    elif page in ("jobs", "dead"):
        state = "dead" if page == "dead" else as_state(query.get("state", "")) or ""
        fields.append(("seen", state))
        offers = _fitting(state)
    elif page == "job":
        state = _state(source, query.get("job", ""))
        fields += [("seen", state), ("key", query.get("job", ""))]
        offers = tuple(JOB_ACTIONS.values()) if state else ()
    else:
        offers = ()
    if not offers:
        return None
    return Bar(
        address=frame.address(site.name, "act"),
        fields=fields,
        offers=offers,
        selects=page != "job",
        any_match=page in ("jobs", "dead"),
        state=state if page == "job" else "",
    )


def _fitting(state: str) -> tuple[JobAction, ...]:
    return tuple(action for action in JOB_ACTIONS.values() if action.fits(state))


def _state(source: Source, job_id: str) -> str:
    try:
        (job,) = source.get([job_id])
    except ObjqError:
        return ""
    return job.state if job is not None else ""
