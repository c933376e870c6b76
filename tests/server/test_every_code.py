"""Each error code, each role and each limit, once: what a client gets that asks a real broker.

The tables are complete: a code, an operation or an option that is not in them fails a test here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import fields
from typing import Any

import msgspec
import pytest

from objq.core import ops
from objq.core.codec import seal
from objq.errors import BY_CODE
from objq.options import FIELD_BY_OPTION, Options
from objq.store import base
from objq.tokens import ROLES, Role
from tests.broker.world import T_S
from tests.server.harness import HELLO, Wire, bearer, token_for
from tests.server.scene import Scene, scene, text_of
from tests.virtual import virtual

# --- codes ---------------------------------------------------------------------------------------

Reach = Callable[[Scene], Awaitable[Any]]
CODES: dict[str, tuple[Reach, dict[str, Any]]] = {}
"""For each code: what leads to it, and the options of the broker that it is asked of."""


def leads_to(code: str, **options: Any) -> Callable[[Reach], Reach]:
    def enter(reach: Reach) -> Reach:
        CODES[code] = reach, options
        return reach

    return enter


@leads_to("invalid")
async def _an_argument_list_that_is_none(scene: Scene) -> Any:
    return await scene.push("j", args={})


@leads_to("too_large", max_job_bytes=1024)
async def _arguments_over_the_limit(scene: Scene) -> Any:
    return await scene.push("j", args=[text_of(1024)])


@leads_to("queue_full", max_jobs=1)
async def _one_job_too_many(scene: Scene) -> Any:
    await scene.push("a")
    return await scene.push("b")


@leads_to("overloaded", max_clients=1)
async def _a_second_client(scene: Scene) -> Any:
    await scene.push("a", "1-one:1")
    return await scene.push("b", "1-two:1")


@leads_to("unauthorized")
async def _no_token(scene: Scene) -> Any:
    socket = scene.connect([])
    assert (await socket.event())["type"] == "websocket.accept"
    return await socket.frame()


@leads_to("forbidden")
async def _a_role_that_may_not(scene: Scene) -> Any:
    socket = await scene.open("push")
    return await socket.ask(scene.message("stats"))


@leads_to("not_broker")
async def _another_document(scene: Scene) -> Any:
    return await scene.ask("hello", client="c", document="another")


@leads_to("claim_lost")
async def _the_token_of_a_job_that_went_elsewhere(scene: Scene) -> Any:
    await scene.push("j")
    token = await scene.take()
    await asyncio.sleep(2 * T_S)
    return await scene.complete(token)


@leads_to("not_found")
async def _a_job_that_is_not_there(scene: Scene) -> Any:
    request = scene.request_id()
    answer = await scene.do("delete", request=request, ids=["j"], expected="dead")
    return answer["items"][0]


@leads_to("conflict")
async def _a_job_in_another_state(scene: Scene) -> Any:
    await scene.push("j")
    request = scene.request_id()
    answer = await scene.do("retry", request=request, ids=["j"], expected="dead")
    return answer["items"][0]


@leads_to("expired_id", dedupe_window_s=1.0)
async def _a_request_id_that_is_forgotten(scene: Scene) -> Any:
    await scene.push("a", "1-old:1")
    await asyncio.sleep(2)
    await scene.push("b", "5-new:1")
    await scene.push("c", "5-new:2")
    return await scene.push("a", "1-old:1")


@leads_to("unsupported")
async def _an_operation_of_another_version(scene: Scene) -> Any:
    return await scene.ask("dance")


@leads_to("unavailable")
async def _a_store_that_is_away(scene: Scene) -> Any:
    socket = await scene.socket()
    scene.world.store.down = base.Unavailable("no route")
    await asyncio.sleep(T_S)
    return await socket.ask(scene.message("get", ids=["j"]))


@leads_to("unknown")
async def _a_leadership_lost_during_a_write(scene: Scene) -> Any:
    socket = await scene.socket()
    scene.world.store.hold()
    job = {"id": "j", "task": "t"}
    socket.send(scene.message("push", request=scene.request_id(), jobs=[job]))
    await scene.world.store.next_attempt()
    document = scene.document()
    assert document.broker is not None
    document.broker = msgspec.structs.replace(document.broker, id="successor")
    document.epoch += 1
    scene.world.store.put(seal(document, "c", scene.world.clock.wall_ms(), leading=True))
    scene.world.store.release()
    return await socket.frame()


@pytest.mark.parametrize("code", sorted(BY_CODE))
@virtual
async def test_a_client_gets_each_code(code: str) -> None:
    reach, options = CODES[code]
    async with scene(**options) as set_up:
        reply = await reach(set_up)
    assert reply["error"]["code"] == code
    assert len(reply["error"]["message"]) > 10  # a sentence


# --- roles ---------------------------------------------------------------------------------------

MESSAGES: dict[str, dict[str, Any]] = {
    "hello": HELLO,
    "push": {"request": "1-a:1", "jobs": [{"id": "j", "task": "t"}]},
    "get": {"ids": ["j"]},
    "claim": {"claim": "1-a:2"},
    "heartbeat": {"tokens": ["t"]},
    "complete": {"items": [{"token": "t"}]},
    "fail": {"items": [{"token": "t", "error": {"type": "a.B"}}]},
    "release": {"tokens": ["t"]},
    "cancel": {"request": "1-a:3", "ids": ["j"], "expected": "ready"},
    "retry": {"request": "1-a:4", "ids": ["j"], "expected": "dead"},
    "delete": {"request": "1-a:5", "ids": ["j"], "expected": "dead"},
    "run_now": {"request": "1-a:6", "ids": ["j"], "expected": "scheduled"},
    "pause": {"request": "1-a:7", "queue": "q"},
    "resume": {"request": "1-a:8", "queue": "q"},
    "stats": {},
    "list": {},
    "workers": {},
    "history": {},
    "watch": {},
}

MAY: dict[Role, set[str]] = {
    "push": {"hello", "push", "get"},
    "work": {"hello", "push", "get", "claim", "heartbeat", "complete", "fail", "release"},
    "read": {"hello", "get", "list", "stats", "watch", "workers", "history"},
    "manage": set(MESSAGES),
}


def test_the_tables_of_roles_and_operations_are_whole() -> None:
    assert MESSAGES.keys() == ops.REQUESTS.keys()
    assert tuple(MAY) == ROLES
    assert CODES.keys() == BY_CODE.keys()


@pytest.mark.parametrize("op", MESSAGES)
@pytest.mark.parametrize("role", ROLES)
async def test_a_role_reaches_the_broker_with_what_it_may_and_nothing_else(
    wire: Wire, role: Role, op: str
) -> None:
    socket = await wire.connect(bearer(token_for(role)))
    assert "ok" in await socket.ask(HELLO)
    message = {**MESSAGES[op], "id": 7, "op": op}
    if op not in MAY[role]:
        reply = await socket.ask(message)
        assert (reply["id"], reply["error"]["code"]) == (7, "forbidden")
        assert role in reply["error"]["message"]
        assert wire.broker.submitted == []
    elif op == "hello":
        assert (await socket.ask(message))["ok"]["role"] == role
    else:
        socket.send(message)
        await wire.broker.wait_submitted(1)
        assert ops.op_name(wire.broker.submitted[0]) == op


# --- limits --------------------------------------------------------------------------------------

Show = Callable[[Scene], Awaitable[None]]
LIMITS: dict[str, tuple[Show, dict[str, Any]]] = {}
"""For each option: what shows that its value is allowed and one more is not."""

HELD_ELSEWHERE = {
    "ENQUEUE_TIMEOUT": "tests/client/test_direct_fallback.py",
    "SHUTDOWN_GRACE": "tests/worker/test_core.py, tests/broker/test_leader.py",
}
"""The client's and the worker's own, of which a socket shows nothing."""


def limits(option: str, **options: Any) -> Callable[[Show], Show]:
    def enter(show: Show) -> Show:
        LIMITS[option] = show, options
        return show

    return enter


@limits("MAX_JOBS", max_jobs=2)
async def _so_many_jobs_wait(scene: Scene) -> None:
    await scene.push("a")
    assert (await scene.push("b"))["state"] == "ready"
    refused = (await scene.push("c"))["error"]
    assert (refused["code"], "MAX_JOBS" in refused["message"]) == ("queue_full", True)
    assert refused["retry_after"] > 0
    await scene.complete(await scene.take())
    assert (await scene.push("d"))["state"] == "ready"


@limits("MAX_BYTES", max_bytes=65_536, max_job_bytes=1024)
async def _so_many_bytes(scene: Scene) -> None:
    pushed = 0
    while "error" not in (item := await scene.push(f"j{pushed}", args=[text_of(1000)])):
        pushed += 1
    assert item["error"]["code"] == "queue_full"
    assert "MAX_BYTES" in item["error"]["message"]
    assert pushed >= 30
    assert len(scene.world.store.data or b"") <= 65_536
    for _ in range(pushed):  # what is there always gets out (S13)
        assert (await scene.complete(await scene.take(), "r" * 500))["state"] == "succeeded"
    assert len(scene.world.store.data or b"") <= 65_536
    assert (await scene.push("again", args=[text_of(1000)]))["state"] == "ready"


@limits("MAX_JOB_BYTES", max_job_bytes=1024)
async def _so_large_arguments(scene: Scene) -> None:
    around = len('[""]') - len('""') + len("{}")  # the list around the text, and the kwargs
    assert (await scene.push("a", args=[text_of(1024 - around)]))["state"] == "ready"
    refused = (await scene.push("b", args=[text_of(1025 - around)]))["error"]
    assert (refused["code"], "MAX_JOB_BYTES" in refused["message"]) == ("too_large", True)


@limits("MAX_RESULT_BYTES", max_result_bytes=1024)
async def _so_large_results(scene: Scene) -> None:
    await scene.run_to_the_end("a", text_of(1024))
    assert (await scene.job("a"))["result"] == text_of(1024)
    await scene.run_to_the_end("b", text_of(1025))
    job = await scene.job("b")
    assert (job["state"], "result" in job) == ("succeeded", False)
    assert "MAX_RESULT_BYTES" in job["result_dropped"]


@limits("MAX_ERROR_BYTES", max_error_bytes=1024)
async def _so_large_errors(scene: Scene) -> None:
    async def kept_of(job_id: str, size_bytes: int) -> str:
        await scene.push(job_id, max_attempts=1)
        await scene.fail(await scene.take(), "a" + "m" * (size_bytes - 2) + "z")
        return str((await scene.job(job_id))["history"][0]["error"]["message"])

    most = 1024 // 4  # the message's share; the traceback has the rest
    assert "left out" not in await kept_of("a", most)
    shortened = await kept_of("b", most + 1)
    assert "left out" in shortened
    assert (shortened[0], shortened[-1]) == ("a", "z")
    assert len(shortened.encode()) <= most


@limits("MAX_QUEUES", max_queues=2)
async def _so_many_queues(scene: Scene) -> None:
    await scene.push("a", queue="one")
    assert (await scene.push("b", queue="two"))["state"] == "ready"
    refused = (await scene.push("c", queue="three"))["error"]
    assert (refused["code"], "MAX_QUEUES" in refused["message"]) == ("queue_full", True)
    assert (await scene.push("d", queue="one"))["state"] == "ready"


@limits("MAX_CLIENTS", max_clients=2)
async def _so_many_clients_are_remembered(scene: Scene) -> None:
    await scene.push("a", "1-one:1")
    assert (await scene.push("b", "1-two:1"))["state"] == "ready"
    refused = (await scene.push("c", "1-three:1"))["error"]
    assert (refused["code"], "MAX_CLIENTS" in refused["message"]) == ("overloaded", True)
    assert (await scene.push("d", "1-one:2"))["state"] == "ready"


@limits("MAX_ATTEMPTS")
async def _so_many_attempts(scene: Scene) -> None:
    await scene.push("j", max_attempts=2)  # where the backend puts the option
    assert (await scene.fail(await scene.take(), retry_after=0))["state"] == "ready"
    assert (await scene.fail(await scene.take(), retry_after=0))["state"] == "dead"
    assert (await scene.job("j"))["reason"] == "failed 2 of 2 attempts"


@limits("MAX_FINISHED", max_finished=2)
async def _so_many_results_are_kept(scene: Scene) -> None:
    for job_id in ("a", "b"):
        await scene.run_to_the_end(job_id)
    await scene.pass_s(1)
    assert await scene.job("a") is not None
    await scene.run_to_the_end("c")
    await scene.pass_s(1)
    assert await scene.job("a") is None  # the oldest
    assert await scene.job("b") is not None


@limits("MAX_DEAD", max_dead=2)
async def _so_many_dead_jobs_are_kept(scene: Scene) -> None:
    for job_id in ("a", "b"):
        await scene.bury(job_id)
    await scene.pass_s(1)
    assert await scene.job("a") is not None
    await scene.bury("c")
    await scene.pass_s(1)
    assert await scene.job("a") is None
    assert await scene.job("b") is not None


@limits("RESULT_TTL", result_ttl_s=100.0)
async def _so_long_results_are_kept(scene: Scene) -> None:
    await scene.run_to_the_end("j")
    await scene.pass_s(99)
    assert await scene.job("j") is not None
    await scene.pass_s(2)
    assert await scene.job("j") is None


@limits("DEAD_TTL", dead_ttl_s=100.0)
async def _so_long_dead_jobs_are_kept(scene: Scene) -> None:
    await scene.bury("j")
    await scene.pass_s(99)
    assert await scene.job("j") is not None
    await scene.pass_s(2)
    assert await scene.job("j") is None


@limits("DEDUPE_WINDOW", dedupe_window_s=100.0)
async def _so_long_requests_are_remembered(scene: Scene) -> None:
    await scene.push("j", "1-client:1")
    await scene.do("delete", request="1-client:2", ids=["j"], expected="ready")
    await scene.pass_s(99)
    assert "error" not in await scene.push("j", "1-client:1")  # known, and not done again
    assert await scene.job("j") is None
    await scene.pass_s(101)
    assert (await scene.push("j", "1-client:1"))["error"]["code"] == "expired_id"


@limits("HEARTBEAT_TIMEOUT")
async def _so_long_a_holder_may_be_silent(scene: Scene) -> None:
    await scene.push("j")
    token = await scene.take()
    await asyncio.sleep(T_S - 1)
    assert "lost" not in await scene.do("heartbeat", tokens=[token])
    await asyncio.sleep(T_S - 1)
    assert await scene.claim() == []
    await asyncio.sleep(2)
    assert (await scene.claim(wait_s=T_S / 4))[0]["id"] == "j"
    assert (await scene.do("heartbeat", tokens=[token]))["lost"] == [token]


@limits("BROKER_TTL", broker_ttl_s=10.0)
async def _so_long_a_leader_may_leave_a_challenge(scene: Scene) -> None:
    made = scene.world
    made.cut.update(made.brokers)  # so that nobody can tell whether it is dead
    await made.kill(scene.broker)
    standby = made.start(2, broker_ttl_s=10.0)
    while made.document().challenge is None:  # noqa: ASYNC110 - the loop's time is virtual
        await asyncio.sleep(0.01)
    await asyncio.sleep(9)
    assert not standby.leading
    await made.leads(standby)


@limits("COMPRESS_ABOVE", compress_above=3000)
async def _so_large_an_object_is_plain(scene: Scene) -> None:
    def stored() -> bytes:
        return scene.world.store.data or b""

    await scene.push("a", args=[text_of(1000)])
    assert stored().startswith(b"{")
    await scene.push("b", args=[text_of(2000)])
    assert stored().startswith(b"\x28\xb5\x2f\xfd")  # a frame of zstd
    assert len(stored()) < 3000


@pytest.mark.parametrize("option", LIMITS)
@virtual
async def test_a_limit_allows_its_value_and_no_more(option: str) -> None:
    show, options = LIMITS[option]
    async with scene(**options) as set_up:
        await show(set_up)


def test_every_option_that_is_a_limit_is_in_the_table() -> None:
    numbers = {field.name for field in fields(Options) if "low" in field.metadata}
    limited = {option for option, name in FIELD_BY_OPTION.items() if name in numbers}
    assert LIMITS.keys() | HELD_ELSEWHERE.keys() == limited


# --- bounds of a message -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "at", "over"),
    [
        ("claim", {"max": 1000}, {"max": 1001}),
        ("claim", {"max": 1}, {"max": 0}),
        ("claim", {"wait": 0}, {"wait": -1}),
        ("claim", {"queues": ["q"] * 100}, {"queues": ["q"] * 101}),
        ("claim", {"worker": "w" * 64}, {"worker": "w" * 65}),
        ("claim", {"claim": "c" * 64}, {"claim": "c" * 65}),
        ("heartbeat", {"tokens": ["t"] * 10_000}, {"tokens": ["t"] * 10_001}),
        ("heartbeat", {"tokens": ["t" * 64]}, {"tokens": ["t" * 65]}),
        ("release", {"tokens": ["t"] * 10_000}, {"tokens": ["t"] * 10_001}),
        ("release", {"tokens": ["t"]}, {"tokens": []}),
        ("get", {"ids": ["j"] * 1000}, {"ids": ["j"] * 1001}),
        ("get", {"ids": ["j" * 63]}, {"ids": ["j" * 64]}),
        ("pause", {"queue": "q" * 64}, {"queue": "q" * 65}),
        ("pause", {"request": "1-a:999999999999"}, {"request": "1-a:1000000000000"}),
        ("list", {"page": {"limit": 200}}, {"page": {"limit": 201}}),
    ],
    ids=str,
)
async def test_a_field_at_its_bound_is_taken_and_beyond_it_invalid(
    wire: Wire, op: str, at: dict[str, Any], over: dict[str, Any]
) -> None:
    socket = await wire.open("manage")
    reply = await socket.ask({**MESSAGES[op], **over, "id": 1, "op": op})
    assert reply["error"]["code"] == "invalid"
    assert next(iter(over)) in reply["error"]["message"]
    socket.send({**MESSAGES[op], **at, "id": 2, "op": op})
    await wire.broker.wait_submitted(1)


@pytest.mark.parametrize(
    ("at", "over"),
    [
        ({"priority": 100}, {"priority": 101}),
        ({"priority": -100}, {"priority": -101}),
        ({"id": "j" * 63}, {"id": "j" * 64}),
        ({"task": "t" * 256}, {"task": "t" * 257}),
        ({"queue": "q" * 64}, {"queue": "q" * 65}),
        ({"max_attempts": 100}, {"max_attempts": 101}),
        ({"max_attempts": 1}, {"max_attempts": 0}),
        ({"run_after": 253_402_300_799_999}, {"run_after": 253_402_300_800_000}),
    ],
    ids=str,
)
@virtual
async def test_a_job_at_its_bound_is_pushed_and_beyond_it_refused_alone(
    at: dict[str, Any], over: dict[str, Any]
) -> None:
    async with scene() as set_up:
        jobs = [{"id": "a", "task": "t", **over}, {"id": "b", "task": "t", **at}]
        answer = await set_up.do("push", request=set_up.request_id(), jobs=jobs)
        refused, pushed = answer["items"]
        assert refused["error"]["code"] == "invalid"
        assert pushed["state"] in ("ready", "scheduled")
