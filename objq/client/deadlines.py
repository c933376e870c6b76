"""How long a request may take, and what an operator is told when that was not enough (S7, S12)."""

from __future__ import annotations

import math

from msgspec import UNSET, UnsetType

from objq.core import ops
from objq.core.document import Header
from objq.errors import Invalid, ObjqError, Unavailable


def limit_of(
    op: ops.Op, timeout_s: float | None | UnsetType, default_s: float, window_s: float
) -> float | None:
    """Return the seconds that a request may take; None: for ever, as reports of outcomes may.

    `window_s`: of `DEDUPE_WINDOW`; no deadline exceeds it. Raises Invalid.
    """
    if timeout_s is None:
        if not isinstance(op, ops.REPORTS):
            raise Invalid(f"A {ops.op_name(op)} needs a deadline: pass timeout_s.")
        return None
    if timeout_s is UNSET:
        wait_s = op.wait if isinstance(op, ops.TakeClaim) else 0.0
        return min(default_s, window_s) + wait_s
    if not 0 <= timeout_s < math.inf:
        raise Invalid(f"A timeout_s of {timeout_s:g} is no deadline: give 0 or more seconds.")
    if hasattr(op, "request") and timeout_s > window_s:
        raise Invalid(
            f"A timeout_s of {timeout_s:g} is beyond DEDUPE_WINDOW ({window_s:g} s), after which "
            "the request could not be repeated safely."
        )
    return timeout_s


def in_the_way(header: Header | None, why: ObjqError | None) -> Unavailable | None:
    """Tell of a broker that is recorded and does not answer a direct process, and `why`."""
    if header is None or header.broker is None:
        return None
    reason = f" {why.message}" if why is not None else ""
    return Unavailable(
        f"queue.json names the broker at {header.broker.url}, which does not answer.{reason} "
        "While a broker is named, direct processes only push: start manage.py runbroker, which "
        "takes over, and stop it again to go on without a broker."
    )
