"""Schema 1, field by field: whoever adds one needs a new schema number (design §5, promise S14).

An older process takes a field that it does not know for damage, and cannot say what to do about it.
"""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest

from objq.core import codec, document, ops, requests
from tests.core.world import World

HEADER = ["objq", "document", "seq", "epoch", "commit", "at", "uptime_ms", "broker", "challenge"]
REST = {"jobs", "dead", "finished", "settings", "queues", "requests", "totals"}

RECORDS: dict[Any, set[str]] = {
    ops.JobView: {
        *("id", "queue", "task", "args", "kwargs", "state", "pushed_at", "priority", "run_after"),
        *("attempts", "max_attempts", "alone", "cancel_requested", "claim", "history", "result"),
        *("result_dropped", "reason", "finished_at", "kept_from_ms"),
    },
    ops.Claim: {
        *("token", "id", "worker", "claimed_at", "heartbeat_at", "heartbeat_seq", "epoch"),
        *("started_at", "alone"),
    },
    ops.Attempt: {
        *("token", "claim", "worker", "claimed_at", "ended_at", "outcome", "started_at", "error"),
    },
    ops.JobError: {"type", "message", "traceback"},
    ops.BrokerInfo: {"id", "url", "since", "version"},
    ops.Challenge: {"id", "by", "at"},
    ops.DocumentSettings: {
        *("heartbeat_timeout_s", "broker_ttl_s", "dedupe_window_s", "result_ttl_s", "dead_ttl_s"),
        *("max_finished", "max_dead", "max_jobs", "max_bytes", "max_job_bytes"),
        *("max_result_bytes", "max_error_bytes", "max_queues", "max_clients", "compress_above"),
    },
    document.Totals: {
        *("pushed", "retried", "claimed", "succeeded", "failed", "dead", "expired", "cancelled"),
        "deleted",
    },
    document.QueueState: {"paused"},
    requests.Remembered: {"used_at", "done", "refused"},
}


def test_the_schema_has_the_number_that_these_fields_belong_to() -> None:
    assert codec.SCHEMA == 1


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_no_field_came_or_went_without_a_new_schema(record: Any) -> None:
    assert set(record.__struct_fields__) == RECORDS[record]


def test_no_part_of_the_file_came_or_went_without_a_new_schema() -> None:
    world = World()
    world.push("j")
    file = json.loads(world.reload())
    assert list(file)[: len(HEADER)] == HEADER
    assert set(file) - set(HEADER) == REST
    assert set(file["requests"]) == {"forgotten", "clients"}


def test_the_lookups_are_the_operations_of_that_kind() -> None:
    assert get_args(ops.Lookup) == ops.LOOKUPS
