"""The consumer under fuzz: a real broker on virtual time, and sockets without a network.

Each input is what one client sends: frames, with `SEPARATOR` between them. Every message of every
frame is answered, in virtual time, or the socket is closed with one of its codes; and whatever a
client sends, another one is served.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from hypothesis import strategies as st

from objq.errors import BY_CODE
from objq.tokens import ROLES
from tests.fuzz import corpus
from tests.fuzz.guard import Violation
from tests.fuzz.targets import Target, as_frame, count_messages, require
from tests.server.harness import FakeSocket
from tests.server.scene import Scene, scene
from tests.virtual import VirtualLoop

SEPARATOR: Final = b"\n\n\n"
FRAMES: Final = 8
"""Of one input; what follows is cut off."""

CLOSE_CODES: Final = frozenset({1001, 1012, 1013, 4401, 4403, 4410})
PROBE: Final = 4_242_424_242
PATIENCE_S: Final = 120.0
"""Of virtual time, for an answer: far beyond every wait that there is."""

MOST_SENT_BYTES: Final = 64 * 1024 * 1024
"""To one client, for one input."""


class Sockets:
    """Keeps one broker over all inputs. The document stays small: its limits are part of this."""

    def __init__(self) -> None:
        self.loop = VirtualLoop()
        self._stack = contextlib.AsyncExitStack()
        self._roles = itertools.cycle(ROLES)
        self._fed = 0
        self._scene: Scene = self.loop.run_until_complete(self._open())

    async def _open(self) -> Scene:
        made = await self._stack.enter_async_context(
            scene(max_jobs=40, max_bytes=1 << 20, max_clients=30, max_finished=20, max_dead=20)
        )
        made.sockets.broker = made.broker
        await made.push("large", args=["x" * 250_000])
        return made

    def close(self) -> None:
        self.loop.run_until_complete(self._stack.aclose())
        self.loop.close()

    def feed(self, data: bytes) -> Iterator[str]:
        """Send an input, and return what each of its messages was told."""
        return iter(self.loop.run_until_complete(self._feed(data)).elements())

    async def _feed(self, data: bytes) -> Counter[str]:
        # Under a role that may do everything every other time, so that what it asks is done.
        self._fed += 1
        role = "manage" if self._fed % 2 else next(self._roles)
        data = self._up_to_date(data)
        socket = await self._scene.open(role)
        told: Counter[str] = Counter()
        try:
            await self._send_all(socket, data, told)
        finally:
            self._scene.opened.remove(socket)
            await socket.leave()
        await self._check_others()
        return told

    def _up_to_date(self, data: bytes) -> bytes:
        """Put ids into the examples that mean something now."""
        document = self._scene.document()
        data = data.replace(b'"1-fuzz:', b'"%d-fuzz%d:' % (document.seq, self._fed))
        data = data.replace(b'"job-1"', b'"job-%d"' % (self._fed % 20))
        token = next(iter(document.claims), None)
        return data if token is None else data.replace(b'"t"', json.dumps(token).encode())

    async def _send_all(self, socket: FakeSocket, data: bytes, told: Counter[str]) -> None:
        wanted: int | None = 0
        least = sent_bytes = 0
        for part in data.split(SEPARATOR)[:FRAMES]:
            text = as_frame(part)
            count = count_messages(text)
            least += count or 1
            wanted = None if count is None or wanted is None else wanted + count
            if isinstance(text, bytes):
                socket.send_bytes(text)
            else:
                socket.send_text(text)
        # A claim may wait, so the probe is sent when nothing waits any more.
        await asyncio.sleep(PATIENCE_S)
        socket.send({"id": PROBE, "op": "heartbeat", "tokens": []})
        answers = 0
        while True:
            try:
                event = await socket.event()
            except TimeoutError:
                raise Violation("a client that is answered waits for ever") from None
            if event["type"] == "websocket.close":
                require(event["code"] in CLOSE_CODES, f"closed with {event['code']}")
                told[f"closed {event['code']}"] += 1
                return
            sent_bytes += len(event["text"])
            require(sent_bytes <= MOST_SENT_BYTES, f"{sent_bytes:,} bytes of answers")
            value = json.loads(event["text"])
            for reply in value if isinstance(value, list) else [value]:
                if reply["id"] == PROBE:
                    self._check_count(answers, wanted, least)
                    return
                if "delta" not in reply:
                    answers += 1
                    told[_outcome(reply)] += 1

    def _check_count(self, answers: int, wanted: int | None, least: int) -> None:
        require(wanted is None or answers == wanted, f"{answers} answers to {wanted} messages")
        require(answers >= least, f"{answers} answers to {least} messages or more")

    async def _check_others(self) -> None:
        """Check that somebody else is served, and that nobody is left waiting."""
        reply = await self._scene.ask("heartbeat", tokens=[])
        if "ok" not in reply:
            raise Violation(f"another client was told {reply}")


def _outcome(reply: dict[str, Any]) -> str:
    require(("ok" in reply) != ("error" in reply), f"neither an answer nor an error: {reply}")
    if "ok" in reply:
        return "ok"
    code = reply["error"]["code"]
    require(code in BY_CODE, f"an unknown code: {code}")
    return str(code)


def _seeds() -> list[bytes]:
    frames = [frame for frame in corpus.frames() if len(frame) < 60_000]
    together = SEPARATOR.join(corpus.text_of(message) for message in corpus.MESSAGES[1:9])
    return [together, *frames]


def target(sockets: Sockets) -> Target:
    return Target(
        name="socket",
        feed=sockets.feed,
        seeds=_seeds,
        strategy=st.lists(corpus.hostile_frames, min_size=1, max_size=3).map(SEPARATOR.join),
    )
