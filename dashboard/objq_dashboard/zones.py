"""In which zone times are shown: the site's own choice for this viewer, or the browser's.

Django knows of no viewer's zone. A site that activates one, in a middleware, has decided; where it
has not, the browser's zone is taken, which `zone.js` writes into a cookie.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote
from zoneinfo import ZoneInfo, available_timezones

from django.utils import timezone

if TYPE_CHECKING:
    from django.http import HttpRequest

COOKIE: Final = "objq_zone"


def zone_name(request: HttpRequest) -> str:
    """Return the zone for whoever asks; see `is_chosen`."""
    active = timezone.get_current_timezone_name()
    if is_chosen():
        return active
    return known(unquote(request.COOKIES.get(COOKIE, ""))) or active


def is_chosen() -> bool:
    """Tell whether the site has activated another zone than that of all its viewers."""
    return timezone.get_current_timezone_name() != timezone.get_default_timezone_name()


def known(name: str) -> str:
    """Return the name if there is such a zone, else nothing: names come from browsers."""
    return name if name in _names() else ""


def zone(name: str) -> ZoneInfo | None:
    return ZoneInfo(name) if known(name) else None


@cache
def _names() -> frozenset[str]:
    return frozenset(available_timezones())
