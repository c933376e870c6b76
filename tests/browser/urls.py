"""The dashboard twice: in Django's own admin, and in one of the site's."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.urls import path

from objq_dashboard.admin import QueueAdmin
from objq_dashboard.models import Queue

operations = admin.AdminSite(name="operations")
operations.site_header = "Operations"
operations.register(Queue, QueueAdmin)
operations.register(User)


def no_icon(request: HttpRequest) -> HttpResponse:
    """Answer what every browser asks for, so that a 404 in its console means something."""
    return HttpResponse(status=204)


urlpatterns = [
    path("favicon.ico", no_icon),
    path("admin/", admin.site.urls),
    path("staff/operations/", operations.urls),
]
