"""Does the store keep its word? Asked once, before a broker trusts it.

Each check is on an object of the probe's own, `<name>.probe-<random>`. Passing does not prove that
the store compares and writes in one step; eight racing writers make a store that does not likely to
show.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Final, NoReturn, Protocol, runtime_checkable

from objq.errors import ConfigurationError
from objq.ids import Ids
from objq.store.base import (
    ABSENT,
    Ambiguous,
    Conflict,
    Content,
    Denied,
    Expect,
    Missing,
    Sentinel,
    Store,
    Tag,
    Throttled,
    TooLarge,
    Unavailable,
    Unsupported,
)
from objq.store.trials import THROTTLE_ATTEMPTS, Litter, Pace

ATTEMPTS: Final = 5
"""How often the probe starts over when a lost reply leaves it without an answer."""
RACERS: Final = 8

ADVICE: Final = (
    "Two writers would overwrite each other's jobs, so objq does not use it. Use a store that "
    "honours If-Match and If-None-Match on writes: AWS S3, Cloudflare R2, MinIO, Ceph, SeaweedFS, "
    "Google Cloud Storage, Azure Blob Storage, or a local folder."
)

NOT_APPLIED: Final = (Denied, Missing, Throttled, TooLarge, Unavailable)
"""What a write ends with that has surely left nothing."""


class ProbeFailed(ConfigurationError):
    """The store does not refuse what it must refuse; the message names it and says what to do."""


@runtime_checkable
class Quoting(Protocol):
    """A store that can send its tags in two ways."""

    def toggle_quoting(self) -> None: ...


def probe(store: Store, ids: Ids | None = None, litter: Litter | None = None) -> None:
    """Check that the store refuses stale writes and second creations, and learn its quoting.

    Blocks for well under a second, or a few where the store's pace is slow. Removes what it wrote;
    what it cannot remove is logged, or stays in `litter` for another probe, which removes it first.
    Raises ProbeFailed if the store does not keep its word; Denied, Missing, Throttled, TooLarge or
    Unavailable if it could not be asked, and Ambiguous if too many replies were lost.
    """
    kept = Litter() if litter is None else litter
    try:
        _probe(store, ids or Ids(), kept)
    finally:
        if litter is None:
            kept.complain()


def _probe(store: Store, ids: Ids, litter: Litter) -> None:
    for attempts_left in reversed(range(ATTEMPTS)):
        if (problem := litter.clear()) is not None:
            raise problem
        trial = store.sibling(f".probe-{ids.token()}")
        try:
            _check(store.name, trial, store.pace_s, litter)
            return
        except Ambiguous:
            if attempts_left == 0:
                raise
        except Unsupported as exc:
            raise ProbeFailed(f"{store.name} has no conditional writes ({exc}). {ADVICE}") from exc
        finally:
            litter.clear()


def _check(name: str, trial: Store, pace_s: float, litter: Litter) -> None:
    pace = Pace(pace_s)
    pace.call(trial.read)  # where that fails nothing is written, which might have to stay behind
    litter.note(trial)
    try:
        first = _create(name, pace, trial)
    except NOT_APPLIED:
        litter.forget(trial)
        raise
    if _accepted(pace, trial, b"second", ABSENT):
        _fail(name, "creates an object a second time, ignoring If-None-Match: *")
    _expect_content(name, pace, trial, b"first")
    second = _rewrite(name, pace, trial, first)
    _expect_content(name, pace, trial, b"rewritten")
    if _accepted(pace, trial, b"stale", first):
        _fail(name, "overwrites an object that has changed, ignoring If-Match")
    _expect_content(name, pace, trial, b"rewritten")
    _race(name, pace, trial, second)
    absent = trial.sibling("-absent")
    litter.note(absent)
    if _accepted(pace, absent, b"from nothing", first):
        _fail(name, "creates an object where If-Match names one that is not there")
    if pace.call(absent.read) is not None:
        _fail(name, "creates an object although it refuses to")


def _create(name: str, pace: Pace, trial: Store) -> Tag:
    try:
        return pace.write(trial, b"first", ABSENT)
    except Conflict:
        _fail(name, "refuses to create an object that is not there, with If-None-Match: *")


def _rewrite(name: str, pace: Pace, trial: Store, tag: Tag) -> Tag:
    """Write with the current tag, which has to succeed; try the other quoting before giving up."""
    try:
        return pace.write(trial, b"rewritten", tag)
    except Conflict:
        if not isinstance(trial, Quoting):
            _fail(name, "refuses a write with the object's own tag")
    trial.toggle_quoting()
    try:
        return pace.write(trial, b"rewritten", tag)
    except Conflict:
        trial.toggle_quoting()
        _fail(name, "refuses a write with the object's own tag, quoted or not")


def _race(name: str, pace: Pace, trial: Store, tag: Tag) -> None:
    """Let eight threads write at once with the same tag: exactly one may succeed."""
    entries = [b"racer %d" % number for number in range(RACERS)]

    def run(data: bytes) -> str:
        try:
            trial.write(data, tag)
        except Conflict:
            return "lost"
        except (Ambiguous, Throttled, Unavailable):
            return "unknown"
        return "won"

    for _ in range(THROTTLE_ATTEMPTS):
        pace.wait()
        with ThreadPoolExecutor(RACERS, thread_name_prefix="objq-probe") as pool:
            outcomes = dict(zip(entries, pool.map(run, entries), strict=True))
        winners = [data for data, outcome in outcomes.items() if outcome == "won"]
        content = pace.call(trial.read)
        if len(winners) > 1:
            _fail(name, f"let {len(winners)} of {RACERS} racing writers win with the same tag")
        found = content.data if isinstance(content, Content) else b""
        if winners and found != winners[0]:
            _fail(name, "let a second writer overwrite the one that it told it had won")
        if found in entries:
            return
        if "unknown" not in outcomes.values():
            _fail(name, "refuses every one of several racing writers with the current tag")
    raise Throttled(f"{name} throttles the probe.")


def _accepted(pace: Pace, trial: Store, data: bytes, expect: Expect) -> bool:
    try:
        pace.call(lambda: trial.write(data, expect))
    except Conflict:
        return False
    return True


def _expect_content(name: str, pace: Pace, trial: Store, data: bytes) -> None:
    content = pace.call(trial.read)
    if isinstance(content, Sentinel) or content is None or content.data != data:
        _fail(name, "does not return the bytes that were last written")


def _fail(name: str, what: str) -> NoReturn:
    raise ProbeFailed(f"{name}: this store {what}. {ADVICE}")
