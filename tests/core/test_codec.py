"""Bytes of the document: the header is found first, and what is not understood is refused."""

from __future__ import annotations

import contextlib
import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from objq.core import codec, leading, ops
from objq.core.document import Header
from objq.errors import Corrupt, ForeignDocument, NewerSchema, WentBack
from tests.core.world import World
from tests.newer import newer


def a_full_world(**settings: float) -> World:
    world = World(**settings)
    leading.take_over(
        world.document,
        ops.BrokerInfo(
            id="b", url="ws://127.0.0.1:3000/objq/v1/", since=world.now, version="0.1.0"
        ),
        world.document.settings,
    )
    world.push("a", "b", "c", "d", args=b'["\\u00e9 \xc3\xa9"]')
    world.complete(world.take("1-w:1"), b'{"ok": true}')
    world.fail(world.take("1-w:2"), retry_after=None)
    world.take("1-w:3")
    return world


def test_what_is_written_is_read_again_to_the_letter() -> None:
    world = a_full_world()
    data = world.reload()
    assert codec.encode(world.document) == data


def test_the_file_is_plain_json_with_the_header_first() -> None:
    data = a_full_world().reload()
    fields = list(json.loads(data))
    assert fields[: fields.index("jobs")] == [
        *("objq", "document", "seq", "epoch", "commit", "at", "uptime_ms", "broker", "challenge")
    ]
    job = json.loads(data)["jobs"][1]
    assert list(job)[:5] == ["id", "queue", "task", "args", "kwargs"]
    assert "priority" not in job  # fields at their default are left out


@pytest.mark.parametrize("compress_above", [0, 1 << 30])
def test_the_header_is_found_in_the_first_bytes(compress_above: int) -> None:
    world = a_full_world(compress_above=compress_above)
    world.push(*(f"j{n}" for n in range(200)))
    data = world.reload()
    assert data.startswith(codec.ZSTD_MAGIC) == (compress_above == 0)
    assert len(codec.to_json(data)) > codec.HEAD_BYTES
    assert codec.decode_head(data[: codec.HEAD_BYTES]) == world.document.header()


def test_no_two_versions_have_equal_bytes() -> None:
    world = World()
    empty = world.reload()
    world.push("j", request="1-client:1")
    assert world.operate(ops.Delete, "j", "ready").error is None
    assert world.reload() != empty  # S3
    header = world.document.header()
    assert codec.seal(world.document, "c1", world.now, leading=True) != codec.seal(
        codec.decode(codec.encode(world.document)), "c2", world.now, leading=True
    )
    assert world.document.seq == header.seq + 1


def test_any_commit_of_the_leader_removes_a_challenge_and_a_direct_one_keeps_it() -> None:
    world = World()
    question = ops.Challenge(id="q", by="s", at=world.now)
    leading.challenge(world.document, question)
    codec.seal(world.document, "c", world.now, leading=False)
    assert world.document.challenge == question
    codec.seal(world.document, "d", world.now, leading=True)
    assert world.document.challenge is None


def test_a_late_step_down_cannot_clear_a_successor() -> None:
    world = a_full_world()
    assert not leading.step_down(world.document, "another")
    assert leading.step_down(world.document, "b")
    assert world.document.broker is None


