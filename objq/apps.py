"""The app that goes into `INSTALLED_APPS`."""

from __future__ import annotations

from django.apps import AppConfig
from django.core import checks


class ObjqConfig(AppConfig):
    name = "objq"
    verbose_name = "Job queue"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        # With this comes the framework's own check, which asks each backend; without the import,
        # a project that has not imported a task yet would not be checked.
        from objq.checks import check_installation

        checks.register(check_installation)
