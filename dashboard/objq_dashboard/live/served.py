"""Whether this site serves the dashboard's socket: pages that have none need not try one.

Each try is a traceback in the log of an ASGI application that has no route for it, and a line in
that of a WSGI server.
"""

from __future__ import annotations

from objq_dashboard.options import options

_routed = False


def note_routed() -> None:
    """Note that the ASGI application of this process was built with the socket."""
    global _routed  # noqa: PLW0603 - what is true of a process, not of an object in it
    _routed = True


def serves_sockets() -> bool:
    """Return whether a page may try the socket: by the setting or, without it, by the route."""
    said = options().sockets
    return _routed if said is None else said
