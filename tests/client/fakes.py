"""A store, brokers and a network in memory, for sessions on a virtual clock.

The brokers here apply the real rules to the real document, so that what lands twice is seen.
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

import msgspec

from objq import wire
from objq.client.client import Client
from objq.client.seam import ConnectionEnded, ConnectionRefused
from objq.client.session import Session
from objq.core import ops
from objq.core.codec import HEAD_BYTES, decode, seal
from objq.core.document import Document
from objq.core.leading import take_over
from objq.core.rules import apply
from objq.core.statistics import statistics
from objq.errors import NotBroker, ObjqError, Rejected
from objq.ids import Ids
from objq.options import Options
from objq.store.base import ABSENT, NOT_MODIFIED, Conflict, Content, Sentinel, Tag
from tests.virtual import VirtualClock

DOCUMENT: Final = "document-1"
URL: Final = "ws://broker-1/objq/v1/"

Handler = Callable[["Socket", int, ops.Op], ops.Answer | ObjqError | None]


class FakeStore:
    """An `AsyncStore` in memory. `before` is awaited first in every call, with the call's name."""

    name = "fake://queue.json"
    pace_s = 0.0

    def __init__(self) -> None:
        self.content: Content | None = None
        self.calls: list[str] = []
        self.before: Callable[[str], Coroutine[Any, Any, None]] | None = None
        self.after_write: Callable[[], None] | None = None
        self._versions = 0

    async def read(self, unless: Tag | None = None) -> Content | Sentinel | None:
        await self._called("read")
        content = self.content
        return NOT_MODIFIED if content is not None and content.tag == unless else content

    async def read_head(self) -> Content | None:
        await self._called("read_head")
        content = self.content
        return content and content._replace(data=content.data[:HEAD_BYTES])

    async def write(self, data: bytes, expect: Tag | Sentinel) -> Tag:
        await self._called("write")
        tag = self.put(data, expect)
        if self.after_write is not None:
            self.after_write()
        return tag

    def put(self, data: bytes, expect: Tag | Sentinel) -> Tag:
        found = ABSENT if self.content is None else self.content.tag
        if found != expect:
            raise Conflict("changed")
        self._versions += 1
        self.content = Content(data, Tag(str(self._versions)))
        return self.content.tag

    def document(self) -> Document:
        assert self.content is not None
        return decode(self.content.data)

    async def _called(self, name: str) -> None:
        self.calls.append(name)
        await asyncio.sleep(0)
        if self.before is not None:
            await self.before(name)


class Socket:
    """One connection, seen from both ends."""

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self._to_client: asyncio.Queue[str | None] = asyncio.Queue()
        self._ended = False

    # the client's end: a `Transport`

    async def send(self, text: str) -> None:
        if self._ended:
            raise ConnectionEnded("cut")
        self.broker.received(self, text)
        await asyncio.sleep(0)

    async def recv(self) -> str:
        text = await self._to_client.get()
        if text is None:
            self._to_client.put_nowait(None)
            raise ConnectionEnded("cut")
        return text

    async def close(self) -> None:
        self.cut()

    # the broker's end

    def reply(self, number: int, answer: ops.Answer | ObjqError) -> None:
        if isinstance(answer, ObjqError):
            message = wire.encode_error(number, answer)
        else:
            message = wire.encode_answer(number, answer)
        self._to_client.put_nowait(message.decode())

    def cut(self) -> None:
        self._ended = True
        self._to_client.put_nowait(None)


