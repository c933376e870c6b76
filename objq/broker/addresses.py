"""What a broker's address says by itself, and whether this very process has bound it (design §3).

If it has, nobody else can be listening there, so the recorded process is gone: a restart in place.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import Final
from urllib.parse import urlsplit

DEFAULT_PORTS: Final = {"ws": 80, "wss": 443}

NOBODYS: Final = {4: "192.0.2.1", 6: "2001:db8::1"}
"""Addresses, by version, that are for documentation only: no machine has them."""

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


def is_brokers_own(url: str) -> bool:
    """Tell whether the port at the address is the broker's own, so that a refusal is its end.

    A `wss://` port is that of the proxy which ends TLS: whether it refuses says nothing of the
    broker behind it, and the port that the broker itself has bound may be anybody's elsewhere.
    """
    return url.partition(":")[0].lower() == "ws"


def is_bound_here(url: str, bound: tuple[str, int] | None) -> bool:
    """Tell whether host and port of `url` are those of `bound`, the listening address, if any."""
    if bound is None:
        return False
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        return False
    address, listening = _address(host), _address(bound[0])
    if port != bound[1] or not is_brokers_own(url) or address is None or listening is None:
        return False
    if not listening.is_unspecified:
        return address == listening and _is_held(address)
    return address.is_loopback or (_can_bind(address) and _is_held(address))


def leads_here(url: str) -> bool:
    """Tell whether an address means the machine (or the container) that uses it, and no other."""
    try:
        return is_loopback(urlsplit(url).hostname or "")
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    """Tell whether a host, by address or name, is the machine that uses it."""
    address = _address(host)
    return host.endswith(".localhost") if address is None else address.is_loopback


def _address(host: str) -> IPAddress | None:
    if host == "localhost":
        host = "127.0.0.1"
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None  # a name may lead anywhere, also one below .localhost, in spite of the rule


def _is_held(address: IPAddress) -> bool:
    """Tell whether this machine has an address that it can bind.

    Linux lets every address be bound where `ip_nonlocal_bind` is set, for floating addresses: then
    another machine may have it.
    """
    return address.is_loopback or not _can_bind(ipaddress.ip_address(NOBODYS[address.version]))


def _can_bind(address: IPAddress) -> bool:
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True
