"""Settings of the site that a real browser opens; what varies is in the environment.

    OBJQ_TEST_FOLDER  where the database is
    OBJQ_TEST_PREFIX  the path below which the site is served, such as /below
    OBJQ_TEST_DASHBOARD  the setting OBJQ_DASHBOARD, as JSON

beside what `tests.e2e.settings` reads.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.e2e.settings import *  # noqa: F403  # the usual way to build upon other settings
from tests.e2e.settings import INSTALLED_APPS, MIDDLEWARE, TASKS

PREFIX = os.environ.get("OBJQ_TEST_PREFIX", "")

ALLOWED_HOSTS = ["127.0.0.1"]
INSTALLED_APPS = [*(name for name in INSTALLED_APPS if name != "project"), "shop"]
MIDDLEWARE = [
    "tests.browser.policy.content_security_policy",
    *MIDDLEWARE,
    # After the sessions and before what translates: the tests choose a language with a header.
    "django.middleware.locale.LocaleMiddleware",
]
ROOT_URLCONF = "tests.browser.urls"
ASGI_APPLICATION = "tests.browser.asgi.application"

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": Path(os.environ["OBJQ_TEST_FOLDER"]) / "site.sqlite3",
        "OPTIONS": {
            "timeout": 30,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    },
}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

FORCE_SCRIPT_NAME = PREFIX or None
# The server of static files compares it with the whole path, prefix included.
STATIC_URL = f"{PREFIX}/static/"
TIME_ZONE = "UTC"

TASKS["default"]["QUEUES"] = []
OBJQ_DASHBOARD = json.loads(os.environ.get("OBJQ_TEST_DASHBOARD", "{}"))
