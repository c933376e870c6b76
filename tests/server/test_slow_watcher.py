"""A real socket whose peer watches and does not read: nothing piles up for it, and it is kept."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from websockets.asyncio.client import ClientConnection

from objq.core import ops
from objq.server import listener
from tests.server.fakes import FakeBroker
from tests.server.harness import HELLO
from tests.server.test_server import BEAT, Run, ask, dial, run, serving
from tests.server.test_watching import SNAPSHOT

__all__ = ["run"]  # the fixture

ROW_CHARS = 600_000


def large(seq: int) -> ops.Delta:
    return ops.Delta(after=seq - 1, seq=seq, epoch=1, at=1, removed=("x" * ROW_CHARS,))


async def next_message(client: ClientConnection) -> Any:
    message = json.loads(await client.recv())
    assert not isinstance(message, list)  # too large to share a frame
    return message


def test_a_watcher_that_does_not_read_misses_deltas_and_keeps_its_socket(run: Run) -> None:
    async def test() -> None:
        broker = FakeBroker()
        async with serving(broker) as server, dial(server, max_queue=1) as client:
            await ask(client, HELLO)
            await client.send('{"id": 7, "op": "watch"}')
            await broker.wait_submitted(1)
            broker.answer(0, SNAPSHOT)
            assert "ok" in json.loads(await client.recv())
            (watcher,) = broker.watchers
            count = 3 * listener.MAX_UNSENT_BYTES // ROW_CHARS
            taken: list[bool] = []
            for seq in range(6, 6 + count):
                taken.append(watcher.tell(large(seq)))
                await asyncio.sleep(0)
            assert taken[0] and not taken[-1]
            await client.send(json.dumps(BEAT))
            told: list[int] = []
            while (message := await next_message(client)).get("id") != BEAT["id"]:
                told.append(message["delta"]["seq"])  # sent before it was seen to be behind
            assert len(told) < count / 2
            assert len(told) == sum(taken)
            assert watcher.tell(large(6 + count))
            delta = (await next_message(client))["delta"]
            assert delta["after"] > told[-1]  # by which the peer knows

    run(test())
