"""The address that a broker binds, and the one that it advertises in `queue.json`."""

from __future__ import annotations

import errno
import ipaddress
import socket
from collections.abc import Callable
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from objq.broker.addresses import NOBODYS, is_loopback
from objq.errors import ConfigurationError
from objq.optionrules import WIRE_PATH, with_path

PATH: Final = WIRE_PATH
DEFAULT_PORT: Final = 3000
BACKLOG: Final = 1_024

Address = tuple[str, int]
"""Host and port."""


class Advertised(NamedTuple):
    """What goes into `queue.json`. `warning`: why other machines may not reach it."""

    url: str
    warning: str | None = None


def parse_bind(text: str) -> Address:
    """Return host and port of `HOST:PORT`, `[IPV6]:PORT`, `HOST` or `:PORT` (all addresses).

    Raises ConfigurationError.
    """
    if text.isascii() and text.isdigit():
        raise ConfigurationError(
            f"--bind {text} has no host: write 127.0.0.1:{text} for this machine alone, or "
            f"0.0.0.0:{text} for all its addresses."
        )
    host, separator, port = text.rpartition(":")
    if not separator or text.endswith("]"):
        host, port = text, str(DEFAULT_PORT)
    bare = host.removeprefix("[").removesuffix("]")
    bracketed = host.startswith("[") and host.endswith("]")
    good_port = port.isascii() and port.isdigit() and int(port) <= 65_535
    if not good_port or (":" in bare and not bracketed):
        raise ConfigurationError(
            f"--bind {text!r} is not HOST:PORT: write 127.0.0.1:3000 or [::1]:3000, say."
        )
    return bare or "0.0.0.0", int(port)  # noqa: S104 - that is what a bare port means


def advertised_url(
    asked: str | None, bound: Address, *, host_address: Callable[[], str | None], local: bool
) -> Advertised:
    """Return the URL to advertise for a bound address (scenario: a wildcard is no address).

    `asked` is `--advertise`. `host_address` finds the address under which other machines see this
    one, or None. `local`: everybody is on this machine (DEBUG, or a store that is a local folder).
    Raises ConfigurationError with what to do.
    """
    if asked is not None:
        return _checked(asked, local)
    host, port = bound
    if not _is_wildcard(host):
        return _checked(_url(host, port), local)
    found = host_address()
    if found is not None and not _is_wildcard(found) and not is_loopback(found):
        return Advertised(_url(found, port))
    if local:
        return Advertised(_url("::1" if host == "::" else "127.0.0.1", port))
    raise ConfigurationError(
        f"--bind {host} means every address of this machine, and none was found that other "
        f"machines can reach: name it with --advertise ws://HOST:{port}{PATH}"
    )


def _checked(url: str, local: bool) -> Advertised:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if parts.scheme not in ("ws", "wss") or not host or port == 0:
        raise ConfigurationError(
            f"--advertise {url!r} is not the address of a websocket: write ws://HOST:PORT{PATH} "
            "or, behind a proxy that ends TLS, wss://HOST/…"
        )
    if _is_wildcard(host):
        raise ConfigurationError(
            f"--advertise {url!r}: {host} is not an address that anybody can connect to. "
            "Name this machine's own."
        )
    url = with_path(url)
    if local or not is_loopback(host):
        return Advertised(url)
    return Advertised(
        url,
        f"{url} is advertised, which only this machine can reach: workers and web servers on "
        "others need --bind with this machine's address, or --advertise.",
    )


def own_address() -> str | None:
    """Return the address of the interface that leads out of this machine, or None if none does."""
    # Connecting a datagram socket chooses a route and sends nothing.
    for family, far in ((socket.AF_INET, NOBODYS[4]), (socket.AF_INET6, NOBODYS[6])):
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((far, 9))
                return str(probe.getsockname()[0])
        except OSError:
            continue
    return None


def bind_socket(address: Address) -> socket.socket:
    """Return a listening socket. Raises ConfigurationError with what to do."""
    host, port = address
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        bound = socket.create_server(
            (str(found[0][4][0]), port),
            family=found[0][0],
            backlog=BACKLOG,
            dualstack_ipv6=host == "::" and socket.has_dualstack_ipv6(),
        )
    except OSError as error:
        raise ConfigurationError(f"Cannot listen on {host}:{port}: {_why(error)}") from None
    bound.setblocking(False)
    return bound


def _why(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return "there is no such host. Give --bind an address of this machine."
    if error.errno == errno.EADDRINUSE:
        return "another process listens there. Stop it, or choose another port with --bind."
    if error.errno == errno.EADDRNOTAVAIL:
        return "this machine does not have that address. Give --bind one that it has."
    if error.errno == errno.EACCES:
        return "this user may not use that port. Choose one above 1023 with --bind."
    return f"{error.strerror}."


def _url(host: str, port: int) -> str:
    return f"ws://[{host}]:{port}{PATH}" if ":" in host else f"ws://{host}:{port}{PATH}"


def _is_wildcard(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
