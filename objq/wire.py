"""The wire, version 1, without I/O: frames in, operations out, and back (design §7).

A frame is JSON text: one message, or an array of messages. A request is an operation of
`objq.core.ops` with an `id` beside it; a reply carries the same `id` and either `ok` or `error`.

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
* a frame that is not JSON, not text, too large or too crowded is refused as a whole, with `id` null,
  and nothing of it is applied.

`args`, `kwargs` and `result` pass through as the JSON text that was sent (promise S9). Whether that
text is strict enough is checked where the job is admitted, not here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Final, NamedTuple, cast

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from objq.core import ops
from objq.errors import (
    BY_CODE,
    AskAnother,
    Invalid,
    NotBroker,
    ObjqError,
    Rejected,
    TooLarge,
    Unknown,
    Unsupported,
)

MAX_FRAME_BYTES: Final = 1_000_000
"""The longest frame that is read, in UTF-8 bytes, and that packs several messages together. A single
answer may be longer (jobs with large arguments, say); it then has a frame of its own."""

MAX_FRAME_MESSAGES: Final = 2_000
"""The most messages in one frame, so that a frame of tiny bad ones cannot ask for a huge reply."""

SMALL_FRAME_BYTES: Final = 2_048
"""Up to this size, JSON text that is kept may keep its whole frame alive; above, it is copied out."""

MAX_ID: Final = 2**53 - 1
"""The largest request id: what every JSON library keeps exact."""

_MALFORMED = (msgspec.DecodeError, RecursionError, UnicodeError, ValueError)
_ITEMS: Final[Mapping[str, tuple[str, type[Struct], str]]] = {
    "push": ("jobs", ops.NewJob, "id"),
    "complete": ("items", ops.Completion, "token"),
    "fail": ("items", ops.Failure, "token"),
}


class Incoming(NamedTuple):
    """One message from a client: what it asks for, or why it is refused.

    `id` is None where the message has none that could be read. `size_bytes` is about its length.
    `refused` holds the outcomes of the items that were taken out of `op`, by their place.
    """

    id: int | None
    op: ops.Op | Rejected
    size_bytes: int
    refused: Mapping[int, ops.ItemOutcome] = {}


class Reply(NamedTuple):
    """One message from a broker. `id` None: not about one request, but about a frame or the socket."""

    id: int | None
    answer: ops.Answer | ObjqError


class _Envelope(Struct):
    id: Annotated[int, Meta(ge=0, le=MAX_ID)]
    op: str


class _Reply(Struct):
    id: int | None = None
    ok: Raw | UnsetType = UNSET
    error: ops.Problem | UnsetType = UNSET


_encoder = msgspec.json.Encoder()
_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_raws = msgspec.json.Decoder(list[Raw]).decode
_decode_replies = msgspec.json.Decoder(list[_Reply]).decode
_decode_reply = msgspec.json.Decoder(_Reply).decode
_decode_op = {name: msgspec.json.Decoder(cls).decode for name, cls in ops.REQUESTS.items()}
_decode_answer = {name: msgspec.json.Decoder(cls).decode for name, cls in ops.ANSWERS.items()}


# --- server side -----------------------------------------------------------------------------------


def decode_frame(frame: str | bytes, max_bytes: int = MAX_FRAME_BYTES) -> list[Incoming]:
    """Return what each message of a client's frame asks for; never raises."""
    if isinstance(frame, bytes):
        return [_refusal(None, Invalid("A frame is JSON text; this one was sent as binary."))]
    try:
        data = frame.encode()
    except UnicodeError as error:
        return [_refusal(None, Invalid(f"A frame is UTF-8 text: {error}."))]
    if len(data) > max_bytes:
        message = f"A frame has at most {max_bytes:,} bytes; this one has {len(data):,}."
        return [_refusal(None, TooLarge(message), len(data))]
    if data.lstrip(b" \t\n\r")[:1] != b"[":
        return [_decode_message(data, copy=len(data) > SMALL_FRAME_BYTES)]
    try:
        messages = _split(data)
    except _MALFORMED as error:
        return [_refusal(None, Invalid(f"The frame is not JSON: {error}."), len(data))]
    if len(messages) > MAX_FRAME_MESSAGES:
        text = f"A frame has at most {MAX_FRAME_MESSAGES:,} messages; this one has {len(messages):,}."
        return [_refusal(None, TooLarge(text), len(data))]
    copy = len(data) > SMALL_FRAME_BYTES
    return [_decode_message(message, copy) for message in messages]


