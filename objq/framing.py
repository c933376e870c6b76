"""Frames of the wire: JSON messages packed into text, and cut apart again, within limits."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Raw

MAX_FRAME_BYTES: Final = 1_000_000
"""The longest frame that is read, in UTF-8 bytes, and the longest that holds several messages. A
single answer may be longer (jobs with large arguments, say); it then has a frame of its own."""

MAX_FRAME_MESSAGES: Final = 2_000
"""The most messages in one frame, so that a frame of tiny bad ones cannot ask for a huge reply."""

_decode_raws = msgspec.json.Decoder(list[Raw]).decode


def frames(messages: Iterable[bytes], max_bytes: int = MAX_FRAME_BYTES) -> list[str]:
    """Pack messages into as few frames as the limits allow, keeping their order."""
    packed: list[str] = []
    batch: list[bytes] = []
    size_bytes = 2
    for message in messages:
        full = size_bytes + len(message) + 1 > max_bytes or len(batch) == MAX_FRAME_MESSAGES
        if batch and full:
            packed.append(_join(batch))
            batch, size_bytes = [], 2
        batch.append(message)
        size_bytes += len(message) + 1
    if batch:
        packed.append(_join(batch))
    return packed


def _join(batch: list[bytes]) -> str:
    if len(batch) == 1:
        return batch[0].decode()
    return (b"[" + b",".join(batch) + b"]").decode()


def is_array(data: bytes) -> bool:
    """Tell whether a frame holds an array of messages, or one."""
    return data.lstrip(b" \t\n\r")[:1] == b"["


def split(data: bytes) -> list[Raw] | list[bytes]:
    """Cut an array of messages apart. Raises ValueError or RecursionError if it is not JSON.

    A message that is JSON only in the loose sense (NaN, half a surrogate pair) makes the strict
    decoder give up the whole array, so its neighbours are cut out by a looser one.
    """
    try:
        return _decode_raws(data)
    except msgspec.DecodeError as error:
        messages = _split_loosely(data.decode())
        if messages is None:
            raise ValueError(str(error)) from None
        return messages


def _split_loosely(text: str) -> list[bytes] | None:
    scan = json.JSONDecoder().raw_decode
    messages: list[bytes] = []
    position = text.index("[")
    while True:
        start = _skip_space(text, position + 1)
        try:
            _, end = scan(text, start)
        except ValueError:
            return None
        messages.append(text[start:end].encode())
        position = _skip_space(text, end)
        if text[position : position + 1] == ",":
            continue
        return messages if text[position:].rstrip(" \t\n\r") == "]" else None


def _skip_space(text: str, position: int) -> int:
    while text[position : position + 1] in (" ", "\t", "\n", "\r"):
        position += 1
    return position
