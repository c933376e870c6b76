from __future__ import annotations

from django.apps import AppConfig
from django.core import checks
from django.utils.translation import gettext_lazy as _


class DashboardConfig(AppConfig):
    name = "objq_dashboard"
    verbose_name = _("Job queue")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from objq_dashboard.options import check_setting

        checks.register(check_setting, "objq")
