"""What may be given as a deadline."""

from __future__ import annotations

import math

import pytest
from msgspec import UNSET, UnsetType

from objq.client.deadlines import limit_of
from objq.core import ops
from objq.errors import Invalid

PUSH = ops.Push(request="", jobs=(ops.NewJob(id="job-1", task="shop.tasks.send"),))
GET = ops.Get(ids=("job-1",))
CLAIM = ops.TakeClaim(claim="", wait=5.0)
REPORT = ops.Complete(items=())


@pytest.mark.parametrize("op", [PUSH, GET, CLAIM, REPORT])
@pytest.mark.parametrize("timeout_s", [math.nan, math.inf, -math.inf, -0.001, -5])
def test_what_is_no_number_of_seconds_is_refused(op: ops.Op, timeout_s: float) -> None:
    with pytest.raises(Invalid, match=rf"A timeout_s of {timeout_s:g} is no deadline"):
        limit_of(op, timeout_s, 10.0, 120.0)


@pytest.mark.parametrize(
    ("op", "timeout_s", "limit_s"),
    [
        (PUSH, 0, 0),
        (PUSH, 120, 120),
        (GET, 1000.0, 1000.0),
        (REPORT, None, None),
        (PUSH, UNSET, 10.0),
        (CLAIM, UNSET, 15.0),
    ],
)
def test_what_is_a_deadline(
    op: ops.Op, timeout_s: float | None | UnsetType, limit_s: float | None
) -> None:
    assert limit_of(op, timeout_s, 10.0, 120.0) == limit_s
