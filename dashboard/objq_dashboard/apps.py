from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class DashboardConfig(AppConfig):
    name = "objq_dashboard"
    verbose_name = _("Job queue")
    default_auto_field = "django.db.models.BigAutoField"
