"""Twisted's reactor, which daphne needs and which a process has once, on one event loop."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from objq.errors import ConfigurationError

if TYPE_CHECKING:
    from objq.server.listener import Listener

_MODULE = "twisted.internet.reactor"


def reactor_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of Twisted's reactor, installing a reactor if there is none.

    With daphne in INSTALLED_APPS, `django.setup()` has installed one, on a loop of its own.
    Raises ConfigurationError if it is not an asyncio reactor.
    """
    if _MODULE not in sys.modules:
        _install(asyncio.new_event_loop())
    reactor = sys.modules[_MODULE]
    loop = getattr(reactor, "_asyncioEventloop", None)  # daphne has no other way to it either
    if isinstance(loop, asyncio.AbstractEventLoop):
        return loop
    raise ConfigurationError(
        f"Twisted runs on {type(reactor).__name__} in this process and the broker needs its "
        "asyncio reactor: put `daphne` first in INSTALLED_APPS."
    )


def load_listener(loop: asyncio.AbstractEventLoop) -> type[Listener]:
    """Return `objq.server.listener.Listener`, once Twisted's reactor is known to run on `loop`."""
    if _MODULE not in sys.modules:
        _install(loop)
    if reactor_loop() is not loop:
        raise RuntimeError(
            "Twisted's reactor belongs to another event loop in this process: run the server on "
            "objq.server.reactor.reactor_loop()."
        )
    from objq.server.listener import Listener

    return Listener


def _install(loop: asyncio.AbstractEventLoop) -> None:
    from twisted.internet import asyncioreactor

    asyncioreactor.install(loop)  # type: ignore[no-untyped-call]  # Twisted
