"""What is kept of jobs that have ended is bounded, and the one that has just ended is kept."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from objq.core import ops
from objq.core.document import ERRORS_SHARE, KEPT_SHARE
from objq.core.ending import MAX_ERROR_TYPE_BYTES, shorten_error
from objq.optionrules import parse
from tests.core.world import World

MIB = 1024 * 1024


def world_with(**options: Any) -> World:
    """Return a world with what a leader with these options would write into its document."""
    settings = parse({"STORAGE": "x", **options}).document_settings()
    return World(**msgspec.structs.asdict(settings))


def text_of(size_bytes: int) -> bytes:
    return b'["%b"]' % (b"x" * (size_bytes - 4))


@pytest.mark.parametrize("succeeds", [True, False])
def test_a_job_that_has_just_ended_is_kept_however_large_its_record(succeeds: bool) -> None:
    """It was dropped in the very commit in which it ended, and nobody could see why (S1, S10)."""
    world = World(max_bytes=MIB)
    world.push("first", "second", max_attempts=1, args=text_of(150_000))
    end, state = (world.complete, "succeeded") if succeeds else (world.fail, "dead")
    first, second = world.take(), world.take()
    assert end(first).state == world.state("first") == state
    world.pass_ms(1000)
    assert end(first).state == world.state("first") == state  # S6
    assert end(second).state == world.state("second") == state
    assert world.state("first") == "absent", "the bound in bytes holds but for the last one left"


def test_retention_by_age_and_number_takes_the_last_one_too() -> None:
    world = World(result_ttl_s=1.0, max_finished=0, dead_ttl_s=1.0)
    world.push("done", "gone", max_attempts=1)
    world.complete(world.take())
    assert world.state("done") == "absent"
    world.fail(world.take())
    world.pass_ms(2000)
    assert world.state("gone") == "absent"


def error_of(size_bytes: int) -> ops.JobError:
    return ops.JobError(type="a.B", message="m" * size_bytes, traceback="t" * size_bytes)


@pytest.mark.parametrize("max_bytes", [256 * 1024, 8 * MIB, 64 * MIB])
def test_a_record_as_large_as_the_options_allow_is_within_its_share(max_bytes: int) -> None:
    world = world_with(MAX_BYTES=max_bytes)
    settings = world.document.settings
    world.push("dead", "done", max_attempts=3, args=text_of(settings.max_job_bytes - 2))
    for _ in range(2):
        world.fail(world.take(), error=error_of(settings.max_error_bytes), retry_after=0.0)
    assert world.fail(world.take(), error=error_of(settings.max_error_bytes)).state == "dead"
    world.complete(world.take(), b'"%b"' % (b"r" * (settings.max_result_bytes - 2)))
    assert world.job("done").result is not msgspec.UNSET
    for where in ("dead", "finished"):
        assert world.document.bytes[where] <= max_bytes // KEPT_SHARE


def test_the_errors_of_the_oldest_attempts_give_way_to_those_of_the_newest() -> None:
    world = World(max_bytes=MIB, max_error_bytes=4096)
    attempts = 40
    world.push("j", max_attempts=attempts)
    for _ in range(attempts):
        world.fail(world.take(), error=error_of(10_000), retry_after=0.0)
    view = world.job("j")
    assert view.state == "dead"
    assert len(view.history) == attempts
    sizes = [len(a.error.message) + len(a.error.traceback) for a in view.history if a.error]
    assert len(sizes) == attempts, "each attempt still says what went wrong"
    long = [size for size in sizes if size > 128]
    assert sizes[-len(long) :] == long, "the newest are those that are kept whole"
    assert 3 <= len(long) <= MIB / ERRORS_SHARE / 4000


def test_the_newest_error_is_kept_whole_where_it_fills_what_is_kept_of_all() -> None:
    world = world_with(MAX_BYTES=65_536)
    world.push("j", max_attempts=2)
    for _ in range(2):
        world.fail(world.take(), error=error_of(5000), retry_after=0.0)
    first, last = (attempt.error for attempt in world.job("j").history)
    assert first is not None
    assert last is not None
    assert len(first.traceback) <= 96
    assert "left out" in last.traceback
    assert len(last.traceback) > 500


def size_in_the_file(text: str) -> int:
    return len(msgspec.json.encode(text)) - 2


texts = st.text(st.characters(), max_size=200) | st.text('\x00\n"\\é😀a\ud800', max_size=200)


@given(
    kind=texts, message=texts, traceback=texts, times=st.integers(1, 30), most=st.integers(0, 999)
)
def test_an_error_has_no_more_bytes_in_the_file_than_it_may(
    kind: str, message: str, traceback: str, times: int, most: int
) -> None:
    error = ops.JobError(type=kind * times, message=message * times, traceback=traceback * times)
    kept = shorten_error(error, max(most, 16))
    assert size_in_the_file(kept.type) <= MAX_ERROR_TYPE_BYTES
    assert size_in_the_file(kept.message) + size_in_the_file(kept.traceback) <= max(most, 16)
    assert shorten_error(kept, max(most, 16)) == kept


@pytest.mark.parametrize("character", ["\x00", '"', "é", "😀", "\ud800"])
def test_what_json_escapes_counts_as_it_stands_in_the_file(character: str) -> None:
    """A record could be six times as large as `MAX_ERROR_BYTES` says."""
    world = World(max_error_bytes=16_384)
    world.push("j")
    text = character * 100_000
    world.fail(world.take(), error=ops.JobError(type=text, message=text, traceback=text))
    error = world.job("j").history[0].error
    assert error is not None
    assert len(world.document.jobs["j"].raw) < 16_384 + MAX_ERROR_TYPE_BYTES + 1000
    assert len(world.document.jobs["j"].raw) > 16_000, "and as much is kept as may be"
    assert "left out" in error.traceback


def test_a_short_text_is_kept_as_it_is() -> None:
    error = ops.JobError(type="a.B", message="né\x00", traceback='File "x"\n')
    assert shorten_error(error, 64) == error


def test_of_little_room_head_and_tail_are_kept() -> None:
    error = ops.JobError(type="a.B", message="beginning of a long story, and its end")
    assert shorten_error(error, 128).message == "beginning of a…y, and its end"
