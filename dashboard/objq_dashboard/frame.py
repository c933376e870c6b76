"""What is around every page in the admin: its address, the trail of links to it, its context."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

import django
from django.urls import reverse

from objq_dashboard.models import Queue
from objq_dashboard.pages import PAGES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from django.contrib.admin import AdminSite
    from django.http import HttpRequest

    Trail = list[tuple[str, str]]

PARENTS: Final = {"job": "jobs"}


def address(site_name: str, name: str, query: Mapping[str, str] | None = None) -> str:
    """Return the address of a page, or of `act`.

    `job` in the query is the id of the page `job`, whose address is that of the list without one.
    """
    rest = dict(query or {})
    job = rest.pop("job", "")
    url_name = {"overview": "changelist", "job": "jobs"}.get(name, name)
    path: str = reverse(f"admin:objq_dashboard_queue_{url_name}", current_app=site_name)
    if name == "job" and job:
        path += f"{quote(job, safe='')}/"
    return f"{path}?{urlencode(rest)}" if rest else path


def trail(site_name: str, name: str, query: Mapping[str, str], beyond: str = "") -> Trail:
    """Return the last links of the breadcrumbs; the last of them leads nowhere.

    `beyond`: the title of what has no page of its own, but was come to from this one.
    """
    kept = {"backend": query["backend"]} if "backend" in query else {}
    found = []
    for each in dict.fromkeys(("overview", PARENTS.get(name, name), name)):
        title = query["job"] if each == "job" else str(PAGES[each].title)
        # The page itself is gone back to as it was, with its filter.
        found.append((title, address(site_name, each, query if each == name else kept)))
    if beyond:
        return [*found, (beyond, "")]
    return [*found[:-1], (found[-1][0], "")]


def context(request: HttpRequest, site: AdminSite, title: str, trail: Trail) -> dict[str, Any]:
    """Return what the admin's templates ask for, and the one that all of the dashboard's extend."""
    request.current_app = site.name
    return {
        **site.each_context(request),
        "title": title,
        "opts": Queue._meta,
        "trail": trail,
        # Django 6.1 made the trail of links a list.
        "trail_is_list": django.VERSION >= (6, 1),
    }
