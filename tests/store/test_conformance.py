"""What every store has to do, on each of them. Servers are real ones, over real HTTP."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from objq.core.codec import HEAD_BYTES
from objq.store.aio import InThread
from objq.store.base import (
    ABSENT,
    NOT_MODIFIED,
    Ambiguous,
    Conflict,
    Content,
    Expect,
    Sentinel,
    Store,
    Tag,
)
from objq.store.probe import probe

WRITERS = 50
MEGABYTES = 3


def content_of(store: Store) -> Content:
    content = store.read()
    assert isinstance(content, Content)
    return content


def test_absent_at_first(store: Store) -> None:
    assert store.read() is None
    assert store.read_head() is None


def test_create_and_read_back(store: Store) -> None:
    tag = store.write(b"one", ABSENT)
    assert store.read() == Content(b"one", tag)
    assert store.read_head() == Content(b"one", tag)


def test_create_again_is_refused(store: Store) -> None:
    tag = store.write(b"one", ABSENT)
    with pytest.raises(Conflict):
        store.write(b"two", ABSENT)
    assert store.read() == Content(b"one", tag)


def test_chain_of_writes(store: Store) -> None:
    tag = store.write(b"0", ABSENT)
    tags = {tag}
    for number in range(1, 5):
        tag = store.write(str(number).encode(), tag)
        tags.add(tag)
    assert len(tags) == 5
    assert store.read() == Content(b"4", tag)


def test_stale_tag_is_refused(store: Store) -> None:
    stale = store.write(b"one", ABSENT)
    tag = store.write(b"two", stale)
    with pytest.raises(Conflict):
        store.write(b"three", stale)
    assert store.read() == Content(b"two", tag)


def test_tag_of_a_missing_object_is_refused(store: Store) -> None:
    tag = store.write(b"one", ABSENT)
    store.delete()
    with pytest.raises(Conflict):
        store.write(b"two", tag)
    assert store.read() is None


def test_delete_twice(store: Store) -> None:
    store.write(b"one", ABSENT)
    store.delete()
    store.delete()
    assert store.read() is None


def test_read_unless_unchanged(store: Store) -> None:
    tag = store.write(b"one", ABSENT)
    assert store.read(unless=tag) is NOT_MODIFIED
    changed = store.write(b"two", tag)
    assert store.read(unless=tag) == Content(b"two", changed)
    store.delete()
    assert store.read(unless=changed) is None


def test_head_of_a_long_object(store: Store) -> None:
    data = bytes(range(256)) * 64
    tag = store.write(data, ABSENT)
    assert store.read_head() == Content(data[:HEAD_BYTES], tag)


def test_head_of_exactly_its_size(store: Store) -> None:
    data = b"x" * HEAD_BYTES
    tag = store.write(data, ABSENT)
    assert store.read_head() == Content(data, tag)


def test_empty_object(store: Store) -> None:
    tag = store.write(b"", ABSENT)
    assert store.read() == Content(b"", tag)
    assert store.read_head() == Content(b"", tag)
    assert store.read(unless=tag) is NOT_MODIFIED


@pytest.mark.parametrize(
    "data",
    [
        b'{"objq": 1}',
        bytes(range(256)) * 5,
        b"\x28\xb5\x2f\xfd" + bytes(100),  # as zstd begins
        b"\x1f\x8b\x08\x00" + bytes(100),  # as gzip begins
        b"line\r\nline\n\r\n--boundary--\r\n",
        "ünï→✓".encode(),
    ],
    ids=["json", "binary", "zstd", "gzip", "lines", "utf8"],
)
def test_bytes_come_back_as_they_were(store: Store, data: bytes) -> None:
    tag = store.write(data, ABSENT)
    assert store.read() == Content(data, tag)


def test_many_megabytes(store: Store) -> None:
    data = os.urandom(MEGABYTES * 1024 * 1024)
    tag = store.write(data, ABSENT)
    assert store.read() == Content(data, tag)
    assert store.read_head() == Content(data[:HEAD_BYTES], tag)
    shorter = store.write(data[:100], tag)
    assert store.read() == Content(data[:100], shorter)


def test_sibling_is_another_object_of_the_same_store(store: Store) -> None:
    sibling = store.sibling(".other")
    assert sibling.name == f"{store.name}.other"
    tag = store.write(b"one", ABSENT)
    assert sibling.read() is None
    sibling.write(b"other", ABSENT)
    assert store.read() == Content(b"one", tag)
    sibling.delete()
    assert store.read() == Content(b"one", tag)


def race(store: Store, expect: Expect) -> None:
    """Let all write at once with the same expectation; exactly one may be told that it won.

    A store under such load may also leave a writer without an answer, which says nothing.
    """
    barrier = threading.Barrier(WRITERS)

    def write(number: int) -> Tag | Sentinel | None:
        barrier.wait()
        try:
            return store.write(f"writer {number}".encode(), expect)
        except Conflict:
            return None
        except Ambiguous:
            return ABSENT

    with ThreadPoolExecutor(WRITERS) as pool:
        outcomes = list(pool.map(write, range(WRITERS)))
    told = [number for number, outcome in enumerate(outcomes) if isinstance(outcome, str)]
    unanswered = [number for number, outcome in enumerate(outcomes) if outcome is ABSENT]
    content = content_of(store)
    assert len(told) == 1 or (not told and unanswered)
    possible = told or unanswered
    assert content.data in [f"writer {number}".encode() for number in possible]
    assert not told or content.tag == outcomes[told[0]]


def test_of_racing_writers_exactly_one_wins(store: Store) -> None:
    race(store, store.write(b"start", ABSENT))


def test_of_racing_creators_exactly_one_wins(store: Store) -> None:
    race(store, ABSENT)


def test_no_update_is_lost(store: Store) -> None:
    """Each of 50 threads adds its number, reading again as often as another was faster."""
    store.write(b"", ABSENT)

    def add(number: int) -> None:
        mine = str(number).encode()
        while True:
            content = content_of(store)
            entries = content.data.split()
            if mine in entries:
                return
            # Otherwise: not written, or not yet. What has no answer is settled by reading again.
            with suppress(Conflict, Ambiguous):
                store.write(b" ".join([*entries, mine]), content.tag)

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(add, range(WRITERS)))
    entries = sorted(int(entry) for entry in content_of(store).data.split())
    assert entries == list(range(WRITERS))


def test_equal_bytes_written_twice(store: Store) -> None:
    """Tags may then be equal; the write itself is no conflict."""
    tag = store.write(b"same", ABSENT)
    again = store.write(b"same", tag)
    assert store.read() == Content(b"same", again)


def test_probe_is_satisfied(store: Store) -> None:
    probe(store)
    assert store.read() is None


async def test_from_the_event_loop(store: Store) -> None:
    async_store = InThread(store.sibling(".async"))
    store = async_store.store
    assert (async_store.name, async_store.pace_s) == (store.name, store.pace_s)
    tag = await async_store.write(b"one", ABSENT)
    assert await async_store.read() == Content(b"one", tag)
    assert await async_store.read(unless=tag) is NOT_MODIFIED
    assert await async_store.read_head() == Content(b"one", tag)
    with pytest.raises(Conflict):
        await async_store.write(b"two", ABSENT)
    async_store.close()
