"""Is a recorded broker's address one that this very process has bound? (design §3 'Take-over')

If it is, nobody else can be listening there, so the recorded process is gone: a restart in place.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import Final
from urllib.parse import urlsplit

DEFAULT_PORTS: Final = {"ws": 80, "wss": 443}


def is_bound_here(url: str, bound: tuple[str, int] | None) -> bool:
    """Tell whether host and port of `url` are those of `bound`, the listening address, if any.

    A proxy's address is never one: the port behind it may be anybody's.
    """
    if bound is None:
        return False
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        return False
    if port != bound[1] or parts.scheme != "ws":
        return False
    if host == bound[0]:
        return True
    address, listening = _address(host), _address(bound[0])
    if address is None or listening is None:
        return False
    if listening.is_unspecified:
        return address.is_loopback or _has_address(address)
    return address == listening


def leads_here(url: str) -> bool:
    """Tell whether an address means the machine (or the container) that uses it, and no other."""
    try:
        address = _address(urlsplit(url).hostname or "")
    except ValueError:
        return False
    return address is not None and address.is_loopback


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    if host == "localhost":
        host = "127.0.0.1"
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None  # a name may lead anywhere


def _has_address(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True
