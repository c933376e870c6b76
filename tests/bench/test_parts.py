"""The benchmarks run, and give the figures that they promise; what these are is not tested."""

from __future__ import annotations

import asyncio

import pytest

from bench import dashboard, group_commit, growth, onlooking


def test_growth_measures_all_that_its_table_shows() -> None:
    row = growth.measure(1000)
    assert set(growth.KEYS) == set(row)
    assert row["jobs"] == 1000
    assert all(row[key] > 0 for key in ("push_us", "claim_us", "complete_us", "take_over_s"))


def test_group_commit_measures_a_real_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "WARM_UP_S", 0.5)
    monkeypatch.setattr(group_commit, "MEASURE_S", 1.0)
    row = asyncio.run(group_commit.measure(20, 0.02))
    assert row["clients"] == 20
    assert row["pushes_per_s"] > 0
    assert row["max_in_flight"] == 1
    assert row["drained_per_s"] > 0


def test_dashboard_opens_every_page_and_looks_on(monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"JOBS": 3000, "DEAD": 1000, "FINISHED": 1000, "PAGE_ROUNDS": 1, "STALE_S": 0.0}
    short = {"CLIENTS": 10, "PAIRS": 2, "WARM_UP_S": 0.5, "MEASURE_S": 1.0}
    for module, values in ((dashboard, small), (onlooking, short)):
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)
    figures = asyncio.run(dashboard.measure())
    assert set(figures["pages_ms"]) == set(dashboard.PAGES)
    pushing = figures["pushing"]
    assert pushing["pairs"] == 2
    assert min(pushing["pushes_per_s"]) > 0
    assert pushing["messages_per_s"][1] > pushing["messages_per_s"][0] == 0
