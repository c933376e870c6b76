"""What may stand in `OPTIONS`: every problem is found in one pass.

Each carries the id of the check that reports it, so that `manage.py check` lists them all, while
`parse` raises the lot as one `ConfigurationError`.

A default never contradicts what was configured: where an option that is left out must not exceed
another one (`BOUNDS`), its default is lowered to that.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from objq.errors import ConfigurationError
from objq.options import DEFAULTS, FIELD_BY_OPTION, Options

MAX_NAME_BYTES: Final = 900

WIRE_PATH: Final = "/objq/v1/"

BESIDE: Final = ("BACKEND", "QUEUES", "OPTIONS")
"""What Django reads in an entry of `TASKS`; it passes over everything else without a word."""


class Problem(NamedTuple):
    """Something wrong in the options. `check` is the number of the check that reports it."""

    check: str
    message: str
    hint: str


class Bound(NamedTuple):
    """`option` must not exceed `limit` times `times`."""

    option: str
    limit: str
    times: float
    why: str


BOUNDS: Final = (
    Bound(
        "BROKER_TTL",
        "HEARTBEAT_TIMEOUT",
        2,
        "a leader reads the document every BROKER_TTL/4, and has to within HEARTBEAT_TIMEOUT/2",
    ),
    Bound(
        "ENQUEUE_TIMEOUT",
        "DEDUPE_WINDOW",
        1,
        "a push could be repeated after the document has forgotten its request id",
    ),
    # So a job that has ended is within the eighth that is kept of its kind (`KEPT_SHARE`), with its
    # arguments, its result and the errors of its attempts (`ERRORS_SHARE`).
    Bound("MAX_JOB_BYTES", "MAX_BYTES", 1 / 16, "one job would fill what is kept of dead jobs"),
    Bound("MAX_RESULT_BYTES", "MAX_BYTES", 1 / 32, "one result would fill what is kept of results"),
    Bound("MAX_ERROR_BYTES", "MAX_BYTES", 1 / 64, "one error would fill what is kept of a job's"),
)


def parse(
    raw: Mapping[str, object], *, alias: str = "default", beside: Collection[str] = ()
) -> Options:
    """Return what `OPTIONS` of a backend says; raise ConfigurationError with all problems.

    `beside`: what stands in the backend's entry of `TASKS`, where options are not looked for.
    """
    problems = find_problems(raw, beside)
    if problems:
        listed = "\n".join(f"  {problem.message} {problem.hint}" for problem in problems)
        raise ConfigurationError(f'TASKS["{alias}"]["OPTIONS"] cannot work:\n{listed}')
    values: dict[str, Any] = {
        FIELD_BY_OPTION[option]: float(value) if isinstance(DEFAULTS.get(option), float) else value
        for option, value in complete(raw).items()
    }
    return Options(**values)


def find_problems(raw: object, beside: Collection[str] = ()) -> list[Problem]:
    """Return everything that is wrong with `OPTIONS`, in the order of the check ids.

    See `parse` for `beside`.
    """
    if not isinstance(raw, Mapping):
        return [Problem("E002", f"OPTIONS is {_kind(raw)}, not a dictionary.", "Write {...}.")]
    problems = [_unknown(key) for key in raw if key not in FIELD_BY_OPTION]
    known = {key: value for key, value in raw.items() if key in FIELD_BY_OPTION}
    wrong = [problem for key in known if (problem := _check_value(key, known[key])) is not None]
    problems += wrong or _check_combinations(known)
    for key in beside:
        if key in FIELD_BY_OPTION and key not in raw:
            check = "E005" if key == "STORAGE" else "E001"
            message = f"The option {key} stands beside OPTIONS, where it is not read."
            problems.append(Problem(check, message, "Move it into OPTIONS."))
        elif key not in FIELD_BY_OPTION and key not in BESIDE:
            message = f"Unknown key {key!r} beside OPTIONS."
            problems.append(Problem("E001", message, did_you_mean(key, BESIDE)))
    if "STORAGE" not in raw and "STORAGE" not in beside:
        hint = "Name the alias in STORAGES of the bucket or folder that is to hold the queue."
        problems.append(Problem("E005", "The option STORAGE is missing.", hint))
    return sorted(problems, key=lambda problem: problem.check)


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """Return a sentence with the closest known name, or with all of them."""
    by_upper = {name.upper(): name for name in sorted(known)}
    close = difflib.get_close_matches(str(word).upper(), by_upper, n=1, cutoff=0.6)
    if close:
        return f"Did you mean {by_upper[close[0]]}?"
    return f"Known are: {', '.join(by_upper.values())}." if by_upper else "There are none."


def _unknown(key: object) -> Problem:
    if key in BESIDE:
        message = f"{key} stands inside OPTIONS, where it is not read."
        return Problem("E001", message, "Move it out: its place is beside OPTIONS.")
    return Problem("E001", f"Unknown option {key!r}.", did_you_mean(key, FIELD_BY_OPTION))


def _check_value(key: str, value: object) -> Problem | None:
    spec = next(f for f in fields(Options) if f.name == FIELD_BY_OPTION[key])
    if "low" in spec.metadata:
        return _check_number(key, value, spec.metadata["low"], spec.metadata["high"])
    if key == "BROKER_URL" and value is None:
        return None
    wanted, name = (bool, "True or False") if key == "DIRECT_FALLBACK" else (str, "a string")
    if not isinstance(value, wanted):
        return Problem("E002", f"{key} is {_kind(value)}, not {name}.", _write(key))
    wrong = (
        _wrong_text(key, value, spec.metadata.get("choices")) if isinstance(value, str) else None
    )
    return Problem("E003", f"{key} = {value!r} {wrong}.", _write(key)) if wrong else None


def _check_number(key: str, value: object, low: float, high: float) -> Problem | None:
    whole = isinstance(DEFAULTS[key], int)
    unit = "" if whole else " seconds"
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        kind = "a whole number" if whole else "a number of seconds"
        return Problem("E002", f"{key} is {_kind(value)}, not {kind}.", _write(key))
    if not low <= value <= high:  # also for NaN
        message = f"{key} = {value!r} is out of range."
        return Problem("E003", message, f"It must be from {low:,g} to {high:,.15g}{unit}.")
    return None


def _wrong_text(key: str, value: str, choices: Sequence[str] | None) -> str | None:
    """Return what is wrong with a text option, as the end of a sentence."""
    if choices:
        return None if value in choices else f"is not one of {', '.join(map(repr, choices))}"
    if not value:
        return "is empty"
    if key == "BROKER_URL" and not _is_broker_url(value):
        return "is not the ws:// or wss:// address of a broker"
    if key != "NAME":
        return None
    if any(part in ("", ".", "..") for part in value.split("/")) or "\\" in value:
        return "has an empty, '.' or '..' part or a backslash, which not every store takes"
    if not value.isprintable() or len(value.encode()) > MAX_NAME_BYTES:
        return f"is not printable text of at most {MAX_NAME_BYTES} bytes, which stores need"
    return None


def _is_broker_url(value: str) -> bool:
    try:
        parts = urlsplit(value)
        return parts.scheme in ("ws", "wss") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _check_combinations(raw: Mapping[str, Any]) -> list[Problem]:
    options = complete(raw)
    problems = [
        Problem(
            "E004",
            f"{option} = {options[option]!r} is more than "
            f"{_times(times)}{limit} = {options[limit]!r}: {why}.",
            f"Lower {option} or raise {limit}.",
        )
        for option, limit, times, why in BOUNDS
        if options[option] > options[limit] * times
    ]
    if options["MODE"] == "direct" and options["BROKER_URL"] is not None:
        message = 'BROKER_URL is set although MODE = "direct" uses no broker.'
        problems.append(Problem("E004", message, "Leave out one of the two."))
    return problems


def _times(times: float) -> str:
    if times == 1:
        return ""
    return f"{times:g} times " if times > 1 else f"1/{1 / times:g} of "


def complete(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with defaults filled in, lowered where they would contradict."""
    options: dict[str, Any] = {**DEFAULTS, **raw}
    if options["BROKER_URL"] is not None:
        options["BROKER_URL"] = with_path(options["BROKER_URL"])
    for option, limit, times, _ in BOUNDS:
        if option not in raw:
            most = options[limit] * min(times, 1)
            options[option] = type(options[option])(min(options[option], most))
    return options


def with_path(url: str) -> str:
    """Return a broker's address with the path of the wire, unless it has a path of its own."""
    parts = urlsplit(url)
    return url if parts.path not in ("", "/") else f"{parts.scheme}://{parts.netloc}{WIRE_PATH}"


def _kind(value: object) -> str:
    return "None" if value is None else f"{value!r:.60} ({type(value).__name__})"


def _write(key: str) -> str:
    examples = {"STORAGE": "objq", "BROKER_URL": "ws://10.0.0.42:3000/objq/v1/"}
    return f'Write "{key}": {examples.get(key, DEFAULTS.get(key))!r}, for example.'
