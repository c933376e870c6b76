from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.urls import path

from objq_dashboard import views
from objq_dashboard.access import may_view
from objq_dashboard.actions.logbook import outside_of_transactions
from objq_dashboard.actions.views import act
from objq_dashboard.models import Queue

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse
    from django.urls import URLPattern

    ModelAdmin = admin.ModelAdmin[Queue]
else:
    ModelAdmin = admin.ModelAdmin


@admin.register(Queue)
class QueueAdmin(ModelAdmin):
    """The dashboard. It has nothing to add, change or delete, so none of these is allowed."""

    def has_module_permission(self, request: HttpRequest) -> bool:
        return may_view(request.user)

    def has_view_permission(self, request: HttpRequest, obj: Queue | None = None) -> bool:
        return may_view(request.user)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Queue | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Queue | None = None) -> bool:
        return False

    def get_urls(self) -> list[URLPattern]:
        site = self.admin_site
        show = partial(views.show, site=site)

        def named(route: str, view: Any, name: str) -> URLPattern:
            pattern: URLPattern = path(
                route, site.admin_view(view), name=f"objq_dashboard_queue_{name}"
            )
            return pattern

        return [
            named("", self.changelist_view, "changelist"),
            named("jobs/", partial(show, name="jobs"), "jobs"),
            named("jobs/<path:job>/", partial(show, name="job"), "job"),
            named("workers/", partial(show, name="workers"), "workers"),
            named("dead/", partial(show, name="dead"), "dead"),
            named("broker/", partial(show, name="broker"), "broker"),
            # Around the partial, since that is what the admin takes a view's marks from.
            named("act/", outside_of_transactions(partial(act, site=site)), "act"),
            named("live/", views.live, "live"),
        ]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        return views.show(request, self.admin_site, "overview", extra_context=extra_context)
