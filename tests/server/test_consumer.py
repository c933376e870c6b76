"""One websocket: who may open it, what it answers, and what it does when it is too much."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from objq import tokens
from objq import wire as protocol
from objq.core import ops
from objq.errors import BY_CODE, ObjqError, Unknown
from objq.server import consumer
from tests.server.fakes import DOCUMENT
from tests.server.harness import HELLO, Wire, bearer, open_wire, token_for

PUSH: dict[str, Any] = {
    "id": 1,
    "op": "push",
    "request": "5-abc:1",
    "jobs": [{"id": "job-1", "task": "a.b"}],
}
CLAIM: dict[str, Any] = {"id": 2, "op": "claim", "claim": "c1", "wait": 5}
BEAT: dict[str, Any] = {"id": 3, "op": "heartbeat", "tokens": ["t"]}
COMPLETE: dict[str, Any] = {"id": 4, "op": "complete", "items": [{"token": "t"}]}
PUSHED = ops.Outcomes(items=(ops.ItemOutcome(id="job-1", state="ready"),), position=(1, 2, 0))


def code_of(reply: Any) -> str:
    return str(reply["error"]["code"])


# --- opening -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "code", "close", "says"),
    [
        ([], "unauthorized", 4401, "Authorization: Bearer"),
        (bearer(""), "unauthorized", 4401, "Authorization: Bearer"),
        ([(b"authorization", b"Basic eDp5")], "unauthorized", 4401, "Authorization: Bearer"),
        (bearer("forged"), "unauthorized", 4401, "SECRET_KEY"),
        ([(b"authorization", b"Bearer \xff\xfe")], "unauthorized", 4401, "SECRET_KEY"),
        (
            bearer(tokens.make_token("push", "other", ttl_s=3600)),
            "unauthorized",
            4401,
            "document other",
        ),
        (bearer(tokens.make_token("push", DOCUMENT, ttl_s=-9)), "unauthorized", 4401, "has ended"),
        (bearer(token_for(broker="old")), "not_broker", 4410, "read queue.json again"),
        ([*bearer(token_for()), (b"origin", b"https://x")], "forbidden", 4403, "Origin"),
    ],
)
async def test_a_refused_socket_is_told_why_and_closed(
    wire: Wire, headers: list[tuple[bytes, bytes]], code: str, close: int, says: str
) -> None:
    socket = await wire.connect(headers)
    reply = await socket.frame()
    assert reply["id"] is None
    assert code_of(reply) == code
    assert says in reply["error"]["message"]
    assert await socket.closed() == close
    socket.send(HELLO)
    await socket.leave()
    assert socket.silent


async def test_hello_is_answered_with_what_a_client_needs(wire: Wire) -> None:
    socket = await wire.connect(bearer(token_for("push")))
    reply = await socket.ask({**HELLO, "document": DOCUMENT})
    welcome = msgspec.convert(reply["ok"], ops.Welcome)
    assert (welcome.document, welcome.broker, welcome.role) == (DOCUMENT, "broker-1", "push")
    assert welcome.limits["frame_bytes"] == protocol.MAX_FRAME_BYTES
    assert welcome.limits["job_bytes"] == 262_144  # the broker's own stay


async def test_hello_comes_first(wire: Wire) -> None:
    socket = await wire.connect(bearer(token_for()))
    reply = await socket.ask(BEAT)
    assert code_of(reply) == "invalid"
    assert "hello first" in reply["error"]["message"]
    assert "ok" in await socket.ask(HELLO)
    assert "ok" in await socket.ask(BEAT)


async def test_hello_for_another_document_is_not_for_this_broker(wire: Wire) -> None:
    socket = await wire.connect(bearer(token_for()))
    assert code_of(await socket.ask({**HELLO, "document": "other"})) == "not_broker"
    assert code_of(await socket.ask(BEAT)) == "invalid"


async def test_a_standby_names_the_leader(wire: Wire) -> None:
    wire.broker.leading = False
    socket = await wire.connect(bearer(token_for()))
    reply = await socket.ask(HELLO)
    assert code_of(reply) == "not_broker"
    assert reply["error"]["url"] == "ws://elsewhere:3000/objq/v1/"


# --- requests ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "message"),
    [("push", CLAIM), ("push", BEAT), ("read", PUSH), ("work", {"id": 1, "op": "stats"})],
)
async def test_a_role_does_what_it_may_and_no_more(
    wire: Wire, role: tokens.Role, message: Any
) -> None:
    socket = await wire.open(role)
    reply = await socket.ask(message)
    assert code_of(reply) == "forbidden"
    assert message["op"] in reply["error"]["message"]
    assert wire.broker.submitted == []


async def test_a_slow_claim_does_not_hold_up_a_heartbeat(wire: Wire) -> None:
    socket = await wire.open()
    socket.send(CLAIM)
    assert (await socket.ask(BEAT))["id"] == 3
    wire.broker.answer(0, ops.Granted())
    assert (await socket.frame())["id"] == 2


async def test_a_claim_without_a_name_takes_the_one_of_hello(wire: Wire) -> None:
    socket = await wire.open()
    socket.send(CLAIM, {**CLAIM, "worker": "w2"})
    await wire.broker.wait_submitted(2)
    assert [op.worker for op in wire.broker.submitted] == ["w1", "w2"]


@pytest.mark.parametrize("code", sorted(BY_CODE))
async def test_every_error_of_the_broker_reaches_the_client(wire: Wire, code: str) -> None:
    socket = await wire.open()
    socket.send(PUSH)
    await wire.broker.wait_submitted(1)
    wire.broker.answer(0, BY_CODE[code]("It did not work."))
    reply = await socket.frame()
    assert (reply["id"], code_of(reply)) == (1, code)


@pytest.mark.parametrize("error", [ZeroDivisionError("secret"), KeyError("secret")])
async def test_a_bug_in_the_broker_is_an_unknown_outcome(
    wire: Wire, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    socket = await wire.open()
    socket.send(PUSH)
    await wire.broker.wait_submitted(1)
    wire.broker.futures[0].set_exception(error)
    reply = await socket.frame()
    assert code_of(reply) == "unknown"
    assert "secret" not in reply["error"]["message"]
    assert "secret" in caplog.text


async def test_a_bug_while_a_request_is_taken_harms_nobody_else(
    wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(op: Any) -> None:
        if ops.op_name(op) == "push":
            raise ArithmeticError("secret")

    wire.broker.before_submit = fail
    socket = await wire.open()
    socket.send(BEAT, PUSH, {**BEAT, "id": 5})
    replies = {reply["id"]: reply for reply in await socket.frame()}
    assert code_of(replies[1]) == "unknown"
    assert "ok" in replies[3] and "ok" in replies[5]
    assert "secret" in caplog.text


async def test_an_answer_that_cannot_be_encoded_harms_nobody_else(
    wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    socket = await wire.open()
    socket.send(PUSH, {**PUSH, "id": 6})
    await wire.broker.wait_submitted(2)
    bad = ops.Outcomes(items=(ops.ItemOutcome(id="\ud800"),))
    wire.broker.answer(0, bad)
    wire.broker.answer(1, PUSHED)
    first, second = await socket.frame()
    assert code_of(first) == "unknown"
    assert second["ok"]["position"] == [1, 2, 0]
    (record,) = (r for r in caplog.records if getattr(r, "event", "") == "request_failed")
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], UnicodeEncodeError)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", "invalid"),
        ('{"id":9,"op":"dance"}', "unsupported"),
        ('{"id":9,"op":"get","ids":7}', "invalid"),
        (" " * (protocol.MAX_FRAME_BYTES + 1), "too_large"),
    ],
)
async def test_a_bad_frame_is_answered_and_the_socket_goes_on(
    wire: Wire, text: str, code: str
) -> None:
    socket = await wire.open()
    socket.send(CLAIM)
    socket.send_text(text)
    assert code_of(await socket.frame()) == code
    assert (await socket.ask(BEAT))["id"] == 3
    wire.broker.answer(0, ops.Granted())
    assert (await socket.frame())["id"] == 2


async def test_a_binary_frame_is_answered_and_the_socket_goes_on(wire: Wire) -> None:
    socket = await wire.open()
    socket.send_bytes(b"\x00\xff")
    assert code_of(await socket.frame()) == "invalid"
    assert "ok" in await socket.ask(BEAT)


async def test_a_bad_message_harms_no_neighbour(wire: Wire) -> None:
    socket = await wire.open()
    socket.send(BEAT, {"id": 8, "op": "dance"}, 7, {**BEAT, "id": 5})
    replies = await socket.frame()
    assert [(reply["id"], "ok" in reply) for reply in replies] == [
        (3, True), (8, False), (None, False), (5, True),
    ]  # fmt: skip


async def test_a_bad_job_harms_no_other_job_of_its_push(wire: Wire) -> None:
    socket = await wire.open()
    socket.send({**PUSH, "jobs": [{"id": "bad"}, PUSH["jobs"][0]]})
    await wire.broker.wait_submitted(1)
    assert [job.id for job in wire.broker.submitted[0].jobs] == ["job-1"]
    wire.broker.answer(0, PUSHED)
    bad, good = (await socket.frame())["ok"]["items"]
    assert (bad["id"], bad["error"]["code"], good["state"]) == ("bad", "invalid", "ready")


# --- answers -------------------------------------------------------------------------------------


async def test_what_is_answered_in_one_turn_goes_out_in_one_frame(wire: Wire) -> None:
    socket = await wire.open()
    for number in range(50):
        socket.send({**PUSH, "id": number})
    await wire.broker.wait_submitted(50)
    for number in range(50):
        wire.broker.answer(number, PUSHED)
    assert [reply["id"] for reply in await socket.frame()] == list(range(50))
    await socket.leave()
    assert socket.silent


async def test_answers_that_do_not_fit_one_frame_go_out_in_several(wire: Wire) -> None:
    socket = await wire.open("manage")
    socket.send(*({"id": number, "op": "get", "ids": ["x"]} for number in range(3)))
    await wire.broker.wait_submitted(3)
    long = ops.Outcomes(items=(ops.ItemOutcome(id="x" * 600_000),))
    for number in range(3):
        wire.broker.answer(number, long)
    assert [(await socket.frame())["id"] for _ in range(3)] == [0, 1, 2]


# --- bounds --------------------------------------------------------------------------------------


async def test_beyond_the_soft_limit_pushes_are_shed_and_outcomes_are_not(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "SOFT_REQUESTS", 3)
    socket = await wire.open("manage")
    socket.send(PUSH, PUSH, PUSH)
    await wire.broker.wait_submitted(3)
    for shed in (PUSH, CLAIM, {"id": 7, "op": "stats"}, {"id": 8, "op": "get", "ids": ["x"]}):
        reply = await socket.ask(shed)
        assert code_of(reply) == "overloaded"
        assert reply["error"]["retry_after"] > 0
    socket.send(COMPLETE, {"id": 5, "op": "release", "tokens": ["t"]}, BEAT)
    assert (await socket.frame())["id"] == 3
    assert len(wire.broker.submitted) == 6

    for future in wire.broker.futures:
        future.set_result(PUSHED)
    await socket.frame()
    socket.send(PUSH)
    await wire.broker.wait_submitted(7)


async def test_bytes_that_wait_are_bounded_too(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer, "SOFT_BYTES", 100)
    socket = await wire.open()
    socket.send({**PUSH, "jobs": [{"id": "x", "task": "t" * 200}]})
    assert code_of(await socket.ask({**PUSH, "id": 9})) == "overloaded"


async def test_beyond_the_hard_limit_the_socket_is_closed(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "HARD_REQUESTS", 3)
    monkeypatch.setattr(consumer, "SOFT_REQUESTS", 2)
    socket = await wire.open()
    socket.send(*([COMPLETE] * 5))
    assert code_of(await socket.frame()) == "overloaded"
    assert await socket.closed() == 1013
    assert len(wire.broker.submitted) == 3


async def test_answers_that_are_far_longer_than_their_questions_are_bounded(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "MAX_OUT_BYTES", 2_000_000)
    socket = await wire.open("manage")
    get = {"op": "get", "ids": ["x"]}
    socket.send(*({**get, "id": number} for number in range(50)), {**PUSH, "id": 50})
    await wire.broker.wait_submitted(51)
    long = ops.Outcomes(items=(ops.ItemOutcome(id="x" * 500_000),))
    for number in range(51):
        wire.broker.answer(number, long)
    replies: list[Any] = []
    while len(replies) < 51:
        frame = await socket.frame()
        replies += frame if isinstance(frame, list) else [frame]
    assert sum("ok" in reply for reply in replies[:50]) == 4
    assert {code_of(reply) for reply in replies[:50] if "ok" not in reply} == {"overloaded"}
    assert "ok" in replies[50]  # what was done is said, however long it takes
    socket.send({**get, "id": 60})
    await wire.broker.wait_submitted(52)
    wire.broker.answer(51, long)
    assert "ok" in await socket.frame()


# --- the end -------------------------------------------------------------------------------------


async def test_a_waiting_claim_ends_with_its_socket(wire: Wire) -> None:
    socket = await wire.open()
    socket.send(CLAIM)
    await wire.broker.wait_submitted(1)
    await socket.leave()
    assert wire.broker.futures[0].cancelled()
    assert len(wire.sockets) == 0


async def test_a_reset_closes_every_socket_and_reads_nothing_that_is_queued(wire: Wire) -> None:
    first, second = await wire.open(), await wire.open()
    first.send(CLAIM)
    await wire.broker.wait_submitted(1)
    first.send(PUSH)
    second.send(BEAT)
    wire.sockets.reset()
    assert await first.closed() == await second.closed() == 1012
    await first.leave()
    await second.leave()
    assert len(wire.broker.submitted) == 1


async def test_a_pause_noticed_in_the_middle_of_a_frame_drops_the_rest_of_it(wire: Wire) -> None:
    socket = await wire.open()
    wire.broker.before_submit = lambda op: wire.sockets.reset()
    socket.send(BEAT, BEAT, BEAT)
    assert (await socket.frame())["id"] == 3
    assert await socket.closed() == 1012
    assert len(wire.broker.submitted) == 1


async def test_a_deposed_broker_s_last_answers_go_out_before_the_close(wire: Wire) -> None:
    socket = await wire.open()
    socket.send(PUSH)
    await wire.broker.wait_submitted(1)
    wire.broker.answer(0, Unknown("Deposed."))
    wire.sockets.reset()
    assert code_of(await socket.frame()) == "unknown"
    assert await socket.closed() == 1012


async def test_going_away_sends_what_is_answered_and_closes(wire: Wire) -> None:
    socket = await wire.open()
    socket.send(PUSH)
    await wire.broker.wait_submitted(1)
    wire.broker.answer(0, PUSHED)
    wire.sockets.going_away()
    wire.sockets.going_away()
    assert (await socket.frame())["id"] == 1
    assert await socket.closed() == 1001
    await socket.leave()
    await asyncio.wait_for(wire.sockets.wait_empty(), 10)


async def test_a_server_that_cannot_send_any_more_breaks_nothing(
    wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(event: dict[str, Any]) -> None:
        raise ConnectionError("closing")

    socket = await wire.open()
    socket.consumer._send = refuse
    socket.send(BEAT)
    await wire.broker.wait_submitted(1)
    await socket.leave()


# --- hostile frames ------------------------------------------------------------------------------

pieces: st.SearchStrategy[Any] = (
    st.sampled_from([PUSH, CLAIM, BEAT, COMPLETE, HELLO, {"id": 9, "op": "stats"}])
    | st.dictionaries(st.sampled_from(["id", "op", "jobs", "tokens"]), st.integers() | st.text())
    | st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=5)
)
frames_of_text = st.lists(pieces, max_size=6).map(json.dumps) | st.text()


@given(st.lists(frames_of_text | st.binary(max_size=9), max_size=8))
def test_whatever_a_client_sends_the_socket_still_answers(frames: list[str | bytes]) -> None:
    async def run() -> None:
        async with open_wire() as wire:
            socket = await wire.open("manage")
            for frame in frames:
                if isinstance(frame, str):
                    socket.send_text(frame)
                else:
                    socket.send_bytes(frame)
            socket.send({**BEAT, "id": 424_242})
            while True:
                replies = await socket.frame()
                for reply in replies if isinstance(replies, list) else [replies]:
                    if reply["id"] == 424_242:
                        return
                    assert ("ok" in reply) != ("error" in reply)
                    if "error" in reply:
                        assert isinstance(
                            protocol.error_of(msgspec.convert(reply["error"], ops.Problem)),
                            ObjqError,
                        )

    asyncio.run(run())
