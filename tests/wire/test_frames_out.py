"""Frames that are packed, and replies as the client reads them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from objq import wire
from objq.core import ops
from objq.errors import (
    BY_CODE,
    ClaimLost,
    ConfigurationError,
    Corrupt,
    Invalid,
    NotBroker,
    ObjqError,
    Overloaded,
    Rejected,
    TooLarge,
    Unavailable,
    Unknown,
)

OUTCOMES = ops.Outcomes(items=(ops.ItemOutcome(id="x", state="ready"),), position=(1, 2, 3))
ANSWERS: dict[str, ops.Answer] = {
    "hello": ops.Welcome(
        document="d",
        broker="b",
        epoch=1,
        seq=2,
        role="work",
        version="1",
        settings=ops.DocumentSettings(),
        limits={"frame_bytes": 5},
    ),
    "claim": ops.Granted(),
    "heartbeat": ops.Beaten(lost=("t",)),
    "get": ops.Jobs(jobs=(None,)),
    "pause": ops.Answer(position=(1, 2, 3)),
    "resume": ops.Answer(),
    "stats": ops.Statistics(
        document="d",
        seq=1,
        epoch=1,
        at=1,
        broker=None,
        size_bytes=3,
        heartbeat_timeout_s=30.0,
        queues={"q": ops.QueueStats()},
    ),
}
ANSWERS["watch"] = ANSWERS["stats"]
ANSWERS["list"] = ops.Listed(
    jobs=(ops.JobSummary(id="x", queue="q", task="t", state="ready", pushed_at=1),),
    cursor="c",
    scanned=7,
    partial=True,
    total=9,
    position=(1, 2, 0),
)
ANSWERS["workers"] = ops.AllWorkers(
    workers=(ops.WorkerView(name="w", connected=True, host="h", slots=2, heard_ago_s=0.5),), total=1
)
ANSWERS["history"] = ops.RecentHistory(
    every_s=10.0, points=(ops.HistoryPoint(at=1, seconds=10.0, pushed=3, commit_p50_s=0.1),)
)
DELTA = ops.Delta(
    after=3,
    seq=5,
    epoch=1,
    at=9,
    jobs=(ops.JobSummary(id="x", queue="q", task="t", state="ready", pushed_at=1),),
    removed=("y",),
    left_out=2,
    queues={"q": ops.QueueStats(ready=1)},
)
REQUESTS: tuple[ops.Op, ...] = (
    ops.Hello(client="c", worker="w", queues=("a", "b"), slots=3),
    ops.Push(request="1-a:1", jobs=(ops.NewJob(id="x", task="t", priority=-3),), repeat=True),
    ops.TakeClaim(claim="c", queues=("a",), max=3, wait=1.5),
    ops.Heartbeat(tokens=("t",), started=("t",)),
    ops.Fail(items=(ops.Failure(token="t", error=ops.JobError(type="E"), retry_after=None),)),
    ops.Release(tokens=("t",)),
    ops.Get(ids=("x",)),
    ops.Cancel(request="1-a:2", ids=("x",), expected="ready"),
    ops.Retry(request="1-a:2", ids=("x",), expected="dead"),
    ops.Delete(request="1-a:2", ids=("x",), expected="dead"),
    ops.RunNow(request="1-a:2", ids=("x",), expected="scheduled"),
    ops.Pause(request="1-a:2", queue="a"),
    ops.Resume(request="1-a:2", queue="a"),
    ops.Stats(),
    ops.ListJobs(
        filter=ops.Filter(states=("dead",), queues=("a",), task="t", text="x", error="boom"),
        page=ops.Page(cursor="c", limit=200),
    ),
    ops.ListJobs(),
    ops.Workers(),
    ops.History(),
    ops.Watch(),
)


def decode(frame: str, names: dict[int, str]) -> list[wire.Reply]:
    return wire.decode_replies(frame, names.get)


@pytest.mark.parametrize("name", sorted(ops.ANSWERS))
def test_every_answer_comes_back_as_it_was(name: str) -> None:
    answer = ANSWERS.get(name, OUTCOMES)
    (frame,) = wire.frames([wire.encode_answer(4, answer)])
    assert decode(frame, {4: name}) == [wire.Reply(4, answer)]


def test_a_delta_comes_after_the_snapshot_under_the_id_of_its_watch() -> None:
    body = wire.encode_delta_body(DELTA)
    (frame,) = wire.frames([wire.encode_answer(4, ANSWERS["watch"]), wire.encode_delta(4, body)])
    assert decode(frame, {4: "watch"}) == [
        wire.Reply(4, ANSWERS["watch"]),
        wire.Reply(4, DELTA),
    ]
    assert decode(frame, {}) == []  # nobody watches any more


def test_a_delta_that_cannot_be_read_is_an_unknown() -> None:
    ((_, answer),) = decode('{"id": 4, "delta": {"after": "x"}}', {4: "watch"})
    assert isinstance(answer, Unknown)


@pytest.mark.parametrize("op", REQUESTS, ids=ops.op_name)
def test_every_request_arrives_as_it_was(op: ops.Op) -> None:
    (frame,) = wire.frames([wire.encode_request(4, op)])
    (incoming,) = wire.decode_frame(frame)
    if isinstance(op, ops.Push):  # texts have no equality
        assert isinstance(incoming.op, ops.Push)
        assert (incoming.op.request, incoming.op.repeat) == (op.request, op.repeat)
        assert incoming.op.jobs[0].priority == op.jobs[0].priority
    else:
        assert incoming.op == op


def test_a_result_arrives_as_the_text_it_was() -> None:
    text = b'{"b": 1.0,"a":[ ]}'
    op = ops.Complete(items=(ops.Completion(token="t", result=Raw(text)),))
    (incoming,) = wire.decode_frame(wire.encode_request(1, op).decode())
    assert isinstance(incoming.op, ops.Complete)
    assert bytes(incoming.op.items[0].result) == text


@pytest.mark.parametrize("code", sorted(BY_CODE))
def test_every_error_comes_back_as_its_class(code: str) -> None:
    cls = BY_CODE[code]
    error: ObjqError
    if issubclass(cls, Rejected):
        error = cls("No.", retry_after_s=0.5, final=True)
    elif issubclass(cls, NotBroker):
        error = cls("No.", url="ws://there/objq/v1/")
    else:
        error = cls("No.")
    ((request_id, back),) = decode(wire.encode_error(3, error).decode(), {3: "push"})
    assert request_id == 3
    assert type(back) is cls
    assert vars(back) == vars(error)


def test_an_error_object_holds_only_what_it_has_to_say() -> None:
    assert json.loads(wire.encode_error(None, ClaimLost("Gone."))) == {
        "id": None,
        "error": {"code": "claim_lost", "message": "Gone."},
    }
    assert json.loads(wire.encode_error(1, Overloaded("Full.", retry_after_s=2.0)))["error"] == {
        "code": "overloaded",
        "message": "Full.",
        "retry_after": 2.0,
    }


@pytest.mark.parametrize(
    ("raised", "met"), [(ConfigurationError("x"), Invalid), (Corrupt("x"), Unavailable)]
)
def test_errors_without_a_code_of_their_own_travel_under_the_nearest(
    raised: ObjqError, met: type[ObjqError]
) -> None:
    assert type(wire.error_of(wire.problem_of(raised))) is met


def test_a_code_that_is_not_known_is_an_unknown_outcome() -> None:
    error = wire.error_of(ops.Problem(code="from_the_future", message="Hm."))
    assert type(error) is Unknown
    assert error.message == "from_the_future: Hm."


def test_a_reply_that_nobody_waits_for_is_left_out() -> None:
    frame = '[{"id":1,"ok":{}},{"id":2,"ok":{}}]'
    assert [reply.id for reply in decode(frame, {2: "pause"})] == [2]


def test_an_error_about_the_socket_has_no_id() -> None:
    ((request_id, error),) = decode('{"id":null,"error":{"code":"unauthorized","message":"x"}}', {})
    assert request_id is None
    assert isinstance(error, Rejected)


@pytest.mark.parametrize(
    "frame", ["", "{", "7", '{"id":"x","ok":{}}', '[{"id":1.5}]', "[" * 99_999]
)
def test_what_is_no_reply_leaves_the_outcome_unknown(frame: str) -> None:
    with pytest.raises(Unknown):
        decode(frame, {1: "push"})


@pytest.mark.parametrize("reply", ["{}", '{"ok":7}', '{"ok":{"items":7}}'])
def test_an_answer_that_cannot_be_read_leaves_the_outcome_unknown(reply: str) -> None:
    frame = '{"id":1,' + reply[1:] if reply != "{}" else '{"id":1}'
    ((_, error),) = decode(frame, {1: "push"})
    assert type(error) is Unknown


def test_a_request_that_no_frame_holds_is_refused_before_it_is_sent() -> None:
    job = ops.NewJob(id="x", task="t", args=Raw(b'["%b"]' % (b"x" * wire.MAX_FRAME_BYTES)))
    with pytest.raises(TooLarge, match="fewer items"):
        wire.encode_request(1, ops.Push(request="1-a:1", jobs=(job,)))


@given(
    st.lists(st.integers(0, 60).map(lambda length: b'"%b"' % (b"x" * length)), max_size=40),
    st.integers(10, 100),
)
def test_frames_keep_order_and_limit(messages: list[bytes], max_bytes: int) -> None:
    frames = wire.frames(messages, max_bytes)
    unpacked: list[object] = []
    for frame in frames:
        value = json.loads(frame)
        held = value if isinstance(value, list) else [value]
        assert len(frame) <= max_bytes or len(held) == 1
        unpacked += held
    assert unpacked == [json.loads(message) for message in messages]


def test_a_frame_that_is_packed_is_a_frame_that_is_read() -> None:
    message = wire.encode_request(1, ops.Stats())
    frames = wire.frames([message] * (wire.MAX_FRAME_MESSAGES + 1))
    assert [len(wire.decode_frame(frame)) for frame in frames] == [wire.MAX_FRAME_MESSAGES, 1]
