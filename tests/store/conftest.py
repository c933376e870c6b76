"""The stores that the conformance suite runs over, and how the tests of this folder open them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from django.conf import settings
from django.test import override_settings

from objq.store.base import Store
from objq.store.open import open_store
from tests.objectservers import Entry
from tests.proxy import Proxy
from tests.servers import ObjectServer

SERVERS = ("ministack", "seaweedfs", "fake_gcs", "azurite")
STORES = ("memory", "file", *SERVERS)

OpenStore = Callable[[Entry], Store]


def open_entry(entry: Entry, name: str = "queue.json") -> Store:
    with override_settings(STORAGES=settings.STORAGES | {"objq": entry}):
        return open_store("objq", name)


@pytest.fixture
def opened() -> Iterator[OpenStore]:
    """Return a function that opens `queue.json` in an entry of `STORAGES`."""
    with ExitStack() as stack:

        def open_and_close(entry: Entry) -> Store:
            store = open_entry(entry)
            stack.callback(store.close)
            return store

        yield open_and_close


@pytest.fixture(scope="session")
def roots() -> Iterator[dict[str, Store]]:
    """One store on each server: building a client takes longer than most of these tests."""
    roots: dict[str, Store] = {}
    yield roots
    for root in roots.values():
        root.close()


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, opened: OpenStore, roots: dict[str, Store]) -> Store:
    """Each store in turn, for an object that is not there yet."""
    kind: str = request.param
    entry: Entry = request.getfixturevalue(f"{kind}_storage")
    if kind not in SERVERS:
        return opened(entry)
    if kind not in roots:
        roots[kind] = open_entry(entry)
    return roots[kind].sibling(f".{secrets.token_hex(6)}")


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
