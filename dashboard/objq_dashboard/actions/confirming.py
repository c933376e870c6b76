"""The page that asks before something is done to many jobs, or cannot be undone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from django.template.response import TemplateResponse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from objq import conf
from objq.errors import ObjqError
from objq_dashboard import frame
from objq_dashboard.actions import selection
from objq_dashboard.actions.form import job_address
from objq_dashboard.pages.parts import STATES
from objq_dashboard.source.searching import FILTERS
from objq_dashboard.source.source import Source
from objq_dashboard.wording import number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.contrib.admin import AdminSite
    from django.http import HttpRequest, HttpResponse

    from objq_dashboard.actions.actions import JobAction
    from objq_dashboard.actions.form import Asked
    from objq_dashboard.actions.selection import Found

NAMED: Final = 20
"""Ids that the page lists of a selection."""


def ask(
    request: HttpRequest, site: AdminSite, wish: Asked, action: JobAction, found: Found
) -> HttpResponse:
    """Show how many there are of each state. What the form then sends names exactly these."""
    fields = [("action", action.name), ("backend", wish.alias), ("page", wish.page)]
    fields.append(("query", urlencode(dict(wish.query))))
    if wish.all_that_match:
        fields.append(("scope", "all"))
        fields += [("confirmed", f"{state}:{len(ids)}") for state, ids in found.chosen.items()]
    else:
        fields += [("key", key) for key in wish.keys[:1]]
        fields += [("chosen", f"{state}:{i}") for state, ids in found.chosen.items() for i in ids]
    here = {**wish.query, "backend": wish.alias, "job": next(iter(wish.keys), "")}
    title = str(action.question)
    context = {
        **frame.context(request, site, title, frame.trail(site.name, wish.page, here, title)),
        "alias": wish.alias if len(conf.backend_aliases()) > 1 else "",
        "action": action,
        "fields": fields,
        "count": number(found.count),
        "states": [
            {"name": STATES[state], "count": number(len(ids)), "state": state}
            for state, ids in found.chosen.items()
        ],
        "jobs": () if wish.all_that_match else _named(site, wish.alias, found.ids[:NAMED]),
        "left_out": left_out(found) if found.misfits else "",
        "grown": wish.all_that_match and bool(wish.confirmed),
        "most": number(selection.MOST) if found.cut else "",
        "filters": _filters(wish) if wish.all_that_match else (),
        "back": wish.back(site.name),
    }
    return TemplateResponse(request, "objq_dashboard/act_confirm.html", context)


def nothing_done(request: HttpRequest, site: AdminSite) -> HttpResponse:
    """Answer whoever comes here without a form, as after signing in again half-way."""
    title = _("Nothing was done")
    context = {
        **frame.context(request, site, title, frame.trail(site.name, "overview", {}, title)),
        "overview": frame.address(site.name, "overview"),
    }
    response = TemplateResponse(request, "objq_dashboard/act_nothing.html", context, status=405)
    response["Allow"] = "POST"
    return response


def why_nothing(action: JobAction, found: Found) -> str:
    if found.misfits:
        return _("Nothing was done. %(left_out)s") % {"left_out": left_out(found)}
    return _("There is no job that this can be done to, so nothing was done.")


def left_out(found: Found) -> str:
    """Return which of the jobs that were ticked the action does not fit."""
    parts = [
        _("%(count)s that are %(state)s")
        % {
            "count": number(count),
            "state": STATES[state] if state in STATES else _("not there any more"),
        }
        for state, count in found.misfits.items()
    ]
    text = ngettext(
        "%(count)s job is left out, since this cannot be done to it: %(parts)s.",
        "%(count)s jobs are left out, since this cannot be done to them: %(parts)s.",
        found.misfit_count,
    )
    return text % {"count": number(found.misfit_count), "parts": ", ".join(parts)}


def _filters(wish: Asked) -> list[tuple[str, str]]:
    return [(str(name), wish.query[key]) for key, name in FILTERS.items() if wish.query.get(key)]


def _named(site: AdminSite, alias: str, ids: Sequence[str]) -> list[dict[str, str]]:
    """Return jobs by which whoever is asked can tell what they are about to do."""
    try:
        jobs = Source(alias).get(ids)
    except ObjqError:
        jobs = (None,) * len(ids)  # what is asked is asked all the same
    return [
        {
            "id": job_id,
            "href": job_address(site.name, alias, job_id),
            "task": job.task if job is not None else "",
        }
        for job_id, job in zip(ids, jobs, strict=True)
    ]
