"""A queue in a folder, as the commands find it in the settings; and a real broker that leads it."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from django.core.management import call_command

from objq.core.document import Document
from objq.core.ops import BrokerInfo
from objq.store.base import ABSENT, Content, Store
from objq.store.open import open_store
from tests.core.world import World
from tests.e2e.stack import Stack, a_stack, free_port
from tests.objectservers import Entry


class Said(NamedTuple):
    """What a command wrote, and its exit status."""

    out: str
    err: str
    status: int


def run(*arguments: str) -> Said:
    """Run a command in this process. A `CommandError` is raised as it is."""
    out, err, status = io.StringIO(), io.StringIO(), 0
    try:
        call_command(*arguments, stdout=out, stderr=err, no_color=True)
    except SystemExit as exited:
        status = int(exited.code or 0)
    return Said(out.getvalue(), err.getvalue(), status)


class Queue:
    """The document of `TASKS["default"]`, to put things into."""

    def __init__(self, store: Store) -> None:
        self.store = store

    @property
    def data(self) -> bytes:
        content = self.store.read()
        assert isinstance(content, Content)
        return content.data

    def put(self, data: bytes) -> None:
        content = self.store.read()
        self.store.write(data, content.tag if isinstance(content, Content) else ABSENT)

    def put_world(self, world: World) -> Document:
        self.put(world.reload())
        return world.document


Configure = Callable[..., Queue]


@contextmanager
def configured(settings: Any, entry: Entry, **options: Any) -> Iterator[Queue]:
    """Let the settings name this storage, with these OPTIONS."""
    settings.STORAGES = {**settings.STORAGES, "objq": entry}
    task = {**settings.TASKS["default"], "OPTIONS": {"STORAGE": "objq", **options}}
    settings.TASKS = {"default": task}
    with closing(open_store("objq", options.get("NAME", "queue.json"))) as store:
        yield Queue(store)


@pytest.fixture
def queue(settings: Any, file_storage: Entry) -> Iterator[Queue]:
    with configured(settings, file_storage) as queue:
        yield queue


@pytest.fixture
def live(queue: Queue, file_storage: Entry, tmp_path: Path) -> Iterator[Stack]:
    """A broker in a process of its own, called "broker", that leads the queue."""
    with a_stack(tmp_path, file_storage) as stack:
        stack.leader("broker", free_port())
        yield stack


def recorded(url: str = "ws://127.0.0.1:9/objq/v1/", id_: str = "gone") -> BrokerInfo:
    """Return a broker as a document records it; nobody listens on port 9."""
    return BrokerInfo(id=id_, url=url, since=1, version="0.1.0")
