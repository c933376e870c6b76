"""The memory of this process, for tests (`InMemoryStorage`).

Objects belong to the storage instance: Django makes a new one when `STORAGES` changes, and what the
old one held goes with it. They are kept beside the instance's files, not among them, since its
`save()` leaves the tail of a longer predecessor in place.
"""

from __future__ import annotations

from threading import Lock
from typing import Final
from weakref import WeakKeyDictionary

from django.core.files.storage import InMemoryStorage

from objq.core.codec import HEAD_BYTES
from objq.store.base import (
    ABSENT,
    NOT_MODIFIED,
    Conflict,
    Content,
    Expect,
    Sentinel,
    Tag,
)


class Shelf:
    """What one storage instance holds."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.objects: dict[str, Content] = {}
        self.versions = 0


_shelves: WeakKeyDictionary[InMemoryStorage, Shelf] = WeakKeyDictionary()
_shelves_lock: Final = Lock()


class MemoryStore:
    pace_s = 0.0

    def __init__(self, storage: InMemoryStorage, name: str, alias: str = "") -> None:
        self.name = f"memory://{alias}/{name}"
        self._alias = alias
        self._key = name
        self._storage = storage
        with _shelves_lock:
            self._shelf = _shelves.setdefault(storage, Shelf())

    def read(self, unless: Tag | None = None) -> Content | Sentinel | None:
        with self._shelf.lock:
            content = self._shelf.objects.get(self._key)
        if content is not None and content.tag == unless:
            return NOT_MODIFIED
        return content

    def read_head(self) -> Content | None:
        with self._shelf.lock:
            content = self._shelf.objects.get(self._key)
        return content and content._replace(data=content.data[:HEAD_BYTES])

    def write(self, data: bytes, expect: Expect) -> Tag:
        shelf = self._shelf
        with shelf.lock:
            content = shelf.objects.get(self._key)
            found = ABSENT if content is None else content.tag
            if found != expect:
                raise Conflict(f"{self.name} has changed since it was read.")
            shelf.versions += 1
            tag = Tag(str(shelf.versions))
            shelf.objects[self._key] = Content(bytes(data), tag)
        return tag

    def sibling(self, suffix: str) -> MemoryStore:
        return MemoryStore(self._storage, self._key + suffix, self._alias)

    def delete(self) -> None:
        with self._shelf.lock:
            self._shelf.objects.pop(self._key, None)

    def close(self) -> None:
        pass
