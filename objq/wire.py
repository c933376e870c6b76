"""The wire, version 1, without I/O: frames in, operations out, and back (design §7).

A frame is JSON text: one message, or an array of messages. A request is an operation of
`objq.core.ops` with an `id` beside it; a reply carries the same `id` and either `ok` or `error`.
The answer to a `watch` is followed by messages with its `id` and a `delta`.

=========  ==================================  =====================================================
side       what comes in                       what goes out
=========  ==================================  =====================================================
server     `decode_frame(frame)`: one           `encode_answer` / `encode_error`: one message, and
           `Incoming` per message, in order     `frames` packs messages into frames under the limit
client     `decode_replies(frame, op_of)`: one  `encode_request(id, op)`: one message, and `frames`
           `Reply` per message, in order
=========  ==================================  =====================================================

What the server side promises, whatever arrives:

* it never raises: a message that cannot be understood comes out as the refusal to send back;
* a bad message harms no other message of its frame, and a bad item (a job of a push, an outcome of
  a complete or fail) no other item: it is taken out of the operation, and `encode_answer` puts its
  refusal back in its place among the outcomes;
* a frame that is not JSON, not text, too large or too crowded is refused as a whole, with `id`
  null, and nothing of it is applied.

`args`, `kwargs` and `result` pass through as the JSON text that was sent (promise S9). Whether that
text is strict enough is checked where the job is admitted, not here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from objq.core import ops
from objq.core.outcomes import problem_of
from objq.errors import (
    BY_CODE,
    AskAnother,
    Invalid,
    NotBroker,
    ObjqError,
    Rejected,
    TooLarge,
    Unknown,
)
from objq.framing import MAX_FRAME_BYTES, MAX_FRAME_MESSAGES, frames
from objq.incoming import Incoming, decode_frame, decode_message, merge

__all__ = [  # with what stands in framing, since it is one protocol to everybody else
    "MAX_FRAME_BYTES",
    "MAX_FRAME_MESSAGES",
    "Incoming",
    "Reply",
    "as_received",
    "decode_frame",
    "decode_replies",
    "encode_answer",
    "encode_delta",
    "encode_delta_body",
    "encode_error",
    "encode_request",
    "error_of",
    "frames",
    "merge",
    "problem_of",
]


class Reply(NamedTuple):
    """One message from a broker. `id` None: about a frame or the socket, not about one request.

    A `Delta` comes any number of times after the answer to a `watch`.
    """

    id: int | None
    answer: ops.Answer | ops.Delta | ObjqError


class _Reply(Struct):
    id: int | None = None
    ok: Raw | UnsetType = UNSET
    delta: Raw | UnsetType = UNSET
    error: ops.Problem | UnsetType = UNSET


_encoder = msgspec.json.Encoder()
_decode_replies = msgspec.json.Decoder(list[_Reply]).decode
_decode_reply = msgspec.json.Decoder(_Reply).decode
_decode_delta = msgspec.json.Decoder(ops.Delta).decode
_decode_answer = {name: msgspec.json.Decoder(cls).decode for name, cls in ops.ANSWERS.items()}


# --- server side ---------------------------------------------------------------------------------


def encode_answer(
    request_id: int, answer: ops.Answer, refused: Mapping[int, ops.ItemOutcome] | None = None
) -> bytes:
    """Return the message that grants a request, with the refused items back in their places."""
    whole = merge(answer, refused or {})
    return b'{"id":%d,"ok":%b}' % (request_id, _encoder.encode(whole))


def encode_delta_body(delta: ops.Delta) -> bytes:
    """Return what is the same for everybody who watches, for `encode_delta`."""
    return _encoder.encode(delta)


def encode_delta(request_id: int, body: bytes) -> bytes:
    """Return the message that tells whoever asked to `watch` under this id of a delta."""
    return b'{"id":%d,"delta":%b}' % (request_id, body)


def encode_error(request_id: int | None, error: ObjqError) -> bytes:
    """Return the message that refuses a request, or with None a frame or the socket as a whole."""
    name = b"null" if request_id is None else b"%d" % request_id
    return b'{"id":%b,"error":%b}' % (name, _encoder.encode(problem_of(error)))


# --- client side ---------------------------------------------------------------------------------


def encode_request(request_id: int, op: ops.Op, max_bytes: int = MAX_FRAME_BYTES) -> bytes:
    """Return the message for an operation.

    Raises, without anything having been sent, TooLarge for one that no frame can hold and Invalid
    for one that is no JSON.
    """
    message = _encode(request_id, op)
    if len(message) > max_bytes:
        raise TooLarge(
            f"This {ops.op_name(op)} takes {len(message):,} bytes and a frame holds {max_bytes:,}: "
            "send fewer items in one request."
        )
    return message


def as_received(op: ops.Op) -> Incoming:
    """Return an operation of this process as a server has it that got it over the wire.

    Whoever applies operations without a socket in between refuses by it what a server refuses, so
    that nothing gets into a document that cannot be read again.
    """
    try:
        return decode_message(_encode(0, op), copy=True)
    except Invalid as error:
        return Incoming(0, error, 0)


def _encode(request_id: int, op: ops.Op) -> bytes:
    try:
        return b'{"id":%d,%b' % (request_id, _encoder.encode(op)[1:])
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise Invalid(f"This {ops.op_name(op)} cannot be written as JSON: {error}.") from error


def decode_replies(frame: str | bytes, op_of: Callable[[int], str | None]) -> list[Reply]:
    """Return the replies in a broker's frame.

    `op_of(id)` names the operation that was sent under an id, or None if nobody waits for it any
    more; such replies are left out. Raises Unknown if the frame is not of this protocol: what was
    asked over this socket may or may not have been applied, so close it and repeat over another.
    """
    try:
        array = frame.lstrip()[:1] in ("[", b"[")
        replies = _decode_replies(frame) if array else [_decode_reply(frame)]
    except (ValueError, RecursionError) as error:
        raise Unknown(f"The broker sent what is not a reply: {error}") from None
    decoded = []
    for reply in replies:
        if reply.id is None:
            decoded.append(Reply(None, _answer(reply, "")))
            continue
        name = op_of(reply.id)
        if name is not None:
            decoded.append(Reply(reply.id, _answer(reply, name)))
    return decoded


def _answer(reply: _Reply, name: str) -> ops.Answer | ops.Delta | ObjqError:
    if reply.error is not UNSET:
        return error_of(reply.error)
    try:
        if reply.delta is not UNSET:
            return _decode_delta(reply.delta)
        if reply.ok is UNSET or name not in _decode_answer:
            return Unknown("The broker sent a reply with neither an answer nor an error.")
        return _decode_answer[name](reply.ok)
    except (ValueError, RecursionError) as error:
        return Unknown(f"The broker's answer to {name} could not be read: {error}")


# --- errors --------------------------------------------------------------------------------------


def error_of(problem: ops.Problem) -> ObjqError:
    """Return the exception for an error on the wire; a code that is not known is an Unknown."""
    cls = BY_CODE.get(problem.code, Unknown)
    if issubclass(cls, Rejected):
        return cls(problem.message, retry_after_s=problem.retry_after, final=problem.final)
    if issubclass(cls, NotBroker):
        return cls(problem.message, url=problem.url)
    if issubclass(cls, AskAnother):
        return cls(problem.message, retry_after_s=problem.retry_after)
    message = problem.message if cls.code == problem.code else f"{problem.code}: {problem.message}"
    return Unknown(message)
