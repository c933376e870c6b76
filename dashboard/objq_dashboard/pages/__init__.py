"""The pages of the dashboard, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from django.utils.translation import gettext_lazy as _

from objq_dashboard.pages import broker, dead, job, jobs, overview, workers

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise

    from objq_dashboard.page import Page
    from objq_dashboard.source.source import Source


class PageKind(NamedTuple):
    """`build` never raises for a queue that cannot be asked; the page says so instead.

    `choices(query, page)`: what the page's form and tabs offer, for its template.
    """

    build: Callable[[Source, Mapping[str, str]], Page]
    template: str
    title: str | _StrPromise
    choices: Callable[[Mapping[str, str], Page], dict[str, Any]] | None = None


PAGES: Final[Mapping[str, PageKind]] = {
    "overview": PageKind(overview.build, "objq_dashboard/overview.html", _("Overview")),
    "jobs": PageKind(jobs.build, "objq_dashboard/jobs.html", _("Jobs"), jobs.choices),
    "job": PageKind(job.build, "objq_dashboard/job.html", _("Job")),
    "workers": PageKind(workers.build, "objq_dashboard/workers.html", _("Workers")),
    "dead": PageKind(dead.build, "objq_dashboard/dead.html", _("Dead jobs"), dead.choices),
    "broker": PageKind(broker.build, "objq_dashboard/broker.html", _("Broker")),
}
