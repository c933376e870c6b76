"""The options of a backend (`TASKS[alias]["OPTIONS"]`, design §8): names, defaults, limits.

What may stand in them beyond the limits here, and how they are read, is in `objq.optionrules`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final, Literal

from objq.core.codec import MAX_TEXT_BYTES
from objq.core.ops import MAX_ATTEMPTS, MAX_RECORD_BYTES, DocumentSettings

KIB: Final = 1024
HOUR_S: Final = 3600.0
DAY_S: Final = 24 * HOUR_S
CENTURY_S: Final = 36_525 * DAY_S


def _seconds(default: float, low: float, high: float) -> float:
    return field(default=default, metadata={"low": low, "high": high})


def _count(default: int, low: int, high: int = 2**53 - 1) -> int:
    return field(default=default, metadata={"low": low, "high": high})


def _choice(default: str, *choices: str) -> str:
    return field(default=default, metadata={"choices": choices})


@dataclass(frozen=True, kw_only=True)
class Options:
    """Every option, in lower case; times in seconds (`_s`), sizes in uncompressed bytes.

    Made by `optionrules.parse`, which validates; the constructor does not.
    """

    storage: str
    """The alias in `STORAGES` of the bucket or folder that holds the document."""
    name: str = "queue.json"
    # A field() says that it is of its default's type, which is any string.
    mode: Literal["broker", "direct"] = _choice("broker", "broker", "direct")  # type: ignore[assignment]
    direct_fallback: bool = True
    """Push by a direct CAS write when no broker answers within half of `enqueue_timeout_s`."""
    broker_url: str | None = None
    """Where the broker is, for processes that cannot read the document; None: it says."""
    heartbeat_timeout_s: float = _seconds(30.0, 0.1, DAY_S)
    """T: a job whose holder was not heard for so long goes to the next worker (S5)."""
    broker_ttl_s: float = _seconds(10.0, 0.1, HOUR_S)
    enqueue_timeout_s: float = _seconds(10.0, 0.1, HOUR_S)
    shutdown_grace_s: float = _seconds(30.0, 0.0, DAY_S)
    max_attempts: int = _count(3, 1, MAX_ATTEMPTS)
    dedupe_window_s: float = _seconds(120.0, 1.0, DAY_S)
    result_ttl_s: float = _seconds(DAY_S, 0.0, CENTURY_S)
    max_finished: int = _count(10_000, 0)
    dead_ttl_s: float = _seconds(30 * DAY_S, 1.0, CENTURY_S)
    max_dead: int = _count(10_000, 1)
    max_jobs: int = _count(1_000_000, 1)
    max_bytes: int = _count(64 * 1024 * KIB, 64 * KIB, MAX_TEXT_BYTES // 2)
    max_job_bytes: int = _count(256 * KIB, KIB, MAX_RECORD_BYTES)
    max_result_bytes: int = _count(64 * KIB, 0, MAX_RECORD_BYTES)
    max_error_bytes: int = _count(16 * KIB, KIB, MAX_RECORD_BYTES // 2)
    max_queues: int = _count(100, 1, 10_000)
    max_clients: int = _count(10_000, 1)
    compress_above: int = _count(256 * KIB, 0)

    def document_settings(self) -> DocumentSettings:
        """Return the part that a leader writes into the document for everybody to follow."""
        mine = asdict(self)
        return DocumentSettings(**{name: mine[name] for name in DocumentSettings.__struct_fields__})


FIELD_BY_OPTION: Final = {f.name.removesuffix("_s").upper(): f.name for f in fields(Options)}
"""Option name, as in settings.py, to field name: `HEARTBEAT_TIMEOUT` to `heartbeat_timeout_s`."""

DEFAULTS: Final[dict[str, Any]] = {
    option: f.default
    for option, f in zip(FIELD_BY_OPTION, fields(Options), strict=True)
    if option != "STORAGE"
}
