"""Schema 1 as it stands in the file: whoever adds a field here needs a new schema number (S14).

A process passes over what it does not know and would drop it with its next write.
"""

from __future__ import annotations

import json

import msgspec
import pytest

from objq.core import ops
from objq.core.codec import SCHEMA
from objq.core.requests import Remembered
from objq.core.totals import Totals
from tests.core.world import World

TOP = {
    "objq", "document", "seq", "epoch", "commit", "at", "uptime_ms", "broker", "challenge",
    "jobs", "dead", "finished", "settings", "queues", "requests", "totals",
}  # fmt: skip
