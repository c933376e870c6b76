"""docs/wire.md names every operation with all its fields, every error code, role and limit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from objq import wire
from objq.core import ops
from objq.errors import BY_CODE
from objq.server import consumer
from objq.tokens import ROLES, role_allows

PAGE = (Path(__file__).resolve().parents[2] / "docs/wire.md").read_text()
SECTIONS = {
    match["name"]: match["body"]
    for match in re.finditer(
        r"^### `(?P<name>\w+)`\n(?P<body>.*?)(?=^###? )", PAGE, re.MULTILINE | re.DOTALL
    )
}
LIKE_ANOTHER = {
    # its answer, or items of it, are described there
    "heartbeat": (), "complete": (), "fail": ("complete",), "release": ("complete", "push"),
    "cancel": ("push", "complete"), "retry": ("push", "complete"), "delete": ("push", "complete"),
    "run_now": ("push", "complete"), "push": ("complete", "fail"), "claim": ("get", "complete"),
    "watch": ("stats", "hello"), "workers": ("stats",), "stats": ("hello",),
    "get": ("complete", "fail"),
}  # fmt: skip
EVERYWHERE = {
    "op",
    "position",  # under "Frames and messages"
    *("code", "message", "retry_after", "final", "url", "type", "traceback"),  # under "Errors"
    "since",  # of a broker, in the header
}


def fields_of(kind: Any, seen: set[Any] | None = None) -> set[str]:
    """Return the names of all fields of a struct, and of the structs inside."""
    seen = set() if seen is None else seen
    names: set[str] = set()
    for found in _structs(msgspec.inspect.type_info(kind)):
        if found.cls in seen:
            continue
        seen.add(found.cls)
        for each in found.fields:
            names.add(each.encode_name)
            for inner in _structs(each.type):
                names |= fields_of(inner.cls, seen)
    return names


def _structs(info: Any) -> list[Any]:
    """Return the structs that a type is made of."""
    if isinstance(info, msgspec.inspect.StructType):
        return [info]
    inside = [getattr(info, name, None) for name in ("item_type", "value_type")]
    inside += [*getattr(info, "types", ()), *(getattr(info, "item_types", ()) or ())]
    return [struct for each in inside if each is not None for struct in _structs(each)]


@pytest.mark.parametrize("name", ops.REQUESTS)
def test_every_operation_has_a_section_with_all_its_fields(name: str) -> None:
    assert name in SECTIONS, "an operation without a section"
    described = SECTIONS[name] + "".join(SECTIONS[other] for other in LIKE_ANOTHER.get(name, ()))
    wanted = fields_of(ops.REQUESTS[name]) | fields_of(ops.ANSWERS[name])
    missing = {
        field for field in wanted - EVERYWHERE if not re.search(rf"[`\"]{field}[`\"]", described)
    }
    assert not missing


def test_there_is_no_section_for_an_operation_that_is_not_there() -> None:
    assert SECTIONS.keys() == ops.REQUESTS.keys()


def test_the_deltas_of_a_watch_are_described() -> None:
    described = SECTIONS["watch"] + SECTIONS["list"] + SECTIONS["stats"]
    missing = {
        field
        for field in fields_of(ops.Delta) - EVERYWHERE - {"id", "version"}
        if f"`{field}`" not in described
    }
    assert not missing


def test_every_error_code_has_a_row() -> None:
    table = PAGE.partition("\n## Errors\n")[2].partition("\n### ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == BY_CODE.keys()


def test_every_role_has_a_row_with_what_it_allows() -> None:
    rows = dict(re.findall(r"^\| `(push|work|read|manage)` \| (.+) \|$", PAGE, re.MULTILINE))
    assert tuple(rows) == ROLES
    named = {role: set(re.findall(r"`(\w+)`", text)) for role, text in rows.items()}
    named["work"] |= named["push"]  # "the same, and …"
    for role in ("push", "work", "read"):
        assert named[role] == {name for name in ops.REQUESTS if role_allows(role, name)}
    assert rows["manage"] == "everything"


def test_every_close_code_of_the_broker_has_a_row() -> None:
    rows = set(re.findall(r"^\| (\d{4}) \|", PAGE, re.MULTILINE))
    documented = set(re.findall(r"^(\d{4})  ", consumer.__doc__ or "", re.MULTILINE))
    assert documented
    assert rows == documented | {"1009"}


def test_the_limits_are_those_of_the_code() -> None:
    limits = PAGE.partition("\n## Limits\n")[2].partition("\n## ")[0]
    for name, value in {
        "frame_bytes": f"{wire.MAX_FRAME_BYTES:,}",
        "frame_messages": f"{wire.MAX_FRAME_MESSAGES:,}",
        "waiting_requests": f"{consumer.SOFT_REQUESTS:,}",
        "waiting_bytes": f"{consumer.SOFT_BYTES >> 20} MiB",
    }.items():
        assert re.search(rf"^\| `{name}` \|.*{re.escape(value)} \|", limits, re.MULTILINE), name
    assert consumer.HARD_REQUESTS == 2 * consumer.SOFT_REQUESTS


def test_the_settings_that_hello_tells_are_all_named() -> None:
    missing = [
        name
        for name in ops.DocumentSettings.__struct_fields__
        if f"`{name}`" not in SECTIONS["hello"]
    ]
    assert not missing
