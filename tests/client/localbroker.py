"""A small broker on a real port, in a thread: the real rules and wire, a commit per frame."""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType
from typing import Any, Self

import msgspec
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from objq import wire
from objq.clock import SYSTEM_CLOCK
from objq.core import ops
from objq.core.codec import decode, seal
from objq.core.document import Document
from objq.core.leading import take_over
from objq.core.listing import Listing
from objq.core.rules import apply
from objq.core.statistics import statistics
from objq.errors import ObjqError, Rejected
from objq.ids import Ids
from objq.store.base import ABSENT, Content, Store


class LocalBroker:
    """Leads the document of `store`, which it creates, while the `with` block lasts."""

    def __init__(self, store: Store) -> None:
        self.id = "local"
        self.frames: list[str] = []
        self.pushes: list[ops.Push] = []
        self.connections = 0
        self.deaf = threading.Event()
        """While set, nothing is answered."""
        self.heard = threading.Event()
        """Set by every frame but `hello`."""
        self._ids = Ids()
        self._store = store
        self._stopped = asyncio.Event()
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), daemon=True)
        self._sockets: set[ServerConnection] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(10)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(10)
        assert not self._thread.is_alive()

    def cut_all(self) -> None:
        """Drop all connections without a closing handshake."""

        def cut() -> None:
            for socket in self._sockets:
                socket.transport.abort()

        self._loop.call_soon_threadsafe(cut)

    def document(self) -> Document:
        content = self._store.read()
        assert isinstance(content, Content)
        return decode(content.data)

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with serve(self._serve, "127.0.0.1", 0, compression=None) as server:
            self._lead(server)
            self._started.set()
            await self._stopped.wait()

    def _lead(self, server: Server) -> None:
        host, port = next(iter(server.sockets)).getsockname()[:2]
        document = Document.new("document-1", ops.DocumentSettings(), 1)
        url = f"ws://{host}:{port}/objq/v1/"
        info = ops.BrokerInfo(id=self.id, url=url, since=1, version="0")
        take_over(document, info, document.settings)
        self._write(document, ABSENT)

    async def _serve(self, socket: ServerConnection) -> None:
        self.connections += 1
        self._sockets.add(socket)
        try:
            async for frame in socket:
                assert isinstance(frame, str)
                self.frames.append(frame)
                replies = [
                    reply for request in wire.decode_frame(frame) for reply in self._do(request)
                ]
                for text in wire.frames(replies):
                    await socket.send(text)
        except ConnectionClosed:
            pass
        finally:
            self._sockets.discard(socket)

    def _do(self, request: Any) -> list[bytes]:
        assert not isinstance(request.op, ObjqError), request.op
        if not isinstance(request.op, ops.Hello):
            self.heard.set()
            if self.deaf.is_set():
                return []
        try:
            return [wire.encode_answer(request.id, self._answer(request.op))]
        except Rejected as error:
            return [wire.encode_error(request.id, error)]

    def _answer(self, op: Any) -> ops.Answer:
        content = self._store.read()
        assert isinstance(content, Content)
        document = decode(content.data)
        if isinstance(op, ops.Hello):
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
        if isinstance(op, ops.Get):
            return ops.Jobs(jobs=document.views(op.ids))
        if isinstance(op, ops.Stats | ops.Watch):
            return statistics(document, lambda token: None)
        if isinstance(op, ops.ListJobs):
            return Listing().page(document, op, lambda token: None)
        if isinstance(op, ops.Push):
            self.pushes.append(op)
        now = SYSTEM_CLOCK.wall_ms()
        applied = apply(document, op, now, mint=self._ids.token, epoch=document.epoch)
        self._write(document, content.tag)
        position = (document.epoch, document.seq, 0)
        return msgspec.structs.replace(applied.answer, position=position)

    def _write(self, document: Document, expect: Any) -> None:
        commit = self._ids.token()
        self._store.write(seal(document, commit, SYSTEM_CLOCK.wall_ms(), leading=True), expect)
