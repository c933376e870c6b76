"""A broker of this very process, with everything real."""

from __future__ import annotations

import os
import socket

from objq.broker.broker import Broker
from objq.broker.probe_http import probe_http
from objq.clock import SYSTEM_CLOCK
from objq.core import ops
from objq.ids import Ids
from objq.options import Options
from objq.store.base import AsyncStore


def broker_of_this_process(
    store: AsyncStore, options: Options, *, advertise: str, bound: tuple[str, int]
) -> Broker:
    """Return a broker that advertises a URL and listens at `bound`; see `Broker`."""
    return Broker(
        store,
        options,
        clock=SYSTEM_CLOCK,
        ids=Ids(),
        advertise=advertise,
        bound=bound,
        probe=probe_http,
        process=ops.Process(
            host=socket.gethostname()[:255], pid=os.getpid(), started_at=SYSTEM_CLOCK.wall_ms()
        ),
    )
