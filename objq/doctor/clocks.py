"""How far is this machine's clock from the store's and the broker's?

Nothing that a promise rests on compares two machines' clocks. What suffers from a wrong one is
`run_after`, which goes by the leader's, tokens with a time to live, and times on a page; and S3
refuses signatures that are a quarter of an hour off.
"""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import urlsplit

from objq.clock import Clock
from objq.doctor.findings import Finding, ok, skipped, warning
from objq.durations import in_words

MOST_S: Final = 2.0
TIMEOUT_S: Final = 3.0
DATE_RESOLUTION_S: Final = 1.0
ADVICE: Final = "Keep the clocks of all machines in step with NTP."

SECURE: Final = {"https": True, "wss": True, "http": False, "ws": False}


def check_clock(
    check: str, whose: str, url: str | None, path: str, clock: Clock
) -> Iterator[Finding]:
    """Compare with the header `Date` of whatever answers at `path` of the URL's host and port."""
    if url is None:
        yield skipped(check, f"{whose} has no clock of its own.")
        return
    try:
        skew_s = measure_skew_s(url, path, clock)
    except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
        yield skipped(check, f"{whose} does not tell its time ({error}).")
        return
    if abs(skew_s) <= MOST_S:
        yield ok(check, f"{whose} and this machine agree within {MOST_S:g} s.")
        return
    behind = "behind" if skew_s > 0 else "ahead of"
    told = in_words(abs(skew_s))
    yield warning(check, f"This machine's clock is {told} {behind} {whose.lower()}'s.", ADVICE)


def measure_skew_s(url: str, path: str, clock: Clock) -> float:
    """Return by how many seconds the other clock is ahead; 0 if that may be the answer's travel.

    Raises OSError, HTTPException, ValueError and KeyError.
    """
    before_s = clock.wall_ms() / 1000
    date = _date_header(url, path)
    after_s = clock.wall_ms() / 1000
    theirs_s = parsedate_to_datetime(date).timestamp()
    least, most = theirs_s - after_s, theirs_s + DATE_RESOLUTION_S - before_s
    if least <= 0 <= most:
        return 0.0
    return least if least > 0 else most


def _date_header(url: str, path: str) -> str:
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if SECURE[parts.scheme] else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", path, headers={"Connection": "close"})
        date = connection.getresponse().getheader("Date")
    finally:
        connection.close()
    if date is None:
        raise ValueError("the answer has no Date")
    return date
