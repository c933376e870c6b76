"""Settings of the processes of the benchmarks: a store in memory, and whatever key signs."""

from __future__ import annotations

import importlib.util

SECRET_KEY = "benchmarks-only"  # noqa: S105  # serves 127.0.0.1 for a minute
USE_TZ = True
INSTALLED_APPS = ["daphne", "channels", "objq"]
if importlib.util.find_spec("django.tasks") is None:  # Django 5.2
    INSTALLED_APPS.append("django_tasks")
STORAGES = {"objq": {"BACKEND": "django.core.files.storage.InMemoryStorage"}}
TASKS = {
    "default": {"BACKEND": "objq.backend.ObjqBackend", "OPTIONS": {"STORAGE": "objq"}},
}
