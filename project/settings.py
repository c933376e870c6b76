"""Settings of the site. Everything that it writes is in one folder, `OBJQ_DEMO_DATA`.

From the environment:
    OBJQ_DEMO_DATA        the folder of the database and the queue (./.demo)
    OBJQ_DEMO_SECRET_KEY  the secret key; the same for site, broker and workers
    OBJQ_DEMO_BROKER_URL  where the broker is, to skip looking it up in queue.json
    OBJQ_DEMO_DEBUG       1 for Django's debug pages
    OBJQ_DEMO_ENTRANCE    the key that signs in whoever opens /enter/KEY/; without it nobody can
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(os.environ.get("OBJQ_DEMO_DATA") or BASE_DIR / ".demo").absolute()

# SQLite makes a file but not its folder, and so does the queue.
DATA_DIR.mkdir(parents=True, exist_ok=True)

# Good enough on 127.0.0.1 and nowhere else; `make demo` draws a random one.
SECRET_KEY = os.environ.get("OBJQ_DEMO_SECRET_KEY", "django-insecure-for-this-demonstration-only")
ENTRANCE_KEY = os.environ.get("OBJQ_DEMO_ENTRANCE", "")
DEBUG = os.environ.get("OBJQ_DEMO_DEBUG") == "1"
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "[::1]"]

INSTALLED_APPS = [
    "daphne",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "channels",
    "objq",
    "objq_dashboard",
    "project",
]
if importlib.util.find_spec("django.tasks") is None:  # before Django 6.0 tasks are a package
    INSTALLED_APPS.append("django_tasks")

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "project.middleware.content_security_policy",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "project.urls"
ASGI_APPLICATION = "project.asgi.application"
WSGI_APPLICATION = "project.wsgi.application"

TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
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

# The site and several workers write at the same time. With WAL readers never wait; a writer takes
# its lock when its transaction begins, so that it waits its turn instead of failing half-way.
DATABASES: dict[str, dict[str, Any]] = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": DATA_DIR / "site.sqlite3",
        "OPTIONS": {
            "timeout": 30,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    },
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

STORAGES: dict[str, dict[str, Any]] = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    "objq": {
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {"location": DATA_DIR / "queue"},
    },
}

TASKS: dict[str, dict[str, Any]] = {
    "default": {
        "BACKEND": "objq.backend.ObjqBackend",
        "QUEUES": ["default", "archive"],
        # Ctrl-C is not to wait for long jobs: they are handed back.
        "OPTIONS": {"STORAGE": "objq", "NAME": "queue.json", "SHUTDOWN_GRACE": 4},
    },
}
if broker_url := os.environ.get("OBJQ_DEMO_BROKER_URL"):
    TASKS["default"]["OPTIONS"]["BROKER_URL"] = broker_url

STATIC_URL = "static/"
LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True

# A page is at most 4 MiB (project.models); as form data a character can take three.
DATA_UPLOAD_MAX_MEMORY_SIZE = 16 * 1024 * 1024

LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "{asctime} {levelname} {name}: {message}", "style": "{"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": "INFO"},
    # `django` has a handler of its own for the console, only with DEBUG.
    "loggers": {"django": {"handlers": [], "propagate": True}},
}
