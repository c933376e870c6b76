"""What a store is: read, and write-if-unchanged, for one object (design §6).

The errors say what the caller may conclude, not what went wrong inside:

====================  ==================================================================
`Conflict`            not applied by this call: the object is not what `expect` says.
                      A retry's own first attempt can be the reason: read back
`Ambiguous`           may have been applied, now or later (lost reply, timeout, 5xx, 409)
`Throttled`           not applied; slow down, for `retry_after_s` where the store says so
`Denied`              not applied; credentials or permissions are wrong, perhaps for now
`TooLarge`            not applied; the store does not take an object of this size
`Missing`             the bucket or folder itself is not there
`Unavailable`         not applied; the store could not be reached, or a read failed
`Unsupported`         not applied; the store does not know conditional writes (a `Denied`)
====================  ==================================================================
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple, NewType, Protocol

CONNECT_TIMEOUT_S: Final = 3.0
REPLY_TIMEOUT_S: Final = 10.0
"""The longest that one request waits for a connection, and then for the store to say something."""

Tag = NewType("Tag", str)
"""Names one version of the object; opaque, from the same response as the bytes."""


class Sentinel(Enum):
    NOT_MODIFIED = "not modified"
    ABSENT = "absent"


NOT_MODIFIED: Final = Sentinel.NOT_MODIFIED
ABSENT: Final = Sentinel.ABSENT

Expect = Tag | Sentinel


class Content(NamedTuple):
    """Bytes and the tag that came with them."""

    data: bytes
    tag: Tag


class StoreError(Exception):
    """Base of the family; the message names the object and says what to do."""


class Conflict(StoreError):
    pass


class Ambiguous(StoreError):
    pass


class Throttled(StoreError):
    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Denied(StoreError):
    pass


class Unsupported(Denied):
    pass


class TooLarge(StoreError):
    pass


class Missing(StoreError):
    pass


class Unavailable(StoreError):
    pass


class Store(Protocol):
    """One object in one store. Safe to call from several threads."""

    name: str
    """For people: scheme, bucket or folder, and key, such as `s3://bucket/queue.json`."""

    pace_s: float
    """The least time between two writes that the store sustains for one object; 0 if no limit."""

    def read(self, unless: Tag | None = None) -> Content | Sentinel | None:
        """Return bytes and tag; NOT_MODIFIED if the tag is still `unless`; None if absent.

        Raises any of the family but Conflict and Ambiguous, since a read changes nothing.
        """
        ...

    def read_head(self) -> Content | None:
        """Return the first `HEAD_BYTES` (or fewer) with the object's tag; None if absent.

        Raises as `read`.
        """
        ...

    def write(self, data: bytes, expect: Expect) -> Tag:
        """Write if the object is still `expect` (a tag, or ABSENT to create); return the new tag.

        Raises any of the family. Never retries by itself.
        """
        ...

    def sibling(self, suffix: str) -> Store:
        """Return a store for the object with `suffix` appended to its name (for the probe)."""
        ...

    def delete(self) -> None:
        """Remove the object if it is there. Only the probe calls this, on names of its own."""
        ...

    def close(self) -> None: ...


class AsyncStore(Protocol):
    """A `Store` for the event loop: the same calls, awaited. The simulator has its own."""

    name: str
    pace_s: float

    async def read(self, unless: Tag | None = None) -> Content | Sentinel | None: ...

    async def read_head(self) -> Content | None: ...

    async def write(self, data: bytes, expect: Expect) -> Tag: ...
