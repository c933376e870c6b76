"""What is fed: the readers of frames, replies, documents, arguments and tokens.

A target says what came of an input in the words of the wire ("ok", or a code), raises Violation
where a promise does not hold, and lets everything else that is raised through: that is a crash.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from unittest import mock

import msgspec
from hypothesis import strategies as st

from objq import tokens, wire
from objq.core import codec, ops
from objq.core.document import Document
from objq.core.jsontext import MAX_DEPTH, check_json
from objq.core.rules import apply, tick, tidy
from objq.errors import BY_CODE, Corrupt, Invalid, NewerSchema, ObjqError, Rejected, Unknown
from tests.core.world import START_MS
from tests.fuzz import corpus
from tests.fuzz.guard import Violation

MAX_REPLY_BYTES: Final = 2_500_000
"""Of refusals to one frame: no question of a megabyte may have a gigabyte for an answer."""

TEXT_BYTES: Final = 16 * 1024 * 1024
"""The longest document that is read here: lowered, so that bombs show without the memory."""

Feed = Callable[[bytes], Iterator[str]]


@dataclass(frozen=True, kw_only=True)
class Target:
    """`feed` takes any bytes up to `most_bytes`; `seeds` and `strategy` are good inputs for it."""

    name: str
    feed: Feed
    seeds: Callable[[], Sequence[bytes]]
    strategy: st.SearchStrategy[bytes]
    most_bytes: int = 1_050_000


def require(holds: bool, what: str) -> None:
    if not holds:
        raise Violation(what)


def as_frame(data: bytes) -> str | bytes:
    """Return what a socket would hand on: text, or bytes for what begins like no text."""
    if data[:1] == b"\xff":
        return data
    try:
        return data.decode(errors="surrogatepass")
    except UnicodeDecodeError:
        return data.decode(errors="replace")


def frame(data: bytes) -> Iterator[str]:
    """Read a client's frame: every message has an operation or a refusal that can be sent."""
    text = as_frame(data)
    found = wire.decode_frame(text)
    require(len(found) >= 1, "a frame without an answer")
    expected = count_messages(text)
    require(expected is None or len(found) == expected, f"{len(found)} answers to {expected}")
    size_bytes = 0
    for incoming in found:
        if isinstance(incoming.op, Rejected):
            reply = wire.encode_error(incoming.id, incoming.op)
            size_bytes += len(reply)
            yield _code_in(reply)
            continue
        require(incoming.id is not None, "an operation without an id")
        yield "ok"
        for outcome in incoming.refused.values():
            size_bytes += len(msgspec.json.encode(outcome))
            yield outcome.error.code if outcome.error else "ok"
        if isinstance(incoming.op, ops.Push):
            yield from _check_arguments(incoming.op, str(text).encode())
        msgspec.json.encode(incoming.op)
    require(size_bytes <= MAX_REPLY_BYTES, f"{size_bytes:,} bytes of refusals")


def _code_in(reply: bytes) -> str:
    code = str(json.loads(reply)["error"]["code"])
    require(code in BY_CODE, f"an unknown code: {code}")
    return code


def _check_arguments(push: ops.Push, sent: bytes) -> Iterator[str]:
    """Check that arguments are the very text that was sent, and strict or refused (S9)."""
    for job in push.jobs:
        for raw in (job.args, job.kwargs):
            text = bytes(raw)
            require(text in sent or text in (b"[]", b"{}"), "arguments were encoded anew")
        yield from arguments(bytes(job.args))


def count_messages(text: str | bytes) -> int | None:
    """Return how many answers a frame has to have; None: it is no strict JSON, so one at least."""
    if isinstance(text, bytes):
        return 1
    try:
        encoded = text.encode()
        value = msgspec.json.decode(encoded) if len(encoded) <= wire.MAX_FRAME_BYTES else None
    except (ValueError, RecursionError):
        return None
    if isinstance(value, list) and 0 < len(value) <= wire.MAX_FRAME_MESSAGES:
        return len(value)
    return 1


def reply(data: bytes) -> Iterator[str]:
    """Read a broker's frame: answers, errors, or Unknown for the whole."""
    names = dict(enumerate(itertools.chain(ops.ANSWERS, ops.ANSWERS)))
    try:
        found = wire.decode_replies(as_frame(data), names.get)
    except Unknown:
        yield "unknown"
        return
    for answer in (one.answer for one in found):
        if isinstance(answer, ObjqError):
            yield answer.code
        else:
            require(isinstance(answer, ops.Answer | ops.Delta), f"{answer!r} is no answer")
            yield "ok"
    if not found:
        yield "ok"


