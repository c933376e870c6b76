"""Brokers that start, and that have to stop, while the store has trouble."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.stack import Stack, a_stack, free_port
from tests.http1 import Message
from tests.proxy import Action, Drop, Forward, Proxy, s3_error

HANGS_S = 20.0
"""Longer than a store is waited for."""

TROUBLES: dict[str, Action] = {
    "refused": Drop(),
    "500": s3_error(500, "InternalError"),
    "503": s3_error(503, "SlowDown"),
    "403": s3_error(403, "ExpiredToken"),
}


class Weather:
    """What the store's requests meet; None: nothing."""

    def __init__(self) -> None:
        self.action: Action | None = None

    def __call__(self, request: Message) -> Action | None:
        return self.action


@contextmanager
def a_troubled_stack(
    storage: dict[str, Any], folder: Path, **options: Any
) -> Iterator[tuple[Stack, Weather]]:
    weather = Weather()
    with Proxy(storage["OPTIONS"]["endpoint_url"], weather) as proxy:
        through = {**storage, "OPTIONS": {**storage["OPTIONS"], "endpoint_url": proxy.url}}
        with a_stack(folder, through, options) as stack:
            yield stack, weather


def status(port: int, path: str) -> int | None:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as reply:
            json.load(reply)
            return int(reply.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
    except OSError:
        return None


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_broker_started_in_an_outage_lives_says_so_and_leads_when_it_is_over(
    seaweedfs_storage: dict[str, Any], tmp_path: Path, trouble: str
) -> None:
    with a_troubled_stack(seaweedfs_storage, tmp_path) as (stack, weather):
        weather.action = TROUBLES[trouble]
        port = free_port()
        process = stack.start("broker", "-m", "django", "runbroker", "--bind", f"127.0.0.1:{port}")
        stack.until(lambda: "Waiting for s3://" in stack.logs() or process.poll() is not None)
        assert process.poll() is None, stack.logs()
        assert (status(port, "/healthz"), status(port, "/readyz")) == (200, 503)
        weather.action = None
        assert stack.wait_ready("broker", port)["broker"]
        stack.until(lambda: "Leading at" in stack.logs())
        assert stack.terminate("broker") == 0
        assert stack.logs().count("Waiting for s3://") == 1


def test_a_broker_that_waits_for_its_store_stops_gracefully(
    seaweedfs_storage: dict[str, Any], tmp_path: Path
) -> None:
    with a_troubled_stack(seaweedfs_storage, tmp_path) as (stack, weather):
        weather.action = Drop()
        stack.start("broker", "-m", "django", "runbroker", "--bind", f"127.0.0.1:{free_port()}")
        stack.until(lambda: "Waiting for s3://" in stack.logs())
        assert stack.terminate("broker") == 0


def test_a_leader_whose_store_hangs_ends_with_its_grace_and_says_that_it_has_not_stepped_down(
    seaweedfs_storage: dict[str, Any], tmp_path: Path
) -> None:
    with a_troubled_stack(seaweedfs_storage, tmp_path, SHUTDOWN_GRACE=1) as (stack, weather):
        leader, standby = free_port(), free_port()
        stack.leader("leader", leader)
        stack.broker("standby", standby)
        weather.action = Forward(delay_s=HANGS_S)
        assert stack.terminate("leader", timeout_s=HANGS_S / 2) == 1
        assert "has not stepped down" in stack.logs()
        assert stack.terminate("standby", timeout_s=HANGS_S / 2) == 0
