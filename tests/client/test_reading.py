"""The document read past any broker: what it tells, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from objq.client.reading import DocumentReader, document_reader, read_document
from objq.core import codec, ops
from objq.errors import ConfigurationError, Corrupt, NewerSchema, NoDocument, Unavailable
from objq.store.base import ABSENT, Content, Denied, Sentinel, Store
from tests.core.world import World
from tests.newer import newer


class StoppedClock:
    def __init__(self, wall_ms: int) -> None:
        self.now = wall_ms

    def wall_ms(self) -> int:
        return self.now

    def monotonic(self) -> float:
        return 0.0


@pytest.fixture
def store(settings: Any, memory_storage: Any) -> Iterator[Store]:
    settings.STORAGES = {**settings.STORAGES, "objq": memory_storage}
    with document_reader() as reader:
        yield reader.store


def put(store: Store, data: bytes) -> None:
    found = store.read()
    store.write(data, found.tag if isinstance(found, Content) else ABSENT)


def test_jobs_statistics_and_age_come_from_the_document(store: Store) -> None:
    world = World()
    world.push("a", "b", "c")
    world.take()
    put(store, world.reload())
    clock = StoppedClock(world.now + 7_500)
    reading = DocumentReader(store, clock).read()
    assert reading.age_s == 7.5
    assert [view and view.state for view in reading.document.views("abx")] == [
        "running",
        "ready",
        None,
    ]
    statistics = reading.statistics()
    assert statistics.queues["default"].ready == 2
    assert [(job.id, job.heard_ago_s) for job in statistics.running] == [("a", 7.5)]


def test_a_job_whose_time_has_come_counts_as_ready(store: Store) -> None:
    world = World()
    world.push("later", run_after=world.now + 5_000)
    put(store, world.reload())
    clock = StoppedClock(world.now)
    with DocumentReader(store, clock) as reader:
        assert reader.read().statistics().queues["default"].scheduled == 1
        clock.now += 5_000
        assert reader.read().statistics().queues["default"].ready == 1


def test_what_has_not_changed_is_not_decoded_again(store: Store) -> None:
    world = World()
    world.push("a")
    put(store, world.reload())
    with DocumentReader(store) as reader:
        first = reader.read().document
        assert reader.read().document is first
        world.push("b")
        put(store, world.reload())
        assert set(reader.read().document.jobs) == {"a", "b"}


def test_a_large_document_is_read_alike_and_its_stored_size_told(store: Store) -> None:
    world = World(compress_above=0)
    world.push(*(f"job-{number}" for number in range(200)))
    data = world.reload()
    assert data.startswith(codec.ZSTD_MAGIC)
    put(store, data)
    reading = DocumentReader(store).read()
    assert len(reading.document.jobs) == 200
    assert reading.size_bytes == len(data)


def test_the_header_needs_one_read_of_the_head_alone(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, World().reload())
    monkeypatch.setattr(store, "read", None)
    assert DocumentReader(store).header().document == "doc"


def test_what_cannot_be_read_is_told_as_it_is_to_clients(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = DocumentReader(store)
    for ask in (reader.read, reader.header):
        with pytest.raises(NoDocument, match="runbroker"):
            ask()
    put(store, b"{}")
    with pytest.raises(Corrupt):
        reader.read()
    put(store, b'{"objq": 2}')
    for ask in (reader.read, reader.header):
        with pytest.raises(NewerSchema):
            ask()

    def denied(unless: Any = None) -> Content | Sentinel | None:
        raise Denied("memory: no")

    monkeypatch.setattr(store, "read", denied)
    monkeypatch.setattr(store, "read_head", denied)
    for ask in (reader.read, reader.header):
        with pytest.raises(Unavailable, match="memory: no"):
            ask()


def test_a_newer_schema_is_read_as_far_as_it_is_known_here(store: Store) -> None:
    world = World()
    world.push("a", "b")
    world.take()
    put(store, newer(world.reload()))
    reader = DocumentReader(store)
    assert reader.header().seq == world.document.seq
    assert reader.read().statistics().queues["default"].ready == 1
    assert [job.id for job in reader.list(ops.ListJobs()).jobs] == ["a", "b"]


def test_the_document_of_an_alias_is_read_in_one_call(store: Store) -> None:
    world = World()
    world.push("a")
    put(store, world.reload())
    assert isinstance(read_document("default").document.views(["a"])[0], ops.JobView)
    with pytest.raises(ConfigurationError, match="Did you mean default"):
        read_document("defualt")


def test_it_lists_as_a_broker_does(store: Store) -> None:
    world = World()
    world.push("a", "b")
    world.take()
    put(store, codec.seal(world.document, "c", world.now, leading=False))
    reader = DocumentReader(store, StoppedClock(world.now + 2_000))
    page = reader.list(ops.ListJobs(page=ops.Page(limit=1)))
    assert [(job.id, job.heard_ago_s) for job in page.jobs] == [("a", 2.0)]
    rest = reader.list(ops.ListJobs(page=ops.Page(cursor=page.cursor)))
    assert ([job.id for job in rest.jobs], rest.cursor) == (["b"], None)
