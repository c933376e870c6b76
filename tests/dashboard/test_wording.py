from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone, translation

from objq_dashboard import wording


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0.0 s"), (0, "0.0 s"), (0.04, "0.0 s"), (0.44, "0.4 s"), (0.96, "1.0 s"),
        (9.94, "9.9 s"), (9.97, "10 s"), (12.9, "12 s"), (59.97, "1 min"),
        (60, "1 min"), (3_599, "59 min"), (3_600, "1 h"), (90_000, "1 d"), (10**9, "11,574 d"),
    ],
)  # fmt: skip
def test_age(seconds: float, text: str) -> None:
    assert wording.age(seconds) == text.replace(" ", wording.SPACE)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1536, "1.5 KiB"),
        (1995, "1.9 KiB"),
        (5 * 2**20, "5.0 MiB"),
        (2**41, "2,048.0 GiB"),
    ],
)
def test_size(size: int, text: str) -> None:
    assert wording.size(size) == text.replace(" ", wording.SPACE)


@pytest.mark.parametrize(
    ("per_second", "text"),
    [
        (0, "0 /s"), (0.0003, "< 0.01 /s"), (0.0333, "0.03 /s"), (0.1, "0.10 /s"),
        (0.967, "0.97 /s"), (1.96, "2.0 /s"), (9.94, "9.9 /s"), (12.6, "13 /s"),
        (12_345.6, "12,346 /s"),
    ],
)  # fmt: skip
def test_a_rate_above_zero_never_reads_like_zero(per_second: float, text: str) -> None:
    assert wording.rate(per_second) == text.replace(" ", wording.SPACE)


@pytest.mark.parametrize(
    ("value_s", "text"),
    [
        (0.00001, "< 0.1 ms"), (0.00478, "4.8 ms"), (0.0396, "40 ms"), (0.216, "0.22 s"),
        (12, "12 s"),
    ],
)  # fmt: skip
def test_a_short_time(value_s: float, text: str) -> None:
    assert wording.seconds(value_s) == text.replace(" ", wording.SPACE)


def test_numbers_follow_the_language() -> None:
    with translation.override("de"):
        assert wording.number(1_234_567) == "1.234.567"
        assert wording.age(1.25) == f"1,2{wording.SPACE}s"


def test_moment_has_the_date_only_when_it_is_another_day() -> None:
    assert wording.utc(1_764_430_000_123) == "2025-11-29 15:26:40 UTC"
    assert wording.moment(1_764_430_000_123).endswith("26:40")
    assert len(wording.moment(0)) > len("00:00:00")


def test_a_moment_that_a_zone_leads_beyond_the_last_year_is_told_all_the_same() -> None:
    with timezone.override(ZoneInfo("Asia/Tokyo")):
        assert wording.moment(253_402_300_799_999).startswith("9999-12-31")
