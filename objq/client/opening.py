"""From a backend's options to a session."""

from __future__ import annotations

import os
import socket
from functools import partial

import objq
from objq.client.seam import Connect
from objq.client.session import Session
from objq.client.transport import open_websocket
from objq.clock import SYSTEM_CLOCK, Clock
from objq.core import ops
from objq.ids import Ids
from objq.options import Options
from objq.store.aio import InThread
from objq.store.base import AsyncStore
from objq.store.open import open_store
from objq.tokens import Role, make_token


def open_session(
    options: Options,
    *,
    role: Role,
    worker: str | None = None,
    queues: tuple[str, ...] = (),
    slots: int = 0,
    store: AsyncStore | None = None,
    connect: Connect = open_websocket,
    clock: Clock = SYSTEM_CLOCK,
    ids: Ids | None = None,
    seen: set[str] | None = None,
) -> Session:
    """Return a session, not yet connected, for the loop that will use it.

    `worker`, `queues` and `slots` are told to the broker. Without a `store`, opens the one that the
    options name, which raises ConfigurationError if it cannot be had; nothing is asked of it yet.
    `seen`: as of `Session`.
    """
    ids = ids if ids is not None else Ids()
    on_close = None
    if store is None:
        store = own = InThread(open_store(options.storage, options.name))
        on_close = own.close
    hello = ops.Hello(
        client=f"{os.getpid()}-{ids.token()}",
        version=objq.__version__,
        worker=worker,
        queues=queues,
        slots=slots,
        host=socket.gethostname()[:255],
    )
    return Session(
        options,
        store,
        connect,
        partial(make_token, role),
        hello,
        clock=clock,
        ids=ids,
        on_close=on_close,
        seen=seen,
    )
