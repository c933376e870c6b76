"""The addresses of a site whose dashboard is in an admin of its own, beside the usual one."""

from __future__ import annotations

from django.contrib import admin
from django.urls import path

from objq_dashboard.admin import QueueAdmin
from objq_dashboard.models import Queue

operations = admin.AdminSite(name="operations")
operations.register(Queue, QueueAdmin)

urlpatterns = [path("admin/", admin.site.urls), path("operations/", operations.urls)]
