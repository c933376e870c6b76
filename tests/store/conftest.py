"""The stores that the conformance suite runs over, and how the tests of this folder open them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from django.conf import settings
from django.test import override_settings

from objq.store.base import Store
from objq.store.open import open_store
from tests.proxy import Proxy
from tests.servers import Entry, ObjectServer

SERVERS = ("ministack", "seaweedfs", "fake_gcs", "azurite")
STORES = ("memory", "file", *SERVERS)

OpenStore = Callable[[Entry], Store]


@pytest.fixture
def opened() -> Iterator[OpenStore]:
    """Return a function that opens `queue.json` in an entry of `STORAGES`."""
    with ExitStack() as stack:

        def open_entry(entry: Entry) -> Store:
            stack.enter_context(override_settings(STORAGES=settings.STORAGES | {"objq": entry}))
            store = open_store("objq", "queue.json")
            stack.callback(store.close)
            return store

        yield open_entry


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, opened: OpenStore) -> Store:
    return opened(request.getfixturevalue(f"{request.param}_storage"))


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> ObjectServer:
    server: ObjectServer = request.getfixturevalue(request.param)
    return server


@pytest.fixture
def proxy(server: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    with Proxy(server.url) as proxy:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", proxy.url)
        yield proxy


@pytest.fixture
def proxied(server: ObjectServer, proxy: Proxy, opened: OpenStore) -> Store:
    """A store on each server in turn, through the proxy."""
    return opened(server.entry(proxy.url))
