from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import django
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404, JsonResponse
from django.template.response import TemplateResponse
from django.urls import path
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache

from objq import conf
from objq_dashboard import overview
from objq_dashboard.access import may_view
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
        site = self.admin_site.admin_view
        name = "objq_dashboard_queue"
        return [
            path("", site(self.changelist_view), name=f"{name}_changelist"),
            path("overview.json", site(self.overview_json), name=f"{name}_overview_json"),
        ]

    @method_decorator(never_cache)
    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        alias, aliases = self._backend(request)
        context = {
            **self.admin_site.each_context(request),
            "title": self.opts.verbose_name_plural,
            "opts": self.opts,
            "alias": alias,
            "aliases": aliases,
            "overview": overview.read(alias) if alias else None,
            # Django 6.1 made the trail of links a list.
            "trail_is_list": django.VERSION >= (6, 1),
            **(extra_context or {}),
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, "objq_dashboard/overview.html", context)

    @method_decorator(never_cache)
    def overview_json(self, request: HttpRequest) -> HttpResponse:
        alias, _ = self._backend(request)
        if alias is None:
            raise Http404
        return JsonResponse(asdict(overview.read(alias)))

    def _backend(self, request: HttpRequest) -> tuple[str | None, tuple[str, ...]]:
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
