"""What the tests' own process and the ones that it starts are configured with."""

from __future__ import annotations

from typing import Any

T_S = 2.0


def storages(folder: str) -> dict[str, dict[str, Any]]:
    return {
        "objq": {
            "BACKEND": "django.core.files.storage.FileSystemStorage",
            "OPTIONS": {"location": folder},
        },
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }


def tasks(grace_s: float) -> dict[str, dict[str, Any]]:
    return {
        "default": {
            "BACKEND": "objq.backend.ObjqBackend",
            "QUEUES": ["default", "mail"],
            "OPTIONS": {
                "STORAGE": "objq",
                "HEARTBEAT_TIMEOUT": T_S,
                "BROKER_TTL": T_S,
                "SHUTDOWN_GRACE": grace_s,
                "DIRECT_FALLBACK": False,
            },
        },
    }
