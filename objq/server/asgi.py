"""The ASGI application of a broker: the wire's websockets, and what its port says over HTTP.

`GET /healthz`: the process lives. `GET /readyz`: it can do its part, which is to lead or to stand
by with a store that it reaches (200), or not (503). `GET /metrics`: figures for Prometheus.
`ROUTES` is where others are added.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec
from django.utils.http import http_date

from objq import __version__
from objq.broker.company import STANDBY_HEADER
from objq.server.binding import PATH
from objq.server.consumer import Consumer, Receive, Send
from objq.server.metrics import Metrics, Text
from objq.server.seam import Broker, Json
from objq.server.sockets import Sockets


class Served(NamedTuple):
    """What routes answer from."""

    broker: Broker
    metrics: Metrics


Route = Callable[[Served], tuple[int, Json | Text]]


def healthz(served: Served) -> tuple[int, Json]:
    return 200, {"alive": True, "broker": served.broker.id, "version": __version__}


def readyz(served: Served) -> tuple[int, Json]:
    readiness = served.broker.readiness()
    ready = readiness["state"] in ("leading", "standby") and readiness["store_ok"]
    return 200 if ready else 503, readiness


def metrics(served: Served) -> tuple[int, Text]:
    return 200, served.metrics.text()


MAX_INTRODUCTION_BYTES: Final = 4_096

_STANDBY_HEADER: Final = STANDBY_HEADER.lower().encode()
"""As ASGI has names of headers."""

ROUTES: Final[dict[str, Route]] = {"/healthz": healthz, "/readyz": readyz, "/metrics": metrics}


class Application:
    def __init__(self, broker: Broker, sockets: Sockets) -> None:
        self._served = Served(broker, Metrics(broker, sockets))
        self._sockets = sockets

    async def __call__(self, scope: Json, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, send)
        elif scope["type"] != "websocket":
            raise ValueError(f"This application does not serve {scope['type']}.")
        elif scope["path"] == PATH:
            await Consumer(self._sockets)(scope, receive, send)
        else:
            await send({"type": "websocket.close"})

    async def _http(self, scope: Json, send: Send) -> None:
        self._note_standby(scope)
        status, value = self._route(scope["method"], scope["path"])
        if not isinstance(value, Text):
            value = Text(msgspec.json.encode(value) + b"\n", "application/json")
        body = value.body
        headers = [
            (b"content-type", value.content_type.encode()),
            (b"content-length", b"%d" % len(body)),
            (b"cache-control", b"no-store"),
            (b"date", http_date().encode()),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        shown = b"" if scope["method"] == "HEAD" else body
        await send({"type": "http.response.body", "body": shown})

    def _note_standby(self, scope: Json) -> None:
        if scope["path"] != "/readyz":
            return
        for name, value in scope.get("headers", ()):
            if name.lower() == _STANDBY_HEADER and len(value) <= MAX_INTRODUCTION_BYTES:
                self._served.broker.company.asked(value)

    def _route(self, method: str, path: str) -> tuple[int, Json | Text]:
        route = ROUTES.get(path)
        if route is None:
            return 404, {"error": f"Nothing is here; there are {', '.join(ROUTES)} and {PATH}."}
        if method not in ("GET", "HEAD"):
            return 405, {"error": "This is read with GET."}
        return route(self._served)