class FakeBroker:
    """Serves one store. `handler` may answer an operation otherwise, or with None not at all."""

    def __init__(self, world: World, broker_id: str, url: str) -> None:
        self.world = world
        self.id = broker_id
        self.url = url
        self.epoch = 0
        self.frames: list[str] = []
        self.ops: list[ops.Op] = []
        self.sockets: list[Socket] = []
        self.handler: Handler | None = None
        self.heard: asyncio.Queue[ops.Op] = asyncio.Queue()
        """Every operation but `hello`, once it was handled."""

    def lead(self) -> FakeBroker:
        """Take over, as the next epoch."""

        def change(document: Document) -> None:
            info = ops.BrokerInfo(id=self.id, url=self.url, since=1, version="0")
            take_over(document, info, self.world.options.document_settings())
            self.epoch = document.epoch

        self.world.commit(change)
        self.world.brokers[self.url] = self
        return self

    def stop(self) -> None:
        """Vanish: refuse connections and cut those that are there."""
        self.world.brokers.pop(self.url, None)
        for socket in self.sockets:
            socket.cut()

    def received(self, socket: Socket, text: str) -> None:
        self.frames.append(text)
        for incoming in wire.decode_frame(text):
            assert not isinstance(incoming.op, Rejected), incoming.op
            assert incoming.id is not None
            op = incoming.op
            self.ops.append(op)
            custom = self.handler is not None and not isinstance(op, ops.Hello)
            answer = (
                self.handler(socket, incoming.id, op)
                if custom and self.handler is not None
                else self.answer(op)
            )
            if answer is not None:
                socket.reply(incoming.id, answer)
            if not isinstance(op, ops.Hello):
                self.heard.put_nowait(op)

    def answer(self, op: ops.Op) -> ops.Answer | ObjqError:
        """Answer by the rules, with a commit for every operation."""
        document = self.world.store.document()
        if document.broker is None or document.broker.id != self.id:
            url = document.broker.url if document.broker is not None else None
            return NotBroker("stands by", url=url)
        if isinstance(op, ops.Hello):
            return self._welcome(document)
        if isinstance(op, ops.Get):
            return ops.Jobs(position=(document.epoch, document.seq, 0), jobs=document.views(op.ids))
        if isinstance(op, ops.Stats | ops.Watch):
            return statistics(document, lambda token: None)
        if isinstance(op, ops.Heartbeat):
            return ops.Beaten(lost=tuple(t for t in op.tokens if t not in document.claims))
        return self.world.apply(op, self.epoch)

    def _welcome(self, document: Document) -> ops.Welcome:
        return ops.Welcome(
            document=document.id,
            broker=self.id,
            epoch=document.epoch,
            seq=document.seq,
            role="manage",
            version="0",
            settings=document.settings,
            limits={},
        )


class World:
    """One document, its store, whoever leads it, and clients. Make it inside a running loop."""

    def __init__(self, *, empty: bool = False, seed: int = 1, **options: Any) -> None:
        self.options = Options(storage="objq", **options)
        self.clock = VirtualClock()
        self.ids = Ids(random.Random(seed))
        self.store = FakeStore()
        self.brokers: dict[str, FakeBroker] = {}
        self.connects: list[str] = []
        self.silent: set[str] = set()
        """Addresses that neither answer nor refuse."""
        self.tokens: list[str] = []
        self.sessions: list[Session] = []
        if not empty:
            document = Document.new(DOCUMENT, self.options.document_settings(), 1)
            data = seal(document, self.ids.token(), self.clock.wall_ms(), leading=False)
            self.store.put(data, ABSENT)

    def broker(self, broker_id: str = "broker-1") -> FakeBroker:
        return FakeBroker(self, broker_id, f"ws://{broker_id}/objq/v1/")

    def session(self, **options: Any) -> Session:
        session = Session(
            dataclasses.replace(self.options, **options),
            self.store,
            self.connect,
            self._token,
            ops.Hello(client="client-1"),
            clock=self.clock,
            ids=self.ids,
        )
        self.sessions.append(session)
        return session

    def client(self, **options: Any) -> Client:
        return Client(self.session(**options))

    async def connect(self, url: str, headers: Mapping[str, str]) -> Socket:
        self.connects.append(url)
        self.tokens.append(headers["Authorization"])
        await asyncio.sleep(3600 if url in self.silent else 0)
        broker = self.brokers.get(url)
        if broker is None:
            raise ConnectionRefused("refused")
        socket = Socket(broker)
        broker.sockets.append(socket)
        return socket

    def commit(self, change: Callable[[Document], None]) -> Document:
        document = self.store.document()
        assert self.store.content is not None
        change(document)
        data = seal(document, self.ids.token(), self.clock.wall_ms(), leading=True)
        self.store.put(data, self.store.content.tag)
        return document

    def reach(self, seq: int) -> None:
        """Commit until the document is there."""
        while self.commit(lambda document: None).seq < seq:
            pass

    def apply(self, op: Any, epoch: int) -> ops.Answer | ObjqError:
        answer: list[ops.Answer] = []

        def change(document: Document) -> None:
            now = self.clock.wall_ms()
            applied = apply(document, op, now, mint=self.ids.token, epoch=epoch)
            answer.append(applied.answer)

        try:
            document = self.commit(change)
        except Rejected as error:
            return error
        return msgspec.structs.replace(answer[0], position=(document.epoch, document.seq, 0))

    def job(self, number: int = 1) -> ops.NewJob:
        return ops.NewJob(id=f"job-{number}", task="shop.tasks.send")

    def jobs(self) -> list[str]:
        return list(self.store.document().jobs)

    def _token(self, document: str, broker: str) -> str:
        return f"{document}/{broker}"
