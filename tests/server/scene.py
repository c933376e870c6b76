"""A real broker on virtual time, and sockets to it through the real consumer, without a network."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

from objq.broker.broker import Broker
from objq.core.document import Document
from objq.server.sockets import Sockets
from objq.tokens import Role, make_token
from tests.broker.world import World, world
from tests.server.harness import HELLO, FakeSocket, bearer


class Scene:
    """Ask the broker as a client does: requests are JSON, and so are answers."""

    def __init__(self, made: World, broker: Broker) -> None:
        self.world = made
        self.broker = broker
        self.sockets = Sockets(broker)
        broker.on_reset.append(self.sockets.reset)
        self.opened: list[FakeSocket] = []
        self._numbers = itertools.count(1)

    def connect(self, headers: list[tuple[bytes, bytes]]) -> FakeSocket:
        socket = FakeSocket(self.sockets, headers, {})
        self.opened.append(socket)
        return socket

    async def open(self, role: Role = "manage") -> FakeSocket:
        """Return a socket that was accepted and has said hello."""
        token = make_token(role, self.broker.document or "", self.broker.id)
        socket = self.connect(bearer(token))
        assert (await socket.event())["type"] == "websocket.accept"
        assert "ok" in await socket.ask(HELLO)
        return socket

    async def socket(self) -> FakeSocket:
        return self.opened[0] if self.opened else await self.open()

    def message(self, op: str, **fields: Any) -> dict[str, Any]:
        return {"id": next(self._numbers), "op": op, **fields}

    def request_id(self) -> str:
        """Return a new request id, from a seq that was just seen."""
        return f"{self.document().seq}-scene:{next(self._numbers)}"

    async def ask(self, op: str, **fields: Any) -> Any:
        """Return the whole reply, with `ok` or `error`."""
        return await (await self.socket()).ask(self.message(op, **fields))

    async def do(self, op: str, **fields: Any) -> Any:
        """Return what is in `ok`."""
        reply = await self.ask(op, **fields)
        assert "ok" in reply, reply
        return reply["ok"]

    async def push(self, job_id: str, request: str | None = None, **fields: Any) -> Any:
        """Push one job; return its outcome, or the error of the whole request."""
        job = {"id": job_id, "task": "tasks.t", **fields}
        reply = await self.ask("push", request=request or self.request_id(), jobs=[job])
        return reply["ok"]["items"][0] if "ok" in reply else reply

    async def claim(self, most: int = 1, wait_s: float = 0.0) -> list[dict[str, Any]]:
        answer = await self.do("claim", claim=self.request_id(), max=most, wait=wait_s)
        granted: list[dict[str, Any]] = answer.get("jobs", [])
        return granted

    async def take(self) -> str:
        """Claim one job and return its token."""
        (job,) = await self.claim()
        return str(job["token"])

    async def complete(self, token: str, result: Any = None) -> Any:
        answer = await self.do("complete", items=[{"token": token, "result": result}])
        return answer["items"][0]

    async def fail(self, token: str, message: str = "no", **fields: Any) -> Any:
        error = {"type": "builtins.ValueError", "message": message}
        answer = await self.do("fail", items=[{"token": token, "error": error, **fields}])
        return answer["items"][0]

    async def job(self, job_id: str) -> Any:
        """Return a job as `get` shows it, or None."""
        return (await self.do("get", ids=[job_id]))["jobs"][0]

    async def run_to_the_end(self, job_id: str, result: Any = None) -> None:
        await self.push(job_id)
        await self.complete(await self.take(), result)

    async def bury(self, job_id: str) -> None:
        """Push a job and let it die."""
        await self.push(job_id, max_attempts=1)
        assert (await self.fail(await self.take()))["state"] == "dead"

    async def pass_s(self, seconds: float) -> None:
        """Let time pass, and then something be committed: what is old goes along with that."""
        await asyncio.sleep(seconds)
        await self.do("pause", request=self.request_id(), queue="clock")
        await self.do("resume", request=self.request_id(), queue="clock")

    def document(self) -> Document:
        return self.world.document()


def text_of(size_bytes: int) -> str:
    """Return a text whose JSON has so many bytes."""
    text = "x" * (size_bytes - 2)
    assert len(json.dumps(text)) == size_bytes
    return text


@contextlib.asynccontextmanager
async def scene(**options: Any) -> AsyncIterator[Scene]:
    """A broker that leads under these options, until the end of the test."""
    async with world() as made:
        made.store.latency_s = 0.01
        set_up = Scene(made, await made.lead(**options))
        try:
            yield set_up
        finally:
            for socket in set_up.opened:
                if not socket.task.done():
                    await socket.leave()
