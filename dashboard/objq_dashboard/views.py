"""The pages over HTTP: as HTML, and at the same address as JSON for a script that polls."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse, JsonResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.cache import patch_vary_headers
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from objq import conf
from objq.commandline import command
from objq_dashboard import frame
from objq_dashboard.access import may_act, may_view
from objq_dashboard.actions import offers
from objq_dashboard.live.served import serves_sockets
from objq_dashboard.live.signedin import pass_for
from objq_dashboard.page import as_json
from objq_dashboard.pages import PAGES
from objq_dashboard.source.source import Source
from objq_dashboard.zones import is_chosen, zone, zone_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.contrib.admin import AdminSite
    from django.http import HttpRequest

    from objq_dashboard.page import Page

TABS: Final = ("overview", "jobs", "workers", "dead", "broker")


def show(
    request: HttpRequest,
    site: AdminSite,
    name: str,
    job: str = "",
    extra_context: Mapping[str, Any] | None = None,
) -> HttpResponse:
    """Answer with a page. Raises PermissionDenied, and Http404 for an unknown backend."""
    alias, aliases = backend(request)
    as_data = request.get_preferred_type(["text/html", "application/json"]) == "application/json"
    if alias is None and as_data:
        raise Http404
    query = {key: str(value) for key, value in request.GET.items() if value}
    if job:
        query["job"] = job
    zone_now, zone_chosen = zone_name(request), is_chosen()
    # Templates are rendered later, but every text of a page is made here.
    with timezone.override(zone(zone_now) or timezone.get_current_timezone()):
        source = Source(alias) if alias is not None else None
        page = PAGES[name].build(source, query) if source is not None else None
        response: HttpResponse
        if as_data and page is not None:
            response = JsonResponse(as_json(page))
        else:
            title = _("Job %(job)s") % query if name == "job" else str(PAGES[name].title)
            context = {
                **frame.context(request, site, title, frame.trail(site.name, name, query)),
                **_context(site, name, query, source, page),
                "page": page,
                "alias": alias,
                "aliases": aliases,
                "may_act": may_act(request.user),
                "bar": offers.bar(request, site, name, source, query),
                "language": get_language(),
                "zone": zone_now,
                "zone_chosen": zone_chosen,
                "sockets": serves_sockets(),
                "pass": pass_for(request.user),
                **(extra_context or {}),
            }
            response = TemplateResponse(request, PAGES[name].template, context)
    patch_vary_headers(response, ["Accept"])
    return response


def backend(request: HttpRequest) -> tuple[str | None, tuple[str, ...]]:
    """Return the backend that is asked for (or the first) and all; the door of every page."""
    if not may_view(request.user):
        raise PermissionDenied
    aliases = conf.backend_aliases()
    if not aliases:
        return None, aliases
    alias = request.GET.get("backend", aliases[0])
    if alias not in aliases:
        raise Http404(f"No backend of objq is called {alias!r}.")
    return alias, aliases


def live(request: HttpRequest) -> HttpResponse:
    """Answer whoever asks over HTTP what is a websocket, as a site without any does."""
    if not may_view(request.user):
        raise PermissionDenied
    text = _(
        "This is a websocket. To serve it, have the ASGI application of this site route "
        "websockets to objq_dashboard.routing.dashboard_sockets(); until then pages poll."
    )
    # The header `Upgrade` belongs here, but is the server's to set: under WSGI it is an error.
    return HttpResponse(text, status=426, content_type="text/plain; charset=utf-8")


def _context(
    site: AdminSite, name: str, query: dict[str, str], source: Source | None, page: Page | None
) -> dict[str, Any]:
    kind = PAGES[name]
    own = {key: value for key, value in query.items() if key != "job"}
    return {
        "name": name,
        "base": frame.address(site.name, "overview"),
        "query": own,
        "query_string": urlencode(query),
        "tabs": [_tab(site, each, name, source) for each in TABS],
        "choices": kind.choices(query, page) if kind.choices is not None and page else {},
        "charts": {key: asdict(chart) for key, chart in page.charts.items()} if page else {},
        "run": {
            "broker": command(source.alias, "runbroker") if source else "",
            "worker": command(source.alias, "objq_worker") if source else "",
        },
    }


def _tab(site: AdminSite, name: str, shown: str, source: Source | None) -> dict[str, str]:
    query = {"backend": source.alias} if source is not None else {}
    current = "page" if shown == name else "true" if frame.PARENTS.get(shown) == name else ""
    href = frame.address(site.name, name, query)
    return {"title": str(PAGES[name].title), "href": href, "current": current}
