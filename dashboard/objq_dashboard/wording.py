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


def rate(per_second: float) -> str:
    """Return a rate per second, with a digit after the point where it is small."""
    exact = number_format(per_second, decimal_pos=1) if per_second < 10 else number(int(per_second))
    return f"{exact}{SPACE}/s"


def decimal(value: float) -> str:
    return str(number_format(value, decimal_pos=1, use_l10n=True, force_grouping=True))


def seconds(value_s: float) -> str:
    """Return a short time exactly: `4 ms`, `0.21 s`, `12 s`."""
    if value_s < 0.1:
        return f"{number_format(value_s * 1000, decimal_pos=0 if value_s >= 0.01 else 1)}{SPACE}ms"
    return f"{number_format(value_s, decimal_pos=2)}{SPACE}s" if value_s < 10 else age(value_s)


def age(seconds: float) -> str:
    """Return `0.4 s`, `12 s`, `3 min`, `5 h` or `2 d`, all on one line.

    It is `0.0 s` if the clock that the time came from is ahead of ours.
    """
    seconds = max(seconds, 0.0)
    for size_s, unit in UNITS:
        if seconds >= size_s:
            return f"{number(int(seconds // size_s))}{SPACE}{unit}"
    exact = number_format(seconds, decimal_pos=1) if seconds < 10 else int(seconds)
    return f"{exact}{SPACE}s"


def size(size_bytes: int) -> str:
    value = float(size_bytes)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{number_format(value, decimal_pos=0 if unit == 'B' else 1)}{SPACE}{unit}"
        value /= 1024
    return f"{number_format(value, decimal_pos=1)}{SPACE}GiB"


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
