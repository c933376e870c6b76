"""What `objq_cat` shows: the object as JSON text, whatever state it is in.

A document that cannot be understood is shown all the same, beside the reason: whoever looks at it
is about to decide what to restore.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from objq.core.codec import check_writable, decode, decode_head, to_json
from objq.errors import Corrupt, DocumentError, NoDocument
from objq.store.base import Content, Store


class Shown(NamedTuple):
    """The bytes to print. `error`: why they are not a document that this objq would work on."""

    text: bytes
    error: DocumentError | None = None


def show_document(store: Store) -> Shown:
    """Read and return the whole document; raises NoDocument and the store's errors."""
    data = _bytes_of(store, store.read())
    try:
        text = to_json(data)
    except Corrupt as error:
        return Shown(data, error)
    try:
        check_writable(decode(data).header())
    except DocumentError as error:
        return Shown(text, error)
    return Shown(text)


def show_header(store: Store) -> Shown:
    """Read the head and return the header as JSON; raises NoDocument and the store's errors."""
    data = _bytes_of(store, store.read_head())
    try:
        header = decode_head(data)
    except DocumentError as error:
        return Shown(data, error)
    return Shown(msgspec.json.format(msgspec.json.encode(header), indent=2) + b"\n")


def _bytes_of(store: Store, content: object) -> bytes:
    if not isinstance(content, Content):
        raise NoDocument(
            f"There is no {store.name}: start manage.py runbroker, which creates it, or look at "
            "STORAGE and NAME in the settings."
        )
    return content.data
