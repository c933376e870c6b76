"""From Python values to the JSON text that is kept and granted (promise S9), changing none.

`json.dumps` would turn keys into text and write NaN; Django's `normalize_json` lets both through
and turns bytes into text. Here only what comes back as it was goes in (sequences come back as
lists); everything else is refused with the path of the culprit, its type and the fix.
"""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import json
import math
import os
import types
import uuid
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import is_dataclass
from typing import Any, Final, NamedTuple

from msgspec import Raw

from objq.core.jsontext import MAX_DEPTH
from objq.errors import Invalid

RESULT: Final = "result"
"""The name of what a task returns, of which advice speaks in other words."""

IN_A_RESULT: Final = (
    ("Pass ", "Return "),
    (" pass ", " return "),
    (" in the task.", " where it is read."),
)

Path = tuple[str | int, ...]


class NotJSON(Invalid, TypeError):
    """A value that JSON cannot hold; the message names its path, its type and the fix."""


class Arguments(NamedTuple):
    args: Raw
    kwargs: Raw


def encode_arguments(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Arguments:
    """Return both as JSON text; raise NotJSON, naming for example `args[0]["when"]`."""
    return Arguments(
        encode_value(list(args), "args"),
        encode_value(dict(kwargs), "kwargs"),
    )


def encode_value(value: Any, name: str) -> Raw:
    """Return `value` as JSON text; raise NotJSON with a path that begins with `name`."""
    text = json.dumps(_plain(value, (name,)), ensure_ascii=False, separators=(",", ":"))
    return Raw(text.encode())


def _plain(value: Any, path: Path) -> Any:
    """Return `value` made of dicts, lists, and what JSON has beside them."""
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return _text(value, path)
    if isinstance(value, int):
        return _integer(value, path)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _refusal(path, f"{value!r}, which is not a JSON number", "Pass None or text.")
        return value
    if isinstance(value, Mapping | Sequence) and not isinstance(value, BYTES):
        if len(path) > MAX_DEPTH:
            fix = "Flatten it, or break the cycle."
            raise _refusal(path[:8], f"nested more than {MAX_DEPTH} levels deep", fix)
        if isinstance(value, Mapping):
            return {_key(key, path): _plain(value[key], (*path, key)) for key in value}
        return [_plain(item, (*path, index)) for index, item in enumerate(value)]
    raise _refusal(path, f"of type {_type_name(value)}, which JSON does not have", _fix(value))


def _integer(value: int, path: Path) -> int:
    try:
        float(value)  # which is how many readers of JSON take it
    except OverflowError as error:
        what = "an int of more than 308 digits, beyond what JSON numbers hold"
        raise _refusal(path, what, "Pass it as text, in hex.") from error
    return value


def _text(value: str, path: Path) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        what = f"text that is not Unicode ({error.reason} at {error.start})"
        raise _refusal(path, what, 'Decode it with errors="replace".') from error
    return value


def _key(key: object, path: Path) -> str:
    if isinstance(key, str):
        return _text(key, (*path, key))
    what = f"a mapping with the key {key!r:.60} of type {_type_name(key)}; JSON has only text keys"
    raise _refusal(path, what, "Use str(key), and convert it back in the task.")


def _refusal(path: Path, what: str, fix: str) -> NotJSON:
    steps = "".join(f"[{json.dumps(step)}]" for step in path[1:])
    if path[0] == RESULT:
        for passed, returned in IN_A_RESULT:
            fix = fix.replace(passed, returned)
    return NotJSON(f"{path[0]}{steps} is {what}. {fix}")


def _type_name(value: object) -> str:
    cls = type(value)
    return (
        cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
    )


BYTES: Final = (bytes, bytearray, memoryview)

FIXES: Final[tuple[tuple[Any, str], ...]] = (
    (BYTES, "Decode it, or pass base64.b64encode(value).decode()."),
    (enum.Enum, "Pass its .value."),
    (dt.timedelta, "Pass value.total_seconds()."),
    ((dt.date, dt.time), "Pass value.isoformat(), and parse it in the task."),
    ((decimal.Decimal, uuid.UUID, os.PathLike), "Pass str(value)."),
    ((AbstractSet, Iterator), "Pass list(value)."),
    (complex, "Pass [value.real, value.imag]."),
    ((type, types.ModuleType), "Pass its dotted path."),
)


def _fix(value: object) -> str:
    if hasattr(type(value), "_meta") and hasattr(value, "pk"):
        return "Pass its .pk, and get the object in the task."
    if hasattr(value, "model") and hasattr(value, "values_list"):
        return 'Pass list(value.values_list("pk", flat=True)).'
    if hasattr(type(value), "__proxy__") or type(value).__name__ == "__proxy__":
        return "It is lazy text: pass str(value)."
    if is_dataclass(value) and not isinstance(value, type):
        return "Pass dataclasses.asdict(value)."
    for types_, fix in FIXES:
        if isinstance(value, types_):
            return fix
    if callable(value):
        return "Pass its dotted path."
    return "Pass only dicts, lists, str, int, float, bool and None."
