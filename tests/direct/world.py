"""Direct sessions, and brokers that they meet, on one store and on virtual time.

The brokers are real ones. What a session sends to the URL that one advertises goes through the
wire's own encoding to `Broker.submit`, without a server between.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any

from objq import wire
from objq.broker.broker import Broker
from objq.client.client import Client
from objq.client.seam import ConnectionEnded
from objq.client.session import Session
from objq.core import ops
from objq.errors import ObjqError
from objq.ids import Ids
from objq.options import Options
from objq.store.base import AsyncStore
from tests.broker.fakestore import FakeStore
from tests.broker.world import DEFAULTS, World


class Socket:
    """A connection to a broker in this process; it ends when the broker is killed or resets it."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._frames: asyncio.Queue[str | None] = asyncio.Queue()
        self._ended = False
        broker.on_reset.append(self.cut)

    async def send(self, text: str) -> None:
        if self._ended:
            raise ConnectionEnded("cut")
        for incoming in wire.decode_frame(text):
            assert incoming.id is not None
            assert isinstance(incoming.op, ops.Op), incoming.op
            self._do(incoming.id, incoming.op)

    def _do(self, number: int, op: Any) -> None:
        if isinstance(op, ops.Hello):
            try:
                self._reply(number, self._broker.welcome("work"))
            except ObjqError as error:
                self._reply(number, error)
            return
        self._broker.submit(op).add_done_callback(partial(self._done, number))

    def _done(self, number: int, future: asyncio.Future[ops.Answer]) -> None:
        if future.cancelled():
            return
        error = future.exception()
        if error is None:
            self._reply(number, future.result())
        elif isinstance(error, ObjqError):
            self._reply(number, error)

    def _reply(self, number: int, answer: ops.Answer | ObjqError) -> None:
        failed = isinstance(answer, ObjqError)
        message = (
            wire.encode_error(number, answer)  # type: ignore[arg-type]
            if failed
            else wire.encode_answer(number, answer)  # type: ignore[arg-type]
        )
        self._frames.put_nowait(message.decode())

    async def recv(self) -> str:
        frame = await self._frames.get()
        if frame is None:
            self.cut()
            raise ConnectionEnded("cut")
        return frame

    async def close(self) -> None:
        self.cut()

    def cut(self) -> None:
        self._ended = True
        self._frames.put_nowait(None)


class DirectWorld(World):
    """Also has sessions with `MODE = "direct"`, each a process of its own."""

    def __init__(self, store: FakeStore | None = None) -> None:
        super().__init__(store)
        self.sockets: dict[Broker, list[Socket]] = {}
        self.sessions: list[Session] = []
        self.connects = 0

    def session(
        self,
        *,
        store: AsyncStore | None = None,
        clock: Any = None,
        seen: set[str] | None = None,
        **options: Any,
    ) -> Session:
        given = Options(storage="objq", **{**DEFAULTS, "mode": "direct", **options})
        number = len(self.sessions) + 1
        session = Session(
            given,
            store or self.store,
            self.connect,
            lambda document, broker: f"{document}/{broker}",
            ops.Hello(client=f"client-{number}"),
            clock=clock or self.clock,
            ids=Ids(random.Random(100 + number)),
            seen=set() if seen is None else seen,
        )
        self.sessions.append(session)
        return session

    def client(self, **options: Any) -> Client:
        return Client(self.session(**options))

    async def connect(self, url: str, headers: Mapping[str, str]) -> Socket:
        self.connects += 1
        await asyncio.sleep(0)
        broker = self.brokers.get(url)
        if broker is None or url in self.cut:
            raise ConnectionEnded("refused")
        socket = Socket(broker)
        self.sockets.setdefault(broker, []).append(socket)
        return socket

    async def kill(self, broker: Broker) -> None:
        await super().kill(broker)
        self._cut_all(broker)

    async def stop(self, broker: Broker) -> None:
        """End a broker gracefully."""
        await broker.stop()
        for url in [url for url, other in self.brokers.items() if other is broker]:
            del self.brokers[url]
        await self.tasks.pop(broker)
        self._cut_all(broker)

    def _cut_all(self, broker: Broker) -> None:
        for socket in self.sockets.pop(broker, []):
            socket.cut()


@contextlib.asynccontextmanager
async def direct_world(store: FakeStore | None = None) -> AsyncIterator[DirectWorld]:
    """A world whose sessions are closed and whose brokers are killed at the end."""
    made = DirectWorld(store)
    try:
        yield made
    finally:
        for session in made.sessions:
            await session.close()
        for broker in list(made.tasks):
            await made.kill(broker)
