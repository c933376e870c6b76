"""URLs of a site with two admins, the second under a path of its own."""

from __future__ import annotations

from django.contrib import admin
from django.urls import path

from objq_dashboard.admin import QueueAdmin
from objq_dashboard.models import Queue

operations = admin.AdminSite(name="operations")
operations.register(Queue, QueueAdmin)

urlpatterns = [
    path("admin/", admin.site.urls),
    path("ops/inner/", operations.urls),
]
