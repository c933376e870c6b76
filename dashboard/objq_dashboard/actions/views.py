"""The endpoint of everything that changes the queue: asked, confirmed where need be, done, told."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpResponseBadRequest, HttpResponseRedirect
from django.utils.translation import gettext as _

from objq.errors import ObjqError
from objq_dashboard.access import may_act
from objq_dashboard.actions import applying, confirming, form, selection
from objq_dashboard.actions.actions import JobAction, QueueAction
from objq_dashboard.actions.form import job_address
from objq_dashboard.actions.logbook import Entry
from objq_dashboard.actions.messages import sentences
from objq_dashboard.actions.selection import Found

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.contrib.admin import AdminSite
    from django.http import HttpRequest, HttpResponse

    from objq_dashboard.actions.applying import Report
    from objq_dashboard.actions.form import Asked
    from objq_dashboard.actions.messages import Message


def act(request: HttpRequest, site: AdminSite) -> HttpResponse:
    """Do what a form asks, and go back to its page, which tells what has become of it."""
    until = time.monotonic() + applying.ACT_FOR_S
    if not may_act(request.user):
        raise PermissionDenied
    if request.method != "POST":
        return confirming.nothing_done(request, site)
    wish = form.read(request.POST)
    if wish is None:
        return HttpResponseBadRequest("This is nothing that the dashboard asks.")
    if isinstance(wish.action, QueueAction):
        return _on_queues(request, site, wish, wish.action, until)
    try:
        found, agreed = _find(wish, wish.action)
    except ObjqError as error:
        messages.error(request, _("Nothing was done. %(why)s") % {"why": error.message})
        return HttpResponseRedirect(wish.back(site.name))
    if found.count and not agreed:
        return confirming.ask(request, site, wish, wish.action, found)
    return _on_jobs(request, site, wish, wish.action, found, until)


def _find(wish: Asked, action: JobAction) -> tuple[Found, bool]:
    """Return the jobs that are meant, and whether the operator has agreed to these already."""
    if wish.all_that_match:
        found = selection.all_that_match(wish.alias, action, wish.filter)
        return found, not found.exceeds(wish.confirmed)
    if wish.chosen:
        return Found(chosen=wish.chosen), True
    if wish.seen is not None and wish.keys:
        return Found(chosen={wish.seen: wish.keys}), not action.destroys
    # They were shown in several states; which ones is shown again, before anything is done.
    return selection.as_they_are(wish.alias, action, wish.keys), False


def _on_jobs(
    request: HttpRequest,
    site: AdminSite,
    wish: Asked,
    action: JobAction,
    found: Found,
    until: float,
) -> HttpResponse:
    if not found.count:
        messages.warning(request, confirming.why_nothing(action, found))
        return HttpResponseRedirect(wish.back(site.name))
    entry = Entry(request.user, wish.alias, action, "job", found.ids)
    report = applying.on_jobs(wish.alias, action, found.chosen, until)
    address = None if wish.page == "job" else partial(job_address, site.name, wish.alias)
    _tell(request, entry, report, sentences(action, report, address))
    if found.cut:
        messages.warning(request, _("There are more that match. Do it again for those."))
    gone = action.destroys and report.count("done", "missing") > 0
    return HttpResponseRedirect(wish.back(site.name, gone=gone))


def _on_queues(
    request: HttpRequest, site: AdminSite, wish: Asked, action: QueueAction, until: float
) -> HttpResponse:
    if wish.keys:
        entry = Entry(request.user, wish.alias, action, "queue", wish.keys)
        report = applying.on_queues(wish.alias, action, wish.keys, until)
        _tell(request, entry, report, sentences(action, report))
    else:
        messages.warning(request, _("No queue was selected, so nothing was done."))
    return HttpResponseRedirect(wish.back(site.name))


def _tell(request: HttpRequest, entry: Entry, report: Report, said: Iterable[Message]) -> None:
    """Tell the log what has become of an action, and then whoever asked for it."""
    is_logged = entry.close(report)
    for message in said:
        messages.add_message(request, message.level, message.text)
    if not is_logged:
        text = _("The log of the admin could not be completed: there it is not answered yet.")
        messages.warning(request, text)
