"""The kinds of values that operations and records are made of, with their limits."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from msgspec import Meta, Raw

Position = tuple[int, int, int]
"""(epoch, seq, index in the batch) of the commit that holds an effect."""

JobState = Literal["scheduled", "ready", "running", "succeeded", "dead", "cancelled"]

MAX_JOB_ID: Final = 63
MAX_NAME: Final = 64
"""Characters of a name (of a queue, a worker, a client), of a token and of a claim's id."""

MAX_TASK: Final = 256
"""Characters of a task's dotted path."""

MAX_ATTEMPTS: Final = 100
MAX_ITEMS: Final = 10_000
"""Of jobs, tokens or ids in one request."""

MAX_GRANTS: Final = 1000
"""Jobs that one claim may ask for."""

MAX_LOOKED_UP: Final = 1000
"""Jobs that one `get` may ask for."""

MAX_PAGE: Final = 200
"""Jobs that one `list` may ask for."""

MAX_QUEUES: Final = 100
"""Queues that one claim, one filter or one worker may name."""

MAX_RETRY_AFTER_S: Final = 31_536_000.0
"""A year: the longest pause before the next attempt of a job."""

MAX_RECORD_BYTES: Final = 900_000
"""The most that one job or result may be allowed: a frame of the wire, less what is around it."""

REQUEST_PATTERN: Final = r"^([0-9]{1,19}-[A-Za-z0-9_-]{1,40}):([0-9]{1,12})\Z"
"""`<seq>-<random>:<number>`, of which what is before the colon is the prefix (S7)."""

_PRINTABLE: Final = r"^[^\x00-\x1f\x7f]*\Z"

JobId = Annotated[str, Meta(min_length=1, max_length=MAX_JOB_ID)]
Token = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
ClaimId = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
RequestId = Annotated[str, Meta(max_length=80, pattern=REQUEST_PATTERN)]
QueueName = Annotated[str, Meta(min_length=1, max_length=MAX_NAME, pattern=_PRINTABLE)]
WorkerName = Annotated[str, Meta(max_length=MAX_NAME, pattern=_PRINTABLE)]
TaskPath = Annotated[str, Meta(min_length=1, max_length=MAX_TASK)]
Priority = Annotated[int, Meta(ge=-100, le=100)]
Millis = Annotated[int, Meta(ge=0, le=253402300799999)]  # to the end of the year 9999

QUEUE_NAMES: Final = f"1 to {MAX_NAME} characters, none of them a control character"
"""What `is_queue_name` asks for, in words."""

EMPTY_LIST = Raw(b"[]")
EMPTY_DICT = Raw(b"{}")


def is_queue_name(value: object) -> bool:
    """Tell whether a value is a `QueueName`, where nothing is decoded that would refuse it."""
    return (
        isinstance(value, str)
        and 1 <= len(value) <= MAX_NAME
        and re.match(_PRINTABLE, value) is not None
    )
