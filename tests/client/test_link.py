"""One connection: frames, bounds, and what its end means."""

from __future__ import annotations

import asyncio
import json
import socket

import pytest

from objq import wire
from objq.client import link as link_module
from objq.client.link import Link, LinkLost
from objq.client.seam import ConnectionEnded, ConnectionRefused
from objq.client.transport import open_websocket
from objq.core import ops
from objq.errors import Overloaded, TooLarge, Unauthorized
from tests.virtual import VirtualClock, virtual


class Pipe:
    """A transport whose other end is the test. While `blocked`, the peer reads nothing."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.replies: asyncio.Queue[str | None] = asyncio.Queue()
        self.unblocked = asyncio.Event()
        self.unblocked.set()
        self.closed = False

    async def send(self, text: str) -> None:
        self.sent.append(text)
        await self.unblocked.wait()

    async def recv(self) -> str:
        text = await self.replies.get()
        if text is None:
            raise ConnectionEnded("gone")
        return text

    async def close(self) -> None:
        self.closed = True


def push(number: int, size: int = 0) -> ops.Push:
    job = ops.NewJob(id=f"job-{number}", task="t" * max(size, 1))
    return ops.Push(request=f"1-a:{number}", jobs=(job,))


@virtual
async def test_what_is_asked_in_one_turn_shares_a_frame() -> None:
    pipe = Pipe()
    link = Link(pipe, VirtualClock())
    calls = [asyncio.create_task(link.call(push(n))) for n in range(100)]
    await asyncio.sleep(0.01)
    assert len(pipe.sent) == 1
    messages = json.loads(pipe.sent[0])
    assert [message["request"] for message in messages] == [f"1-a:{n}" for n in range(100)]

    replies = [wire.encode_answer(message["id"], ops.Outcomes(items=())) for message in messages]
    for text in wire.frames(reversed(replies)):
        pipe.replies.put_nowait(text)
    assert len(await asyncio.gather(*calls)) == 100
    await link.close()
    assert pipe.closed


@virtual
async def test_a_peer_that_said_why_before_it_closed_is_heard_though_the_send_fails_first() -> None:
    class Shut(Pipe):
        async def send(self, text: str) -> None:
            raise ConnectionEnded("received 4401")

        async def recv(self) -> str:
            await asyncio.sleep(0.01)  # it is read, but not in the same instant
            return await super().recv()

    pipe = Shut()
    refusal = wire.encode_error(None, Unauthorized("The token is not signed with this SECRET_KEY."))
    for text in wire.frames([refusal]):
        pipe.replies.put_nowait(text)
    link = Link(pipe, VirtualClock())
    with pytest.raises(LinkLost) as lost:
        await link.call(push(1))
    assert isinstance(lost.value.error, Unauthorized)
    await link.close()


@virtual
async def test_frames_stay_under_the_limit() -> None:
    pipe = Pipe()
    link = Link(pipe, VirtualClock())
    calls = [asyncio.create_task(link.call(push(n, 300_000))) for n in range(10)]
    await asyncio.sleep(0.01)
    assert len(pipe.sent) == 4
    assert all(len(frame) <= wire.MAX_FRAME_BYTES for frame in pipe.sent)
    for call in calls:
        call.cancel()
    await link.close()


@virtual
async def test_what_no_frame_holds_is_refused_unsent() -> None:
    pipe = Pipe()
    link = Link(pipe, VirtualClock())
    with pytest.raises(TooLarge):
        await link.call(push(1, wire.MAX_FRAME_BYTES))
    assert pipe.sent == []
    await link.close()


@virtual
async def test_outbox_is_bounded_but_lets_reports_through() -> None:
    pipe = Pipe()
    pipe.unblocked.clear()
    link = Link(pipe, VirtualClock())
    calls = [asyncio.create_task(link.call(push(0)))]
    await asyncio.sleep(0.01)
    size = wire.MAX_FRAME_BYTES // 2
    enough = link_module.MAX_OUTBOX_BYTES // size + 1
    calls += [asyncio.create_task(link.call(push(n, size))) for n in range(enough)]
    await asyncio.sleep(0.01)

    with pytest.raises(Overloaded) as caught:
        await link.call(push(1))
    assert caught.value.retry_after_s

    calls.append(asyncio.create_task(link.call(ops.Heartbeat(tokens=("a",)))))
    pipe.unblocked.set()
    await asyncio.sleep(0.01)
    assert any('"heartbeat"' in frame for frame in pipe.sent)
    for call in calls:
        call.cancel()
    await link.close()


@virtual
async def test_end_of_the_connection_tells_what_was_sent() -> None:
    pipe = Pipe()
    pipe.unblocked.clear()
    link = Link(pipe, VirtualClock())
    sent: list[int] = []
    first = asyncio.create_task(link.call(push(1), lambda: sent.append(1)))
    await asyncio.sleep(0.01)
    second = asyncio.create_task(link.call(push(2), lambda: sent.append(2)))
    await asyncio.sleep(0.01)
    pipe.replies.put_nowait(None)
    for call in (first, second):
        with pytest.raises(LinkLost, match="gone"):
            await call
    assert sent == [1]
    assert not link.is_open
    with pytest.raises(LinkLost):
        await link.call(push(3))
    await link.close()


@virtual
async def test_request_whose_caller_has_gone_is_not_sent() -> None:
    pipe = Pipe()
    pipe.unblocked.clear()
    link = Link(pipe, VirtualClock())
    first = asyncio.create_task(link.call(push(1)))
    await asyncio.sleep(0.01)
    second = asyncio.create_task(link.call(push(2)))
    await asyncio.sleep(0.01)
    second.cancel()
    await asyncio.sleep(0.01)
    pipe.unblocked.set()
    await asyncio.sleep(0.01)
    assert len(pipe.sent) == 1
    first.cancel()
    await link.close()


@pytest.mark.parametrize("frame", ["{", "[]x", '{"id": null, "error": {"code": "invalid"}}', "7"])
def test_nonsense_ends_the_link(frame: str) -> None:
    async def scenario() -> None:
        pipe = Pipe()
        link = Link(pipe, VirtualClock())
        call = asyncio.create_task(link.call(push(1)))
        await asyncio.sleep(0.01)
        pipe.replies.put_nowait(frame)
        with pytest.raises(LinkLost):
            await call
        await link.close()

    virtual(scenario)()


@virtual
async def test_refusal_of_the_socket_carries_the_reason() -> None:
    pipe = Pipe()
    link = Link(pipe, VirtualClock())
    call = asyncio.create_task(link.hello(ops.Hello(client="c")))
    await asyncio.sleep(0.01)
    pipe.replies.put_nowait(wire.encode_error(None, Unauthorized("bad token")).decode())
    with pytest.raises(LinkLost) as caught:
        await call
    assert isinstance(caught.value.error, Unauthorized)
    await link.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_port_where_nothing_listens_refuses(host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(ConnectionRefused):
        await open_websocket(f"ws://{host}:{port}/objq/v1/", {})
