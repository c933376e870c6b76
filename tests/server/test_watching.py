"""A socket that watches: snapshot first, deltas under the same id, and none for a slow peer."""

from __future__ import annotations

from typing import Any

import pytest

from objq.core import ops
from objq.errors import Overloaded, Unavailable
from objq.server import consumer
from objq.tokens import Role
from tests.server.harness import HELLO, FakeSocket, Wire, bearer, token_for

WATCH: dict[str, Any] = {"id": 7, "op": "watch"}
SNAPSHOT = ops.Statistics(
    document="document-1",
    seq=5,
    epoch=1,
    at=1,
    broker=None,
    size_bytes=0,
    heartbeat_timeout_s=30.0,
    queues={},
)
LOOKS = ("list", "stats", "watch", "workers", "history")


def delta(seq: int) -> ops.Delta:
    return ops.Delta(after=seq - 1, seq=seq, epoch=1, at=1)


async def watching(wire: Wire) -> FakeSocket:
    socket = await wire.open("read")
    socket.send(WATCH)
    await wire.broker.wait_submitted(1)
    wire.broker.answer(0, SNAPSHOT)
    assert (await socket.frame())["ok"]["seq"] == 5
    return socket


def tell(wire: Wire, told: ops.Delta) -> bool:
    """Tell all, and return whether all took it."""
    watchers = list(wire.broker.watchers)
    return sum(watcher.tell(told) for watcher in watchers) == len(watchers)


@pytest.mark.parametrize("op", LOOKS)
@pytest.mark.parametrize("role", ["push", "work", "read", "manage"])
async def test_who_may_look(wire: Wire, role: Role, op: str) -> None:
    socket = await wire.open(role)
    socket.send({"id": 1, "op": op})
    if role in ("push", "work"):
        assert (await socket.frame())["error"]["code"] == "forbidden"
        assert not wire.broker.submitted and not wire.broker.watchers
    else:
        await wire.broker.wait_submitted(1)
        assert ops.op_name(wire.broker.submitted[0]) == op


@pytest.mark.parametrize(
    "page",
    [{"limit": 0}, {"limit": 201}, {"cursor": "x" * 257}, {"limit": "5"}],
)
async def test_a_page_out_of_bounds_is_invalid(wire: Wire, page: dict[str, Any]) -> None:
    socket = await wire.open("read")
    reply = await socket.ask({"id": 1, "op": "list", "page": page})
    assert reply["error"]["code"] == "invalid"


@pytest.mark.parametrize(
    "wanted",
    [{"text": ""}, {"text": "x" * 257}, {"states": ["odd"]}, {"queues": ["q"] * 101}],
)
async def test_a_filter_out_of_bounds_is_invalid(wire: Wire, wanted: dict[str, Any]) -> None:
    socket = await wire.open("read")
    reply = await socket.ask({"id": 1, "op": "list", "filter": wanted})
    assert reply["error"]["code"] == "invalid"


async def test_deltas_follow_the_snapshot_under_the_id_of_the_watch(wire: Wire) -> None:
    socket = await watching(wire)
    tell(wire, delta(6))
    tell(wire, delta(7))
    frame = await socket.frame()
    assert [(each["id"], each["delta"]["seq"]) for each in frame] == [(7, 6), (7, 7)]


async def test_no_delta_comes_before_the_snapshot(wire: Wire) -> None:
    socket = await wire.open("read")
    socket.send(WATCH)
    await wire.broker.wait_submitted(1)
    assert not tell(wire, delta(5))
    wire.broker.answer(0, SNAPSHOT)
    assert not tell(wire, delta(6))
    assert "ok" in await socket.frame()
    assert tell(wire, delta(7))
    assert (await socket.frame())["delta"]["seq"] == 7


async def test_a_second_watch_takes_the_place_of_the_first(wire: Wire) -> None:
    socket = await watching(wire)
    socket.send({**WATCH, "id": 8})
    await wire.broker.wait_submitted(2)
    tell(wire, delta(6))  # it was asked again because something is missing
    wire.broker.answer(1, SNAPSHOT)
    assert (await socket.frame())["id"] == 8
    tell(wire, delta(7))
    assert (await socket.frame())["id"] == 8
    assert len(wire.broker.watchers) == 1


