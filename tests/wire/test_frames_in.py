"""Frames of clients, as the server reads them: whatever arrives, an answer is possible."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from objq import wire
from objq.core import ops
from objq.errors import Invalid, Rejected, TooLarge, Unsupported
from objq.incoming import MAX_REFUSED_ITEMS
from objq_dashboard.source.searching import wanted

REQUEST = "5-abc:1"
JOB = {"id": "job-1", "task": "a.b"}
BEAT = '{"id":9,"op":"heartbeat","tokens":["t"]}'


def one(frame: str | bytes) -> wire.Incoming:
    (incoming,) = wire.decode_frame(frame)
    return incoming


def refusal(incoming: wire.Incoming) -> Rejected:
    assert isinstance(incoming.op, Rejected)
    return incoming.op


def test_a_message_becomes_its_operation() -> None:
    incoming = one('{"id":7,"op":"heartbeat","tokens":["t1","t2"],"started":["t1"]}')
    assert incoming.id == 7
    assert incoming.op == ops.Heartbeat(tokens=("t1", "t2"), started=("t1",))


def test_a_field_that_this_version_does_not_know_is_passed_over() -> None:
    assert one('{"id":1,"op":"stats","from_the_future":true}').op == ops.Stats()


def test_arguments_stay_the_text_that_was_pushed() -> None:
    args = '[ 1.0,  "\\u00e9", {"b":1, "a":2} ]'
    op = one(
        f'{{"id":1,"op":"push","request":"{REQUEST}","jobs":[{{"id":"x","task":"t","args":{args}}}]}}'
    ).op
    assert isinstance(op, ops.Push)
    assert bytes(op.jobs[0].args) == args.encode()


@pytest.mark.parametrize("filler", [0, 10_000])
def test_kept_text_does_not_keep_a_large_frame_alive(filler: int) -> None:
    jobs = [{"id": "x", "task": "t", "args": [1]}, {"id": "y", "task": "t", "args": ["z" * filler]}]
    op = one(json.dumps({"id": 1, "op": "push", "request": REQUEST, "jobs": jobs})).op
    assert isinstance(op, ops.Push)
    view = memoryview(op.jobs[0].args)
    owner_bytes = len(view.obj) if isinstance(view.obj, bytes) else len(view)
    assert owner_bytes <= 2048
    assert msgspec.json.decode(op.jobs[1].args) == ["z" * filler]


@pytest.mark.parametrize(
    ("message", "request_id", "error", "says"),
    [
        ('{"id":1,"op":"dance"}', 1, Unsupported, "'dance'"),
        ('{"id":1,"op":"release","tokens":"t"}', 1, Invalid, "`$.tokens`"),
        ('{"id":1,"op":"get","ids":[]}', 1, Invalid, "length >= 1 - at `$.ids`"),
        (
            '{"id":1,"op":"cancel","request":"5-abc:1","ids":["j"],"expected":"redy"}',
            1,
            Invalid,
            "Invalid enum value 'redy' - at `$.expected`: one of scheduled, ready, running, "
            "succeeded, dead, cancelled.",
        ),
        (
            '{"id":1,"op":"list","filter":{"states":["failed"]}}',
            1,
            Invalid,
            "`: one of scheduled, ready, running,",
        ),
        ('{"id":1,"op":"claim"}', 1, Invalid, "`claim`"),
        ('{"id":1,"op":"push","request":"no","jobs":[]}', 1, Invalid, "`$.request`"),
        ('{"id":1}', 1, Invalid, "`op`"),
        ('{"id":1,"op":7}', 1, Invalid, "`$.op`"),
        ('{"op":"stats"}', None, Invalid, "`id`"),
        ('{"id":"1","op":"stats"}', None, Invalid, "`$.id`"),
        ('{"id":true,"op":"stats"}', None, Invalid, "`$.id`"),
        ('{"id":-1,"op":"stats"}', None, Invalid, "`$.id`"),
        ('{"id":9007199254740992,"op":"stats"}', None, Invalid, "`$.id`"),
        ("7", None, Invalid, "`object`"),
        ("null", None, Invalid, "`object`"),
        ("", None, Invalid, "truncated"),
        ("{", None, Invalid, "truncated"),
        ('{"id":1,"op":"stats"} x', None, Invalid, "trailing"),
        ('{"id":3,"op":"get","ids":[NaN]}', 3, Invalid, "strict JSON"),
        ('{"id":3,"op":"get","ids":["\\ud800"]}', 3, Invalid, "strict JSON"),
        ("[1", None, Invalid, "not JSON"),
        ("[1,]", None, Invalid, "not JSON"),
        ("[] x", None, Invalid, "not JSON"),
        ("[" * 100_000, None, Invalid, "not JSON"),
        ('{"id":1,"op":"push","x":' + "[" * 100_000, None, Invalid, "recursion"),
        ("\ud800", None, Invalid, "UTF-8"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(
    message: str, request_id: int | None, error: type[Rejected], says: str
) -> None:
    incoming = one(message)
    assert incoming.id == request_id
    assert type(incoming.op) is error
    assert says in refusal(incoming).message


def test_the_dashboard_tells_the_states_that_there_are_as_well() -> None:
    with pytest.raises(Invalid, match=r"state 'failed': one of scheduled, .*, cancelled\.$"):
        wanted({"state": "failed"})


def test_a_binary_frame_is_refused() -> None:
    incoming = one(BEAT.encode())
    assert incoming.id is None
    assert "binary" in refusal(incoming).message


def test_an_empty_array_is_told_that_it_asks_for_nothing() -> None:
    incoming = one(" [ ] ")
    assert incoming.id is None
    assert "empty array" in refusal(incoming).message


def test_a_frame_over_the_limit_is_refused_as_a_whole() -> None:
    incoming = one(" " * wire.MAX_FRAME_BYTES + BEAT)
    assert type(incoming.op) is TooLarge
    assert one(BEAT.ljust(wire.MAX_FRAME_BYTES)).op == ops.Heartbeat(tokens=("t",))


def test_the_limit_counts_bytes_and_not_characters() -> None:
    assert type(one("é" * (wire.MAX_FRAME_BYTES // 2 + 1)).op) is TooLarge


def test_a_frame_with_too_many_messages_is_refused_as_a_whole() -> None:
    crowded = "[" + ",".join("1" for _ in range(wire.MAX_FRAME_MESSAGES + 1)) + "]"
    assert type(one(crowded).op) is TooLarge


@pytest.mark.parametrize(
    "bad",
    [
        "1",
        "{}",
        '{"id":1,"op":"dance"}',
        '{"id":1,"op":"get","ids":7}',
        '{"id":1,"op":"get","ids":[NaN]}',
        '{"id":1,"op":"get","ids":["\\ud800"]}',
        '{"id":1,"op":"get","ids":["\\udc00 ] , [ \\" "]}',
    ],
)
def test_a_bad_message_harms_no_neighbour(bad: str) -> None:
    before, refused, after = wire.decode_frame(f" [{BEAT} , {bad},\n{BEAT}]\n")
    assert before.op == after.op == ops.Heartbeat(tokens=("t",))
    assert isinstance(refused.op, Rejected)


def test_a_bad_job_harms_no_other_job_of_its_push() -> None:
    jobs: list[Any] = [JOB, {**JOB, "priority": 1000}, 7, {**JOB, "id": "job-4", "args": [1, 2]}]
    incoming = one(json.dumps({"id": 1, "op": "push", "request": REQUEST, "jobs": jobs}))
    assert isinstance(incoming.op, ops.Push)
    assert [job.id for job in incoming.op.jobs] == ["job-1", "job-4"]
    assert bytes(incoming.op.jobs[1].args) == b"[1, 2]"

    answer = ops.Outcomes(
        items=(
            ops.ItemOutcome(id="job-1", state="ready"),
            ops.ItemOutcome(id="job-4", state="ready"),
        ),
        position=(1, 2, 0),
    )
    reply = json.loads(wire.encode_answer(1, answer, incoming.refused))
    first, second, third, fourth = reply["ok"]["items"]
    assert (first["state"], fourth["state"]) == ("ready", "ready")
    assert second["id"] == "job-1" and second["error"]["code"] == "invalid"
    assert "`$.jobs[1].priority`" in second["error"]["message"]
    assert "`$.jobs[2]`" in third["error"]["message"]
    assert reply["ok"]["position"] == [1, 2, 0]


@pytest.mark.parametrize("op", ["complete", "fail"])
def test_a_bad_outcome_harms_no_other_outcome(op: str) -> None:
    items = [{"token": "t1", "error": {"type": "E"}}, {"token": "", "error": {"type": "E"}}]
    incoming = one(json.dumps({"id": 1, "op": op, "items": items}))
    assert isinstance(incoming.op, ops.Complete | ops.Fail)
    assert [item.token for item in incoming.op.items] == ["t1"]
    assert "`$.items[1].token`" in incoming.refused[1].error.message  # type: ignore[union-attr]


def test_a_push_of_bad_jobs_only_is_refused_as_a_whole() -> None:
    incoming = one(json.dumps({"id": 1, "op": "push", "request": REQUEST, "jobs": [{}, 1]}))
    assert type(incoming.op) is Invalid
    assert "`$.jobs[0]`" in refusal(incoming).message


def test_a_push_with_a_bad_job_and_a_bad_request_id_is_refused_as_a_whole() -> None:
    incoming = one(json.dumps({"id": 1, "op": "push", "request": "", "jobs": [JOB, 1]}))
    assert type(incoming.op) is Invalid


def test_bad_items_are_refused_one_by_one_up_to_a_bound_for_the_whole_frame() -> None:
    most = MAX_REFUSED_ITEMS
    half = {"id": 1, "op": "push", "request": REQUEST, "jobs": [JOB, *[1] * (most // 2)]}
    one_more = {**half, "jobs": [JOB, 1]}
    first, second, third, fourth = wire.decode_frame(
        json.dumps([half, half, one_more, {**half, "jobs": [JOB]}])
    )
    assert len(first.refused) + len(second.refused) == most
    assert type(third.op) is Invalid  # as a whole
    assert isinstance(fourth.op, ops.Push)  # nothing is wrong with it


def test_more_items_than_a_request_may_have_are_refused_by_one_answer() -> None:
    jobs = [JOB, *[1] * 300_000]
    incoming = one(json.dumps({"id": 1, "op": "push", "request": REQUEST, "jobs": jobs}))
    assert type(incoming.op) is Invalid
    assert incoming.refused == {}


values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4)
    ),
    max_leaves=12,
)
likely: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {},
    optional={
        "id": st.integers(-1, 9) | values,
        "op": st.sampled_from(sorted(ops.REQUESTS)) | values,
        "request": st.just(REQUEST) | values,
        "jobs": st.lists(st.just(JOB) | values, max_size=4) | values,
        "items": st.lists(st.just({"token": "t"}) | values, max_size=4) | values,
        "tokens": st.lists(st.just("t") | values, max_size=3) | values,
        "ids": values,
        "claim": st.just("c") | values,
    },
)


def assert_answerable(frame: str) -> list[wire.Incoming]:
    messages = wire.decode_frame(frame)
    for incoming in messages:
        if isinstance(incoming.op, Rejected):
            reply = json.loads(wire.encode_error(incoming.id, incoming.op))
            assert reply["error"]["message"]
        else:
            assert incoming.id is not None
            msgspec.json.encode(incoming.op)
    return messages


@given(st.text() | st.binary().map(lambda data: data.decode("latin-1")))
def test_any_text_has_an_answer(text: str) -> None:
    assert_answerable(text)


@given(st.lists(likely | values, max_size=5), st.booleans())
def test_any_array_has_one_answer_for_each_message(messages: list[Any], ascii_only: bool) -> None:
    text = json.dumps(messages, ensure_ascii=ascii_only)
    if ascii_only or text.isascii():
        assert len(assert_answerable(text)) == max(1, len(messages))
    else:
        assert_answerable(text)


@given(likely, st.data())
def test_a_damaged_message_has_an_answer(message: Any, data: st.DataObject) -> None:
    text = json.dumps(message)
    at = data.draw(st.integers(0, len(text)))
    assert_answerable(text[:at] + data.draw(st.text(max_size=3)) + text[at + 1 :])
