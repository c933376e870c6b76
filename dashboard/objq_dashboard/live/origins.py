"""Which pages may open a socket: those from where Django takes forms, by the same settings.

Browsers let any site open a socket to any other and send its cookies along; only the `Origin` that
they put in tells where the page is from. Without one it is no browser, and is refused too.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest
from django.utils.http import is_same_domain


def is_own(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return whether the origin is this very host, which is in ALLOWED_HOSTS, or a trusted one.

    Trusted ones are in CSRF_TRUSTED_ORIGINS. The scheme of this host is not compared: behind a
    proxy that ends TLS it is not known here.
    """
    named = {name.lower(): value.decode("latin-1") for name, value in headers}
    origin = named.get(b"origin", "")
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    if not parts.netloc:  # none, or "null"
        return False
    return parts.netloc.lower() == _host(named) or any(
        _matches(parts.scheme, parts.netloc.lower(), trusted)
        for trusted in settings.CSRF_TRUSTED_ORIGINS
    )


def _host(named: dict[bytes, str]) -> str:
    """Return the host that is asked for, as Django reads it; empty if it is not allowed."""
    request = HttpRequest()
    request.META["HTTP_HOST"] = named.get(b"host", "")
    if b"x-forwarded-host" in named:
        request.META["HTTP_X_FORWARDED_HOST"] = named[b"x-forwarded-host"]
    try:
        return request.get_host().lower()
    except DisallowedHost:
        return ""


def _matches(scheme: str, netloc: str, trusted: str) -> bool:
    """Return whether `https://example.com` or `https://*.example.com` stands for the origin."""
    parts = urlsplit(trusted)
    return scheme == parts.scheme and is_same_domain(netloc, parts.netloc.lower().lstrip("*"))
