"""The site of the dashboard's benchmark, in a process of its own: `python -m bench.site`.

It prints one JSON line when it serves: its port, a superuser's session, and the pass for it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "dashboard"))

from django.urls import path
from django.utils.functional import SimpleLazyObject


def _routes() -> list[Any]:
    from django.contrib import admin

    return [path("admin/", admin.site.urls)]


urlpatterns = SimpleLazyObject(_routes)  # known when the apps are loaded


def main() -> None:
    import daphne.server  # before anything else that imports Twisted's reactor
    import django

    django.setup()
    from channels.routing import ProtocolTypeRouter
    from django.core.asgi import get_asgi_application
    from django.core.management import call_command

    from objq_dashboard.routing import dashboard_sockets

    call_command("migrate", verbosity=0)
    session, given_pass = _sign_in()
    application = ProtocolTypeRouter(
        {"http": get_asgi_application(), "websocket": dashboard_sockets()}
    )
    server: Any = daphne.server.Server(
        application,
        endpoints=["tcp:port=0:interface=127.0.0.1"],
        ready_callable=lambda: _announce(server, session, given_pass),
    )
    server.run()


def _sign_in() -> tuple[str, str]:
    from django.contrib.auth.models import User
    from django.test import Client

    from objq_dashboard.live.signedin import pass_for

    client = Client()
    user = User.objects.create_superuser("someone")
    client.force_login(user)
    return client.cookies["sessionid"].value, pass_for(user)


def _announce(server: Any, session: str, given_pass: str) -> None:
    ((_, port),) = server.listening_addresses
    print(json.dumps({"port": port, "session": session, "pass": given_pass}), flush=True)


if __name__ == "__main__":
    main()
