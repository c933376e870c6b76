"""What a client's frame asks for: the server's reading side of the wire (see `objq.wire`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final, NamedTuple, get_args

import msgspec
from msgspec import Meta, Raw, Struct

from objq.core import ops
from objq.errors import Invalid, Rejected, TooLarge, Unsupported
from objq.framing import MAX_FRAME_BYTES, MAX_FRAME_MESSAGES, is_array, split

SMALL_FRAME_BYTES: Final = 2_048
"""Up to this size, JSON text that is kept may keep its whole frame alive; above, it is copied."""

MAX_REFUSED_ITEMS: Final = ops.MAX_ITEMS
"""Bad items of one frame that are refused one by one, each with a sentence that is longer than it;
beyond, the whole request is refused that has them."""

MAX_ID: Final = 2**53 - 1
"""The largest request id: what every JSON library keeps exact."""

_STATES: Final = ", ".join(get_args(ops.JobState))
"""All that a client has to choose one of; the decoder does not say what it would take."""

# What msgspec and json raise for any text: DecodeError and ValidationError are ValueErrors.
_MALFORMED = (ValueError, RecursionError)
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


class _Envelope(Struct):
    id: Annotated[int, Meta(ge=0, le=MAX_ID)]
    op: str


_encoder = msgspec.json.Encoder()
_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_op = {name: msgspec.json.Decoder(cls).decode for name, cls in ops.REQUESTS.items()}
_decode_items = msgspec.json.Decoder(Annotated[list[Raw], Meta(max_length=ops.MAX_ITEMS)]).decode


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
    copy = len(data) > SMALL_FRAME_BYTES
    if not is_array(data):
        return [decode_message(data, copy=copy)]
    try:
        messages = split(data)
    except _MALFORMED as error:
        return [_refusal(None, Invalid(f"The frame is not JSON: {error}."), len(data))]
    if not messages:
        return [_refusal(None, Invalid("The frame is an empty array: it asks for nothing."))]
    if len(messages) > MAX_FRAME_MESSAGES:
        text = (
            f"A frame has at most {MAX_FRAME_MESSAGES:,} messages; this one has {len(messages):,}."
        )
        return [_refusal(None, TooLarge(text), len(data))]
    found = []
    left = MAX_REFUSED_ITEMS
    for part in messages:
        found.append(decode_message(part, copy=copy, most=left))
        left -= len(found[-1].refused)
    return found


def decode_message(data: Raw | bytes, *, copy: bool, most: int = MAX_REFUSED_ITEMS) -> Incoming:
    """Return what one message asks for; never raises.

    `copy`: the JSON texts in it get buffers of their own. At most `most` bad items are refused by
    themselves.
    """
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
            op, refused = _without_bad_items(envelope.op, data, most)
        except _MALFORMED:
            return _refusal(envelope.id, Invalid(_sentence(error)), size_bytes)
    if copy:
        _copy_out(op)
    return Incoming(envelope.id, op, size_bytes, refused)


def _without_bad_items(
    name: str, data: Raw | bytes, most: int
) -> tuple[ops.Op, Mapping[int, ops.ItemOutcome]]:
    """Decode an operation of which some items are bad.

    Raises ValueError if all are, or more than `most`, or something else is bad.
    """
    if name not in _ITEMS:
        raise ValueError(name)
    field, item_type, key = _ITEMS[name]
    message = msgspec.json.decode(data, type=dict[str, Raw])
    items = _decode_items(message[field]) if field in message else []
    good: list[Raw] = []
    refused: dict[int, ops.ItemOutcome] = {}
    for index, item in enumerate(items):
        try:
            msgspec.json.decode(item, type=item_type)
        except _MALFORMED as error:
            if len(refused) == most:
                raise ValueError(name) from None
            problem = ops.Problem(code=Invalid.code, message=_sentence(error, f"{field}[{index}]"))
            refused[index] = _outcome(key, _text_at(item, key), problem)
        else:
            good.append(item)
    if not good or not refused:
        raise ValueError(name)
    return _decode_op[name](_encoder.encode({**message, field: good})), refused


def _outcome(key: str, value: str | None, problem: ops.Problem) -> ops.ItemOutcome:
    if key == "id":
        return ops.ItemOutcome(id=value, error=problem)
    return ops.ItemOutcome(token=value, error=problem)


def _copy_out(op: ops.Op) -> None:
    """Give an operation's JSON texts buffers of their own, so that none keeps its frame alive."""
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
    """Say what is wrong and where, as the decoder does: 'Expected `str`, got `int` - at `$.op`'."""
    text = str(error).rstrip(".")
    if text.startswith("Invalid enum value"):
        text = f"{text}: one of {_STATES}"
    if inside and "`$" in text:
        text = text.replace("`$", f"`$.{inside}", 1)
    elif inside:
        text = f"{text} - at `$.{inside}`"
    if isinstance(error, msgspec.ValidationError):
        return text + "."
    return f"The message is not strict JSON: {text}."


def merge(answer: ops.Answer, refused: Mapping[int, ops.ItemOutcome]) -> ops.Answer:
    """Return the answer with the outcomes of the refused items back in their places."""
    if not refused or not isinstance(answer, ops.Outcomes):
        return answer
    rest = iter(answer.items)
    count = len(answer.items) + len(refused)
    items = tuple(refused[i] if i in refused else next(rest) for i in range(count))
    return msgspec.structs.replace(answer, items=items)