def encode_answer(
    request_id: int, answer: ops.Answer, refused: Mapping[int, ops.ItemOutcome] | None = None
) -> bytes:
    """Return the message that grants a request, with the refused items back in their places."""
    if refused and isinstance(answer, ops.Outcomes):
        answer = msgspec.structs.replace(answer, items=_merge(answer.items, refused))
    return b'{"id":%d,"ok":%b}' % (request_id, _encoder.encode(answer))


def encode_error(request_id: int | None, error: ObjqError) -> bytes:
    """Return the message that refuses a request, or with None a frame or the socket as a whole."""
    name = b"null" if request_id is None else b"%d" % request_id
    return b'{"id":%b,"error":%b}' % (name, _encoder.encode(problem_of(error)))


def frames(messages: Iterable[bytes], max_bytes: int = MAX_FRAME_BYTES) -> list[str]:
    """Pack messages into as few frames as the limits allow, keeping their order."""
    packed: list[str] = []
    batch: list[bytes] = []
    size_bytes = 2
    for message in messages:
        if batch and (
            size_bytes + len(message) + 1 > max_bytes or len(batch) == MAX_FRAME_MESSAGES
        ):
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


def _split(data: bytes) -> list[Raw | bytes]:
    """Cut an array of messages apart.

    A message that is JSON only in the loose sense (NaN, half a surrogate pair) would make the strict
    decoder give up the whole array, so its neighbours are cut out by a looser one.
    """
    try:
        return cast("list[Raw | bytes]", _decode_raws(data))
    except msgspec.DecodeError as error:
        strict_error = error
    text = data.decode()
    scan = json.JSONDecoder().raw_decode
    messages: list[Raw | bytes] = []
    position = text.index("[")
    while True:
        start = _skip_space(text, position + 1)
        try:
            _, end = scan(text, start)
        except ValueError:
            raise strict_error from None
        messages.append(text[start:end].encode())
        position = _skip_space(text, end)
        if text[position : position + 1] == ",":
            continue
        if text[position:].rstrip(" \t\n\r") == "]":
            return messages
        raise strict_error


def _skip_space(text: str, position: int) -> int:
    while text[position : position + 1] in (" ", "\t", "\n", "\r"):
        position += 1
    return position


def _decode_message(data: Raw | bytes, copy: bool) -> Incoming:
    size_bytes = len(memoryview(data))
    try:
        envelope = _decode_envelope(data)
    except _MALFORMED as error:
        return _refusal(_loose_id(data), Invalid(_sentence(error)), size_bytes)
    decode = _decode_op.get(envelope.op)
    if decode is None:
        known = ", ".join(_decode_op)
        message = f"There is no op {envelope.op[:40]!r}; this version knows {known}."
        return _refusal(envelope.id, Unsupported(message), size_bytes)
    refused: Mapping[int, ops.ItemOutcome] = {}
    try:
        op = decode(data)
    except _MALFORMED as error:
        try:
            op, refused = _without_bad_items(envelope.op, data)
        except _MALFORMED:
            return _refusal(envelope.id, Invalid(_sentence(error)), size_bytes)
    if copy:
        _copy_out(op)
    return Incoming(envelope.id, op, size_bytes, refused)


def _without_bad_items(
    name: str, data: Raw | bytes
) -> tuple[ops.Op, Mapping[int, ops.ItemOutcome]]:
    """Decode an operation whose items are not all valid; raises if something else is wrong, or all."""
    if name not in _ITEMS:
        raise ValueError(name)
    field, item_type, key = _ITEMS[name]
    message = msgspec.json.decode(data, type=dict[str, Raw])
    items = msgspec.json.decode(message[field], type=list[Raw]) if field in message else []
    good: list[Raw] = []
    refused: dict[int, ops.ItemOutcome] = {}
    for index, item in enumerate(items):
        try:
            msgspec.json.decode(item, type=item_type)
        except _MALFORMED as error:
            problem = ops.Problem(code=Invalid.code, message=_sentence(error, f"{field}[{index}]"))
            refused[index] = ops.ItemOutcome(**{key: _text_at(item, key)}, error=problem)
        else:
            good.append(item)
    if not good or not refused:
        raise ValueError(name)
    return _decode_op[name](_encoder.encode({**message, field: good})), refused