def broken() -> list[bytes]:
    data = a_full_world().reload()
    text = json.loads(data)
    twice = {**text, "jobs": text["jobs"] * 2}
    unclaimed = json.loads(data)
    del unclaimed["jobs"][0]["claim"]
    misplaced = {**text, "dead": [], "jobs": text["jobs"] + text["dead"]}
    unknown = {**text, "surprise": 1}
    return [
        b"",
        b"{}",
        b"[]",
        b"null",
        b'{"objq": 0}',
        b"\x28\xb5\x2f\xfd",
        data[: len(data) // 2],
        data[:-3],
        data.replace(b'"ready"', b'"asleep"'),
        *(json.dumps(variant).encode() for variant in (twice, unclaimed, misplaced, unknown)),
    ]


@pytest.mark.parametrize("data", broken())
def test_a_broken_document_is_refused_and_never_taken_for_an_empty_queue(data: bytes) -> None:
    with pytest.raises(Corrupt, match="left as it is"):
        codec.decode(data)


@pytest.mark.parametrize("read", [codec.decode, codec.decode_head])
def test_an_object_without_a_byte_is_called_empty(read: Callable[[bytes], Any]) -> None:
    with pytest.raises(Corrupt, match="it is empty"):
        read(b"")


def test_a_truncated_compressed_document_is_refused() -> None:
    world = a_full_world(compress_above=0)
    data = world.reload()
    for cut in range(0, len(data), 7):
        with pytest.raises(Corrupt):
            codec.decode(data[:cut])


def test_what_expands_without_end_is_refused_before_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(codec, "MAX_TEXT_BYTES", 1_000_000)
    compress = zstandard.ZstdCompressor(level=1).compress
    bomb = compress(bytes(1 << 27))
    head, _, _ = a_full_world().reload().partition(b',\n"jobs"')
    for data in (bomb, compress(head) + bomb, bomb[:-3], compress(b"[" * 900_000) * 2):
        tracemalloc.start()
        with pytest.raises(Corrupt, match="expands to more than"):
            codec.decode(data)
        taken = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        # What zstd makes of one slice of its input, and no more.
        assert taken < 1_000_000 + 2 * 16 * 1024 * 1024
    with pytest.raises(Corrupt, match="expands to more than"):
        codec.decode_head(bomb)


def test_a_frame_need_not_say_how_long_it_is_and_is_not_believed() -> None:
    plain = a_full_world().reload()
    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(plain)
    assert codec.to_json(unsized) == plain
    sized = bytearray(zstandard.ZstdCompressor().compress(plain))
    sized[5] ^= 1  # in the length, which comes after magic number and descriptor
    with pytest.raises(Corrupt):
        codec.to_json(bytes(sized))


def test_a_newer_schema_is_refused_by_name_whatever_else_it_holds() -> None:
    for read in (codec.decode, codec.decode_head):
        with pytest.raises(NewerSchema, match="schema 2"):
            read(b'{"objq": 2, "new": {"things": [1]}}')


def test_of_a_newer_schema_what_is_known_here_is_read_and_nothing_is_written() -> None:
    world = a_full_world()
    data = newer(world.reload())
    document = codec.decode(data)
    known = world.document
    assert (document.schema, codec.decode_head(data).objq) == (codec.SCHEMA + 1, codec.SCHEMA + 1)
    assert codec.decode_head(data).broker == known.broker
    assert document.claims.keys() == known.claims.keys() != set()
    for where in ("jobs", "dead", "finished"):
        assert list(getattr(document, where)) == list(getattr(known, where)) != []
    assert (document.counts, document.totals) == (known.counts, known.totals)
    for write in (codec.encode, lambda it: codec.seal(it, "commit", world.now, leading=True)):
        with pytest.raises(NewerSchema, match=r"schema 2 .* writes 1.*upgrade"):
            write(document)


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_bytes_do_anything_but_be_refused(data: bytes) -> None:
    for read in (codec.decode, codec.decode_head):
        with pytest.raises((Corrupt, NewerSchema)):
            read(data)


@given(st.data())
def test_a_damaged_document_is_read_or_refused_but_never_crashes(data: st.DataObject) -> None:
    original = bytearray(
        a_full_world(compress_above=data.draw(st.sampled_from((0, 1 << 30)))).reload()
    )
    for _ in range(data.draw(st.integers(1, 4))):
        original[data.draw(st.integers(0, len(original) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(Corrupt, NewerSchema):
        codec.decode(bytes(original))


def header(*, document: str = "d", seq: int = 5, epoch: int = 2, commit: str = "c") -> Header:
    return Header(
        objq=1,
        document=document,
        seq=seq,
        epoch=epoch,
        commit=commit,
        broker=None,
        challenge=None,
    )


@pytest.mark.parametrize(
    "found",
    [
        header(document="other"),
        header(seq=4),
        header(seq=9, epoch=1),
        header(commit="another"),
    ],
)
def test_a_document_that_cannot_have_come_from_ours_is_foreign(found: Header) -> None:
    with pytest.raises(ForeignDocument):
        codec.check_successor(header(), found)  # S14


@pytest.mark.parametrize("found", [header(), header(seq=6, commit="x"), header(seq=7, epoch=3)])
def test_a_successor_is_accepted(found: Header) -> None:
    codec.check_successor(header(), found)


def test_a_broker_may_tell_of_an_older_version_than_others_have_written() -> None:
    codec.check_successor(header(), header(seq=4, commit=""), is_told=True)
    codec.check_successor(header(), header(seq=4, epoch=1, commit=""), is_told=True)
    with pytest.raises(WentBack):  # it took over what somebody had put back
        codec.check_successor(header(), header(seq=4, epoch=3, commit=""), is_told=True)
    with pytest.raises(ForeignDocument):
        codec.check_successor(header(), header(document="other", commit=""), is_told=True)


@pytest.mark.parametrize("above", [0, 1 << 30])
def test_a_header_that_may_be_written_is_found_by_one_ranged_read_whatever_its_length(
    above: int,
) -> None:
    world = World(compress_above=above)
    world.push(*(f"j{n}" for n in range(100)))
    written = 0
    for length in range(3800, 4100):
        broker = ops.BrokerInfo(id="b", url="ws://" + "h" * length, since=world.now, version="0")
        leading.take_over(world.document, broker, world.document.settings)
        try:
            data = world.reload()
        except ValueError:
            continue
        written += 1
        assert codec.decode_head(data[: codec.HEAD_BYTES]) == world.document.header()
    assert 0 < written < 300
