from __future__ import annotations

from django.apps import AppConfig
from django.core import checks
from django.utils.translation import gettext_lazy as _


class DashboardConfig(AppConfig):
    name = "objq_dashboard"
    verbose_name = _("Job queue")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # With this comes the framework's own check, which asks each backend, and so says objq.E009
        # of a project that has the dashboard installed but not objq.
        from objq import compat  # noqa: F401
        from objq_dashboard.options import check_setting

        checks.register(check_setting, "objq")
