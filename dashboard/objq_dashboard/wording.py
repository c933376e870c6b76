"""Numbers, ages and times as people read them, in the language and zone that is active."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from django.utils import timezone
from django.utils.formats import date_format, number_format

NOTHING: Final = "—"
SPACE: Final = "\N{NO-BREAK SPACE}"

UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))


def number(value: int) -> str:
    return str(number_format(value, use_l10n=True, force_grouping=True))


def decimal(value: float, digits: int = 1) -> str:
    """Return a number with so many digits after the point; above 0 it never reads like 0."""
    rounded = round(value, digits)  # Django would cut the other digits off
    least = f"<{SPACE}" if value > 0 and not rounded else ""
    shown = 10.0**-digits if least else rounded
    exact = number_format(shown, decimal_pos=digits, use_l10n=True, force_grouping=True)
    return f"{least}{exact}"


def rate(per_second: float) -> str:
    """Return a rate per second, the more exactly the slower it is."""
    digits = 0 if per_second >= 10 or not per_second else 1 if per_second >= 1 else 2
    return f"{decimal(per_second, digits)}{SPACE}/s"


def seconds(value_s: float) -> str:
    """Return a short time exactly: `4 ms`, `0.21 s`, `12 s`."""
    if value_s < 0.1:
        return f"{decimal(value_s * 1000, 0 if value_s >= 0.01 else 1)}{SPACE}ms"
    return f"{decimal(value_s, 2)}{SPACE}s" if value_s < 10 else age(value_s)


def age(seconds: float) -> str:
    """Return `0.4 s`, `12 s`, `3 min`, `5 h` or `2 d`, all on one line.

    It is `0.0 s` just now, and if the clock that the time came from is ahead of ours.
    """
    seconds = round(max(seconds, 0.0), 1)
    for size_s, unit in UNITS:
        if seconds >= size_s:
            return f"{number(int(seconds // size_s))}{SPACE}{unit}"
    return f"{decimal(seconds) if seconds < 10 else number(int(seconds))}{SPACE}s"


def size(size_bytes: int) -> str:
    value = float(size_bytes)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{decimal(value, 0 if unit == 'B' else 1)}{SPACE}{unit}"
        value /= 1024
    return f"{decimal(value)}{SPACE}GiB"


def moment(at_ms: int) -> str:
    """Return the time of day in the viewer's zone, with the date if it is not today.

    It is in UTC if the zone leads beyond the year 9999.
    """
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    try:
        local = timezone.localtime(at)
    except OverflowError:
        local = at
    return date_format(local, "H:i:s" if local.date() == timezone.localdate() else "Y-m-d H:i:s")


def utc(at_ms: int) -> str:
    """Return the exact time in UTC, for a title."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
