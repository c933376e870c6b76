"""The clients of this process, by backend alias: `objq.connect` and `objq.aconnect`."""

from __future__ import annotations

import asyncio

from objq import conf
from objq.client.client import Client
from objq.client.shared import shared
from objq.client.sync import SharedCaller, SyncClient


def connect(alias: str = "default") -> SyncClient:
    """Return a blocking client of `TASKS[alias]`, for any thread. It connects when first used.

    Raises ConfigurationError if there is no such alias or its options cannot work.
    """
    if not shared.is_prepared(alias):
        conf.options_for(alias)
    return SyncClient(alias)


async def aconnect(alias: str = "default") -> Client:
    """Return a client of `TASKS[alias]` to await from any event loop.

    Raises ConfigurationError as `connect` does, and if the storage cannot be opened.
    """
    if not shared.is_prepared(alias):
        await asyncio.to_thread(shared.prepare, alias)  # an SDK's client takes its time to build
    return Client(SharedCaller(alias))
