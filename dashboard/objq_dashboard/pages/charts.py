"""The last hour in lines, and each chart in a sentence for those who cannot see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from django.utils.translation import gettext as _

from objq_dashboard.page import Chart, Series
from objq_dashboard.wording import NOTHING, decimal, rate, seconds

if TYPE_CHECKING:
    from objq.core.ops import HistoryPoint, RecentHistory

    Value = Callable[[HistoryPoint], float | None]


def charts(history: RecentHistory | None) -> dict[str, Chart]:
    """Return the charts by name; none if nothing is remembered of the last hour."""
    if history is None or not history.points:
        return {}
    points = history.points

    def chart(*lines: tuple[str, str, Value]) -> Chart:
        series = (
            Series(label=label, unit=unit, values=tuple(_rounded(value(p)) for p in points))
            for label, unit, value in lines
        )
        return Chart(x=tuple(point.at / 1000 for point in points), series=tuple(series))

    return {
        "rates": chart(
            (_("pushed"), "/s", lambda point: per_second("pushed", point)),
            (_("finished"), "/s", lambda point: per_second("finished", point)),
            (_("failed"), "/s", lambda point: per_second("failed", point)),
        ),
        "depth": chart(
            (_("waiting"), "", lambda point: point.ready),
            (_("running"), "", lambda point: point.running),
            (_("scheduled"), "", lambda point: point.scheduled),
        ),
        "wait": chart(
            (_("p50"), "s", lambda point: point.wait_p50_s),
            (_("p99"), "s", lambda point: point.wait_p99_s),
        ),
        "commit": chart(
            (_("p50"), "s", lambda point: point.commit_p50_s),
            (_("p99"), "s", lambda point: point.commit_p99_s),
        ),
    }


def per_second(name: str, point: HistoryPoint) -> float | None:
    value: int = getattr(point, name)
    return value / point.seconds if point.seconds else None


def said(chart: Chart) -> str:
    """Return the newest and the highest value of each line, in words."""
    parts = []
    for series in chart.series:
        values = [value for value in series.values if value is not None]
        if not values:
            continue
        parts.append(
            _("%(label)s: %(now)s, at most %(most)s")
            % {
                "label": series.label,
                "now": _with_unit(series.values[-1], series.unit),
                "most": _with_unit(max(values), series.unit),
            }
        )
    return "; ".join(parts)


def _with_unit(value: float | None, unit: str) -> str:
    if value is None:
        return NOTHING
    if unit == "/s":
        return rate(value)
    if unit == "s":
        return seconds(value)
    return decimal(value, 0)


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
