"""The strict reading of JSON that arguments and results must pass (promise S9).

They are granted as the very text that was pushed, so a text that two readers could understand
differently (duplicate keys, NaN, lone surrogates, numbers beyond a double) must not get in. Many
readers know no numbers but doubles: `1e400`, or an integer of 400 digits, is infinite to one of
them, an error to the next and a number to the third (Python reads no more than 4,300 digits, or
fewer where it is told so). More digits than a double distinguishes are let in, since the text keeps
them for whoever reads them.
"""

from __future__ import annotations

import json
import re
from typing import Final, NoReturn

from objq.errors import Invalid

MAX_DEPTH: Final = 100
"""Nesting allowed in one value: far below what any of the readers in use can take."""

_MANY_DIGITS = b"0" * 309  # as many as the largest double has before its point
_ALL_DIGITS_ZERO = bytes.maketrans(b"123456789", b"000000000")
_LONE_SURROGATE_POSSIBLE = re.compile(rb"\\u[dD][89a-fA-F]")
_STRING_OR_BRACKET = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]')


def check_json(text: bytes, what: str, *, kind: type | None = None) -> None:
    """Raise `Invalid` unless `text` is one strict JSON value (of `kind`: `list` or `dict`)."""
    if _too_deep(text):
        raise Invalid(f"{what} is nested more than {MAX_DEPTH} levels deep.")
    try:
        decoder = _strict_with_integers if _has_long_number(text) else _strict
        value = decoder.decode(text.decode())
        if _LONE_SURROGATE_POSSIBLE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeError as error:
        raise Invalid(f"{what} holds text that is not Unicode: {error}.") from error
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{what} is not strict JSON: {error}.") from error
    if kind is not None and type(value) is not kind:
        wanted = "an array" if kind is list else "an object"
        raise Invalid(f"{what} must be {wanted}, not {type(value).__name__}.")


def _refuse_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {key!r} stands twice in one object")
            seen.add(key)
    return result


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _refuse_overflow(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text[:40]} is beyond a double")
    return number


def _has_long_number(text: bytes) -> bool:
    """Tell whether there may be an integer beyond a double; where not, none is looked at singly."""
    return _MANY_DIGITS in text.translate(_ALL_DIGITS_ZERO)


def _too_deep(text: bytes) -> bool:
    if text.count(b"[") + text.count(b"{") <= MAX_DEPTH:
        return False
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(text):
        token = match.group()
        if token in (b"[", b"{"):
            depth += 1
            if depth > MAX_DEPTH:
                return True
        elif token in (b"]", b"}"):
            depth -= 1
    return False


# Made once: `json.loads` with hooks would make one for every text, which takes longer than reading.
_strict, _strict_with_integers = (
    json.JSONDecoder(
        object_pairs_hook=_refuse_duplicates,
        parse_constant=_refuse_constant,
        parse_float=_refuse_overflow,
        parse_int=parse_int,
    )
    for parse_int in (int, _refuse_overflow)
)
