"""One request on two ways at once: over a link, and by a direct write."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from objq.core import ops
from objq.errors import Unknown


class AnyLink(Protocol):
    """A way to get a request answered: `Link`, `DirectLink`."""

    async def call(self, op: Any, mark_sent: Callable[[], None]) -> ops.Answer: ...


async def first_to_know(*ways: Coroutine[Any, Any, ops.Answer]) -> ops.Answer:
    """Return what the first way brings that knows the outcome, and stop the others."""
    waiting = {asyncio.create_task(way) for way in ways}
    everyone = tuple(waiting)
    try:
        while True:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            best = min(done, key=lambda task: task.exception() is not None)
            if not (waiting and isinstance(best.exception(), Unknown)):
                return best.result()
    finally:
        for task in everyone:
            task.cancel()
        await asyncio.gather(*everyone, return_exceptions=True)
