"""What each operation does to a job in each state: the table that the tests drive.

`TABLE[state, operation]` is the state afterwards, or the code of the refusal: `claim_lost`,
`conflict` or `not_found`. "absent" is a job that is not in the document. Where more than the state
decides, such as the limit of attempts, both outcomes are named, the usual one first.
"""

from __future__ import annotations

from typing import Final

STATES: Final = ("absent", "scheduled", "ready", "running", "succeeded", "dead", "cancelled")

OPERATIONS: Final = (
    *("push", "claim", "complete", "fail", "release", "expire"),
    *("cancel", "retry", "delete", "run_now"),
)

_NOT_HELD: Final = {
    "complete": "claim_lost",
    "fail": "claim_lost",
    "release": "claim_lost",
    "expire": "no change",
}

_RULES: Final[dict[str, dict[str, str]]] = {
    "absent": {
        "push": "ready or scheduled",
        "claim": "no change",
        **_NOT_HELD,
        **dict.fromkeys(("cancel", "retry", "delete", "run_now"), "not_found"),
    },
    "scheduled": {
        "push": "no change",
        "claim": "no change",
        **_NOT_HELD,
        "cancel": "cancelled",
        "retry": "conflict",
        "delete": "absent",
        "run_now": "ready",
    },
    "ready": {
        "push": "no change",
        "claim": "running",
        **_NOT_HELD,
        "cancel": "cancelled",
        "retry": "conflict",
        "delete": "absent",
        "run_now": "conflict",
    },
    "running": {
        "push": "no change",
        "claim": "no change",
        "complete": "succeeded",
        "fail": "scheduled or dead",
        "release": "ready",
        "expire": "ready or dead",
        "cancel": "running",
        "retry": "conflict",
        "delete": "conflict",
        "run_now": "conflict",
    },
    "succeeded": {
        "push": "no change",
        "claim": "no change",
        **_NOT_HELD,
        "cancel": "conflict",
        "retry": "conflict",
        "delete": "absent",
        "run_now": "conflict",
    },
    "dead": {
        "push": "no change",
        "claim": "no change",
        **_NOT_HELD,
        "cancel": "conflict",
        "retry": "ready",
        "delete": "absent",
        "run_now": "conflict",
    },
    "cancelled": {
        "push": "no change",
        "claim": "no change",
        **_NOT_HELD,
        "cancel": "conflict",
        "retry": "ready",
        "delete": "absent",
        "run_now": "conflict",
    },
}

TABLE: Final[dict[tuple[str, str], str]] = {
    (state, operation): _RULES[state][operation] for state in STATES for operation in OPERATIONS
}
