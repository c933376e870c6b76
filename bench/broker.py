"""The broker of a benchmark, in a process of its own: `python -m bench.broker LATENCY_S`.

It prints one JSON line when it leads, and tells at `/bench` what the store has counted.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import django

from bench.slow_store import SlowStore


def main(latency_s: float) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "bench.settings")
    django.setup()
    from objq.broker.broker import Broker
    from objq.broker.probe_http import probe_http
    from objq.clock import SYSTEM_CLOCK
    from objq.conf import options_for
    from objq.ids import Ids
    from objq.server import asgi  # needs the settings
    from objq.server.binding import PATH
    from objq.server.serving import serve
    from objq.tokens import make_token

    store = SlowStore(latency_s)
    address: list[Any] = []

    def counters(broker: Any) -> tuple[int, dict[str, Any]]:
        return 200, {
            "writes": store.writes,
            "max_in_flight": store.max_in_flight,
            "cpu_s": time.process_time(),
        }

    def make(bound: tuple[str, int]) -> Broker:
        url = f"ws://{bound[0]}:{bound[1]}{PATH}"
        broker = Broker(
            store,
            options_for("default"),
            clock=SYSTEM_CLOCK,
            ids=Ids(),
            advertise=url,
            bound=bound,
            probe=probe_http,
        )
        address.extend((broker, url, bound[1]))
        return broker

    def announce(line: str) -> None:
        broker, url, port = address
        if broker.leading:
            token = make_token("manage", broker.document, broker.id)
            print(json.dumps({"url": url, "token": token, "port": port}), flush=True)

    asgi.ROUTES["/bench"] = counters
    serve(make, ("127.0.0.1", 0), announce=announce)


if __name__ == "__main__":
    main(float(sys.argv[1]))
