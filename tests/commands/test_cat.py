"""`objq_cat` shows whatever is there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError

from objq.core import codec
from tests.commands.conftest import Queue, run
from tests.core.world import World
from tests.e2e.stack import Stack


def a_world(compressed: bool) -> World:
    world = World(compress_above=0 if compressed else 1 << 20)
    world.push("a", "b", args=b'["gr\xc3\xbcn"]')
    return world


@pytest.mark.parametrize("compressed", [False, True])
def test_the_document_is_printed_as_json(queue: Queue, compressed: bool) -> None:
    queue.put_world(a_world(compressed))
    assert queue.data.startswith(codec.ZSTD_MAGIC) is compressed
    said = run("objq_cat")
    assert (said.err, said.status) == ("", 0)
    shown = json.loads(said.out)
    assert [job["id"] for job in shown["jobs"]] == ["a", "b"]
    assert list(shown)[:5] == ["objq", "document", "seq", "epoch", "commit"]


@pytest.mark.parametrize("compressed", [False, True])
def test_the_header_takes_one_read_of_the_head(
    queue: Queue, compressed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.put_world(a_world(compressed))
    heads: list[object] = []
    read_head = type(queue.store).read_head

    def counted(store: Any) -> Any:
        heads.append(store)
        return read_head(store)

    monkeypatch.setattr(type(queue.store), "read", None)
    monkeypatch.setattr(type(queue.store), "read_head", counted)
    shown = json.loads(run("objq_cat", "--header").out)
    assert len(heads) == 1
    assert (shown["document"], shown["seq"], shown["broker"]) == ("doc", 2, None)
    assert "jobs" not in shown


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b'{"objq": 1, "jobs": [', '{"objq": 1, "jobs": ['),
        (b'{"objq": 1}', '{"objq": 1}'),
        (b"\x28\xb5\x2f\xfd cut", "(\ufffd/\ufffd cut"),
        (b"<html>\xff", "<html>\ufffd"),
    ],
    ids=["cut short", "fields missing", "zstd cut short", "something else"],
)
def test_what_is_corrupt_is_shown_all_the_same(queue: Queue, data: bytes, shown: str) -> None:
    queue.put(data)
    said = run("objq_cat")
    assert said.out == shown
    assert "not a document of objq" in said.err
    assert said.status == 1
    assert run("objq_cat", "--header").status == 1


def test_compressed_bytes_that_are_no_document_are_shown_as_text(queue: Queue) -> None:
    data = a_world(compressed=True).reload()
    edited = codec.to_json(data).replace(b'"state":"ready"', b'"state":"dead"', 1)
    import zstandard

    queue.put(zstandard.ZstdCompressor().compress(edited))
    said = run("objq_cat")
    assert said.out.encode() == edited
    assert "stands among 'jobs'" in said.err
    assert said.status == 1


def test_a_newer_schema_is_shown_and_named(queue: Queue) -> None:
    queue.put(b'{"objq": 2, "news": true}')
    said = run("objq_cat")
    assert said.out == '{"objq": 2, "news": true}'
    assert "schema 2" in said.err
    assert said.status == 1


@pytest.mark.parametrize("arguments", [[], ["--header"]])
def test_where_there_is_nothing_it_says_so(queue: Queue, arguments: list[str]) -> None:
    with pytest.raises(CommandError, match=r"There is no file://.*runbroker"):
        run("objq_cat", *arguments)


def test_an_alias_that_is_not_there_is_refused() -> None:
    with pytest.raises(CommandError, match="Did you mean default"):
        run("objq_cat", "--backend", "defualt")


def test_a_process_writes_the_very_bytes(
    queue: Queue, file_storage: object, tmp_path: Path
) -> None:
    queue.put(b"<html>\xff\n")
    stack = Stack(tmp_path, file_storage, {}, {})
    done = subprocess.run(
        [sys.executable, "-m", "django", "objq_cat"],
        env=stack.environment(),
        capture_output=True,
        check=False,
    )
    assert done.stdout == b"<html>\xff\n"
    assert b"not a document of objq" in done.stderr
    assert done.returncode == 1
