"""Settings of the site in the dashboard's benchmark; folder and broker are in the environment."""

from __future__ import annotations

import os
from pathlib import Path

from bench.settings import *  # noqa: F403  # the usual way to build upon other settings
from bench.settings import INSTALLED_APPS, STORAGES

ALLOWED_HOSTS = ["127.0.0.1"]
INSTALLED_APPS = [
    *INSTALLED_APPS,
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "objq_dashboard",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
ROOT_URLCONF = "bench.site"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": Path(os.environ["OBJQ_BENCH_FOLDER"]) / "site.sqlite3",
    },
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
STATIC_URL = "static/"
STORAGES = {
    **STORAGES,
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
TASKS = {
    "default": {
        "BACKEND": "objq.backend.ObjqBackend",
        "OPTIONS": {"STORAGE": "objq", "BROKER_URL": os.environ["OBJQ_BENCH_BROKER"]},
    },
}