def arguments(data: bytes) -> Iterator[str]:
    """Read JSON strictly: what is taken has one meaning, whoever reads it (S9)."""
    try:
        check_json(data, "it")
    except Invalid as error:
        yield error.code
        return
    value = json.loads(data, object_pairs_hook=_without_doubles)
    require(_depth(value) <= MAX_DEPTH, "nested too deep")
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    with contextlib.suppress(msgspec.DecodeError):  # integers that it does not know
        require(msgspec.json.decode(data) == value, "two readers understand it differently")
    yield "ok"


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    require(len(dict(pairs)) == len(pairs), "a key stands twice")
    return dict(pairs)


def _depth(value: object) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    has_inside = isinstance(value, dict | list)
    return has_inside + max(map(_depth, inner), default=0)


def document(data: bytes) -> Iterator[str]:
    """Read a document: it is refused in words, or can be worked with and written again (S14)."""
    with mock.patch.object(codec, "MAX_TEXT_BYTES", TEXT_BYTES):
        yield f"head {_read(codec.decode_head, data[: codec.HEAD_BYTES])[0]}"
        outcome, found = _read(codec.decode, data)
        yield outcome
        if found is None:
            return
        if found.header().objq > codec.SCHEMA:  # read as far as it is known, and left alone
            with contextlib.suppress(NewerSchema):
                codec.encode(found)
                raise Violation("what is not known here would be written")
            return
        again = codec.encode(found)
        require(codec.encode(codec.decode(again)) == again, "not read again as it was written")
        _work_with(found)


def _read(read: Callable[[bytes], Any], data: bytes) -> tuple[str, Any]:
    try:
        return "ok", read(data)
    except Corrupt:
        return "corrupt", None
    except NewerSchema:
        return "newer", None


def _work_with(document: Document) -> None:
    """Do a little of everything; a refusal is an answer too."""
    names = itertools.count(1)
    now = max(START_MS, document.at)
    request = f"{min(document.seq, 10**18)}-fuzz:1"
    tick(document, now, 1000)
    for op in (
        ops.Push(request=request, jobs=(ops.NewJob(id="fuzz", task="t"),)),
        ops.TakeClaim(claim="fuzz", queues=("default", "mail"), max=3),
    ):
        with contextlib.suppress(Rejected):
            apply(document, op, now, mint=lambda: f"fuzz-{next(names)}", epoch=1)
    held = tuple(document.claims)
    if held:
        items = tuple(ops.Completion(token=token) for token in held)
        apply(document, ops.Complete(items=items), now, mint=str, epoch=1)
    tidy(document)
    codec.decode(codec.seal(document, "fuzz", now, leading=True))


@functools.cache
def genuine() -> tuple[str, ...]:
    return tuple(tokens.make_token(role, "d", "b") for role in tokens.ROLES)


def token(data: bytes) -> Iterator[str]:
    """Read a bearer token: only what was signed is honoured."""
    text = data.decode("latin-1")
    try:
        tokens.read_token(text, "d", "b")
    except ObjqError as error:
        require(error.code in ("unauthorized", "not_broker"), f"refused as {error.code}")
        yield error.code
        return
    require(text in genuine(), f"forged: {text}")
    yield "ok"


def _seed_tokens() -> list[bytes]:
    others = (
        tokens.make_token("push", "other", "b"),
        tokens.make_token("push", "d", "other"),
        tokens.make_token("manage", "d", ttl_s=-60),
    )
    return [text.encode() for text in (*genuine(), *others)]


TARGETS: Final = (
    Target(name="frame", feed=frame, seeds=corpus.frames, strategy=corpus.hostile_frames),
    Target(
        name="reply",
        feed=reply,
        seeds=lambda: [text.encode() for text in corpus.REPLIES],
        strategy=corpus.hostile_frames,
    ),
    Target(
        name="document",
        feed=document,
        seeds=corpus.documents,
        strategy=corpus.hostile_document(),
    ),
    Target(
        name="arguments",
        feed=arguments,
        seeds=corpus.texts,
        strategy=corpus.hostile_text.map(corpus.encoded),
    ),
    Target(name="token", feed=token, seeds=_seed_tokens, strategy=st.binary(), most_bytes=4_000),
)
