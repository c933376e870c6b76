from __future__ import annotations

from django.apps import AppConfig


class ProjectConfig(AppConfig):
    name = "project"
    verbose_name = "Documentation library"
    default_auto_field = "django.db.models.BigAutoField"
