"""Jobs that become due by the thousand are made ready without reading them, and just the same."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from objq.core import codec, job
from objq.core.document import Document
from objq.core.job import as_ready, encode_view
from objq.core.ops import Attempt, JobError, JobView
from tests.core.world import START_MS, World

TRAPS = ('{"state":"scheduled"}', '"state":"scheduled"', ',"state":"scheduled","pushed_at":1', "\\")
texts = st.text(max_size=5) | st.sampled_from(TRAPS)
values = st.recursive(
    texts | st.integers() | st.just({"state": "scheduled"}),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
raws = values.map(lambda value: Raw(json.dumps(value, separators=(",", ":")).encode()))
attempts = st.builds(
    Attempt,
    token=texts,
    claim=texts,
    worker=texts,
    claimed_at=st.just(1),
    ended_at=st.integers(1, START_MS * 2),
    outcome=st.just("failed"),
    error=st.none() | st.builds(JobError, type=texts, message=texts, traceback=texts),
)
scheduled = st.builds(
    JobView,
    id=st.uuids().map(str),
    queue=texts,
    task=texts,
    args=raws,
    kwargs=raws,
    state=st.just("scheduled"),
    pushed_at=st.integers(0, START_MS),
    priority=st.integers(-3, 3),
    run_after=st.integers(START_MS - 5, START_MS + 5),
    attempts=st.integers(0, 3),
    alone=st.booleans(),
    history=st.lists(attempts, max_size=2).map(tuple),
    reason=st.none() | texts,
    result=st.just(msgspec.UNSET) | raws,
)


@given(scheduled)
def test_the_record_is_the_one_that_reading_and_writing_it_would_give(view: JobView) -> None:
    raw = encode_view(view)
    wanted = encode_view(msgspec.structs.replace(view, state="ready"))
    assert as_ready(raw) == wanted or (view.result is not msgspec.UNSET and as_ready(raw) is None)


def what_is_known(document: Document) -> Any:
    return (
        codec.encode(document),
        document.bytes,
        document.counts,
        document.touched,
        document.next_due(),
        document.dirty,
        {name: [each.id for each in drained(document, name)] for name in list(document.ready)},
        [(each.id, each.state, each.raw, each.ready_since) for each in document.jobs.values()],
    )


def drained(document: Document, queue: str) -> list[job.Job]:
    """Return the ready jobs of a queue in the order in which they would be granted."""
    found = []
    while (first := document.next_ready((queue,))) is not None:
        found.append(document.change(first, state="running"))
    for each in found:
        document.change(each, state="ready")
    return found


@given(st.lists(scheduled, max_size=6, unique_by=lambda view: view.id))
def test_the_document_is_the_one_that_changing_each_job_would_give(views: list[JobView]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        quick, plain = World().document, World().document
        for document in (quick, plain):
            document.touched = {}
            for view in views:
                document.add(view)
            document.dirty = False
        quick.make_due_ready(START_MS)
        patch.setattr("objq.core.document.as_ready", lambda raw: None)
        plain.make_due_ready(START_MS)
        assert what_is_known(quick) == what_is_known(plain)


@pytest.mark.parametrize(
    "record",
    [
        b'{"state": "scheduled", "args": [{"state": "scheduled"}]}',
        b'{"state": "scheduled", "args": [{"state":"scheduled"}]}',
        b'{"state": "scheduled", "args": []}',
    ],
)
def test_a_record_that_somebody_has_formatted_is_read(record: bytes) -> None:
    assert as_ready(record) is None


def test_a_record_whose_fields_somebody_has_sorted_is_made_ready_too() -> None:
    world = World()
    world.push("j", run_after=world.now + 1000, args=b'[{"state":"scheduled"}]')
    lines = json.loads(world.reload())
    data = json.dumps(lines, sort_keys=True, separators=(",", ":"))
    world.document = codec.decode(data.encode())
    world.pass_ms(1000)
    assert world.state("j") == "ready"
    world.reload()
    assert world.state("j") == "ready"
    assert bytes(world.claim("1-w:1")[0].args) == b'[{"state":"scheduled"}]'