async def test_a_watch_that_is_refused_watches_nothing(wire: Wire) -> None:
    socket = await wire.open("read")
    socket.send(WATCH)
    await wire.broker.wait_submitted(1)
    wire.broker.answer(0, Overloaded("too many", retry_after_s=5.0))
    assert (await socket.frame())["error"]["retry_after"] == 5.0
    tell(wire, delta(6))
    assert (await socket.ask({"id": 9, "op": "heartbeat", "tokens": []}))["error"]
    assert socket.silent


async def test_a_watch_that_the_broker_ends_is_told_so_and_gets_no_more(wire: Wire) -> None:
    socket = await watching(wire)
    (watcher,) = wire.broker.watchers
    assert watcher.refuse(Unavailable("cut from the store"))
    told = await socket.frame()
    assert (told["id"], told["error"]["code"]) == (7, "unavailable")
    watcher.tell(delta(6))
    assert socket.silent
    socket.send({**WATCH, "id": 8})
    await wire.broker.wait_submitted(2)
    wire.broker.answer(1, SNAPSHOT)
    assert "ok" in await socket.frame()


async def test_a_watch_is_not_ended_before_its_snapshot_was_sent(wire: Wire) -> None:
    socket = await wire.open("read")
    socket.send(WATCH)
    await wire.broker.wait_submitted(1)
    (watcher,) = wire.broker.watchers
    assert not watcher.refuse(Unavailable("cut from the store"))
    wire.broker.answer(0, SNAPSHOT)
    assert "ok" in await socket.frame()
    assert watcher.refuse(Unavailable("cut from the store"))


async def test_a_peer_that_does_not_read_gets_a_gap_and_no_buffer(wire: Wire) -> None:
    behind = False
    headers = bearer(token_for("read"))
    extensions = {consumer.BEHIND: lambda: behind}
    socket = await wire.connect(headers, extensions)
    await socket.ask(HELLO)
    socket.send(WATCH)
    await wire.broker.wait_submitted(1)
    wire.broker.answer(0, SNAPSHOT)
    await socket.frame()
    behind = True
    for seq in range(6, 100):
        tell(wire, delta(seq))
    behind = False
    tell(wire, delta(100))
    told = (await socket.frame())["delta"]
    assert (told["after"], told["seq"]) == (99, 100)
    assert socket.silent


async def test_a_socket_that_ends_watches_no_more(wire: Wire) -> None:
    socket = await watching(wire)
    await socket.leave()
    assert not wire.broker.watchers
    other = await watching_second(wire)
    wire.sockets.reset()
    assert not wire.broker.watchers
    assert await other.closed() == 1012


async def watching_second(wire: Wire) -> FakeSocket:
    socket = await wire.open("manage")
    socket.send(WATCH)
    await wire.broker.wait_submitted(2)
    wire.broker.answer(1, SNAPSHOT)
    await socket.frame()
    return socket


async def test_a_delta_is_encoded_once_for_everybody(wire: Wire) -> None:
    first, second = await watching(wire), await watching_second(wire)
    told = delta(6)
    tell(wire, told)
    assert wire.sockets.encoded(told) is wire.sockets.encoded(told)
    assert (await first.frame()) == (await second.frame())


async def test_workers_sit_in_the_roster_while_their_socket_is_open(wire: Wire) -> None:
    worker = await wire.open()
    assert len(wire.broker.roster) == 1
    await worker.ask({**HELLO, "id": 5, "slots": 9})
    assert len(wire.broker.roster) == 1
    pusher = await wire.connect(bearer(token_for("push")))
    await pusher.ask({"id": 0, "op": "hello", "client": "test"})
    assert len(wire.broker.roster) == 1
    await worker.leave()
    assert len(wire.broker.roster) == 0
