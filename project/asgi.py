"""The site for an ASGI server, such as `daphne project.asgi:application`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "dashboard"))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

from channels.routing import ProtocolTypeRouter
from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler
from django.core.asgi import get_asgi_application

from objq_dashboard.routing import dashboard_sockets

application = ProtocolTypeRouter(
    {
        # A small site on one machine serves its static files itself, also without DEBUG.
        "http": ASGIStaticFilesHandler(get_asgi_application()),
        "websocket": dashboard_sockets(),
    }
)
