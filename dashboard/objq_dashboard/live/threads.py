"""Blocking work for coroutines, in threads of one's own choice."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from django.db import close_old_connections

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

T = TypeVar("T")


async def in_thread(pool: ThreadPoolExecutor, work: Callable[..., T], *args: Any) -> T:
    """Run `work` with database connections as a request has them.

    Whoever waits can be cancelled at any time; channels' own `database_sync_to_async` would first
    wait for the thread.
    """
    context = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(pool, context.run, _as_in_a_request, work, args)


def _as_in_a_request(work: Callable[..., T], args: tuple[Any, ...]) -> T:
    close_old_connections()
    try:
        return work(*args)
    finally:
        close_old_connections()
