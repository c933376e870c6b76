"""Arguments that are not JSON are refused, naming path, type and fix (scenario: at enqueue)."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import json
import uuid
from dataclasses import dataclass
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.utils.functional import lazystr
from django.utils.safestring import mark_safe
from hypothesis import given
from hypothesis import strategies as st

from objq.arguments import NotJSON, encode_arguments, encode_value
from objq.core.jsontext import MAX_DEPTH, check_json
from objq.errors import Invalid


class Colour(enum.Enum):
    RED = 1


class Size(enum.IntEnum):
    SMALL = 1


@dataclass
class Point:
    x: int


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


CYCLE: list[Any] = []
CYCLE.append(CYCLE)

REFUSED = {
    "bytes": (b"x", "bytes", "base64"),
    "bytearray": (bytearray(b"x"), "bytearray", "base64"),
    "date": (dt.date(2026, 1, 1), "datetime.date", "isoformat"),
    "datetime": (dt.datetime(2026, 1, 1, tzinfo=dt.UTC), "datetime.datetime", "isoformat"),
    "timedelta": (dt.timedelta(1), "datetime.timedelta", "total_seconds"),
    "decimal": (decimal.Decimal(1), "decimal.Decimal", "str(value)"),
    "uuid": (uuid.UUID(int=1), "uuid.UUID", "str(value)"),
    "path": (PurePosixPath("/"), "PurePosixPath", "str(value)"),
    "set": ({1}, "set", "list(value)"),
    "iterator": (iter([1]), "list_iterator", "list(value)"),
    "enum": (Colour.RED, "Colour", ".value"),
    "dataclass": (Point(1), "Point", "asdict"),
    "model": (Group(name="x"), "Group", ".pk"),
    "query": (Group.objects.none(), "QuerySet", "values_list"),
    "lazy text": (lazystr("x"), "__proxy__", "str(value)"),
    "function": (print, "builtin_function_or_method", "dotted path"),
    "class": (int, "type", "dotted path"),
    "complex": (1j, "complex", "real"),
    "object": (object(), "object", "dicts, lists"),
    "NaN": (float("nan"), "nan", "None"),
    "infinity": (float("-inf"), "-inf", "None"),
    "integer key": ({1: 2}, "int", "str(key)"),
    "None key": ({None: 2}, "NoneType", "str(key)"),
    "lone surrogate": ("\ud800", "not Unicode", "replace"),
    "lone surrogate in a key": ({"\ud800": 1}, "not Unicode", "replace"),
    "huge number": (10**5000, "digits", "text"),
    "number beyond a double": (-(10**309), "digits", "text"),
    "too deep": (nested(MAX_DEPTH), "levels deep", "Flatten"),
    "cycle": (CYCLE, "levels deep", "cycle"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_json_is_refused_with_type_and_fix(name: str) -> None:
    value, what, fix = REFUSED[name]
    with pytest.raises(NotJSON) as raised:
        encode_arguments([0, value], {})
    text = str(raised.value)
    assert text.startswith("args[1]")
    assert what in text
    assert fix in text


def test_the_refusal_can_be_caught_as_ours_and_as_djangos_kind() -> None:
    for kind in (Invalid, TypeError):
        with pytest.raises(kind):
            encode_arguments([b""], {})


def test_the_path_leads_to_the_culprit() -> None:
    with pytest.raises(NotJSON, match=r'^kwargs\["order"\]\["items"\]\[1\]\["price"\] is of type'):
        encode_arguments([], {"order": {"items": [{"price": 1}, {"price": decimal.Decimal(1)}]}})


def test_what_json_has_comes_back_as_it_was() -> None:
    kwargs = {
        "text": mark_safe("<b>ü\x00\u2028</b>"),
        "numbers": (1, -0.5, 1e300, 10**40, -(10**308), Size.SMALL, True, None),
        "more": MappingProxyType({"a": range(2)}),
    }
    encoded = encode_arguments([], kwargs)
    check_json(bytes(encoded.kwargs), "kwargs", kind=dict)
    assert json.loads(bytes(encoded.kwargs)) == {
        "text": "<b>ü\x00\u2028</b>",
        "numbers": [1, -0.5, 1e300, 10**40, -(10**308), 1, True, None],
        "more": {"a": [0, 1]},
    }


def test_the_deepest_that_is_accepted_passes_the_queue_as_well() -> None:
    encoded = encode_arguments([nested(MAX_DEPTH - 1)], {})
    check_json(bytes(encoded.args), "args", kind=list)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(1 << 1025), 1 << 1025)
    | st.floats(allow_nan=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON)
def test_everything_is_refused_here_or_accepted_by_the_queue(value: Any) -> None:
    try:
        encoded = encode_value(value, "args")
    except NotJSON:
        return
    check_json(bytes(encoded), "args")
    assert json.loads(bytes(encoded)) == value
