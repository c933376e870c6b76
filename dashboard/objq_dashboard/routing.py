"""The dashboard's websocket, for a site's ASGI application:

    application = ProtocolTypeRouter(
        {"http": get_asgi_application(), "websocket": dashboard_sockets()}
    )

A site with sockets of its own gives what serves them: `dashboard_sockets(URLRouter([…]))`.

This module can be imported before Django is set up.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, Final

from channels.sessions import SessionMiddlewareStack

from objq_dashboard.live.served import note_routed

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Application = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]

PATH: Final = "/objq_dashboard/queue/live/"
"""How the paths of the socket end, wherever the site has put its admin, or several of them."""


def dashboard_sockets(others: Application | None = None) -> Application:
    """Return an ASGI application that serves the dashboard's socket, and hands on all others.

    Without `others` these are refused. Only pages of the site itself are let in; who may see what
    is then read from session and database, again and again. From now on the pages of this process
    try the socket.
    """
    note_routed()

    async def application(scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket" and scope["path"].endswith(PATH):
            await _guarded(scope, receive, send)
        elif others is not None:
            await others(scope, receive, send)
        elif scope["type"] == "websocket":
            await _refuse(receive, send)
        else:
            raise ValueError(f"The dashboard's sockets do not serve {scope['type']}.")

    return application


async def _guarded(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    from objq_dashboard.live.origins import is_own

    if is_own(scope["headers"]):
        await _live()(scope, receive, send)
    else:
        await _refuse(receive, send)


async def _refuse(receive: Receive, send: Send) -> None:
    await receive()  # websocket.connect
    await send({"type": "websocket.close"})


@cache
def _live() -> Application:
    # Needs Django's apps, which are loaded when the first socket comes.
    from objq_dashboard.live.consumer import Live

    application: Application = SessionMiddlewareStack(Live.as_asgi())
    return application
