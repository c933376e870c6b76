"""The door of `make demo`: one address that signs in and leads to the dashboard."""

from __future__ import annotations

from typing import Final

from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.crypto import constant_time_compare
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

USER: Final = "demo"
BACKEND: Final = "django.contrib.auth.backends.ModelBackend"


@never_cache
@require_GET
def enter(request: HttpRequest, key: str) -> HttpResponse:
    """Sign in whoever has the key. There is none, and nobody comes in, unless the demo drew one."""
    if not settings.ENTRANCE_KEY or not constant_time_compare(key, settings.ENTRANCE_KEY):
        raise Http404
    login(request, get_object_or_404(User, username=USER), backend=BACKEND)
    return redirect("admin:objq_dashboard_queue_changelist")