def _merge(
    items: tuple[ops.ItemOutcome, ...], refused: Mapping[int, ops.ItemOutcome]
) -> tuple[ops.ItemOutcome, ...]:
    rest = iter(items)
    count = len(items) + len(refused)
    return tuple(refused[i] if i in refused else next(rest) for i in range(count))


def _copy_out(op: ops.Op) -> None:
    """Give the JSON texts of an operation buffers of their own, so that none keeps its frame alive."""
    if isinstance(op, ops.Push):
        for job in op.jobs:
            _own(job, "args", job.args)
            _own(job, "kwargs", job.kwargs)
    elif isinstance(op, ops.Complete):
        for item in op.items:
            _own(item, "result", item.result)


def _own(struct: Struct, field: str, raw: Raw) -> None:
    # Nobody else has seen this struct yet, so that it is frozen is no reason to build it again.
    msgspec.structs.force_setattr(struct, field, raw.copy())


def _refusal(request_id: int | None, error: Rejected, size_bytes: int = 0) -> Incoming:
    return Incoming(request_id, error, size_bytes)


def _loose_id(data: Raw | bytes) -> int | None:
    """Return the id of a message that is not well formed, if it can be made out."""
    value = _loosely(data)
    found = value.get("id") if isinstance(value, dict) else None
    return found if type(found) is int and 0 <= found <= MAX_ID else None


def _text_at(data: Raw, key: str) -> str | None:
    value = _loosely(data)
    found = value.get(key) if isinstance(value, dict) else None
    return found[:64] if isinstance(found, str) and found.isprintable() else None


def _loosely(data: Raw | bytes) -> Any:
    try:
        return json.loads(bytes(data))
    except (ValueError, RecursionError):
        return None


def _sentence(error: Exception, inside: str = "") -> str:
    """Say what is wrong and where, in the words of the decoder: 'Expected `str`, got `int` - at `$.op`'."""
    text = str(error).rstrip(".")
    if inside and "`$" in text:
        text = text.replace("`$", f"`$.{inside}", 1)
    elif inside:
        text = f"{text} - at `$.{inside}`"
    if isinstance(error, msgspec.ValidationError):
        return text + "."
    return f"The message is not strict JSON: {text}."


# --- client side -----------------------------------------------------------------------------------


def encode_request(request_id: int, op: ops.Op, max_bytes: int = MAX_FRAME_BYTES) -> bytes:
    """Return the message for an operation.

    Raises TooLarge, without anything having been sent, for one that no frame can hold.
    """
    message = b'{"id":%d,%b' % (request_id, _encoder.encode(op)[1:])
    if len(message) > max_bytes:
        raise TooLarge(
            f"This {ops.op_name(op)} takes {len(message):,} bytes and a frame holds {max_bytes:,}: "
            "send fewer items in one request."
        )
    return message


def decode_replies(frame: str | bytes, op_of: Callable[[int], str | None]) -> list[Reply]:
    """Return the replies in a broker's frame.

    `op_of(id)` names the operation that was sent under an id, or None if nobody waits for it any
    more; such replies are left out. Raises Unknown if the frame is not of this protocol: what was
    asked over this socket may or may not have been applied, so close it and repeat over another.
    """
    try:
        array = frame.lstrip()[:1] in ("[", b"[")
        replies = _decode_replies(frame) if array else [_decode_reply(frame)]
    except _MALFORMED as error:
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


def _answer(reply: _Reply, name: str) -> ops.Answer | ObjqError:
    if reply.error is not UNSET:
        return error_of(reply.error)
    if reply.ok is UNSET or name not in _decode_answer:
        return Unknown("The broker sent a reply with neither an answer nor an error.")
    try:
        return _decode_answer[name](reply.ok)
    except _MALFORMED as error:
        return Unknown(f"The broker's answer to {name} could not be read: {error}")


# --- errors ----------------------------------------------------------------------------------------


def problem_of(error: ObjqError) -> ops.Problem:
    """Return an error as it stands on the wire."""
    return ops.Problem(
        code=error.code,
        message=error.message,
        retry_after=error.retry_after_s,
        final=isinstance(error, Rejected) and error.final,
        url=error.url if isinstance(error, NotBroker) else None,
    )


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
