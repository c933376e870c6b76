"""What the engines begin with: good messages and documents, and all that is known to be hostile."""

from __future__ import annotations

import json
from typing import Any, Final

import zstandard
from hypothesis import strategies as st

from objq.core import ops
from objq.framing import MAX_FRAME_BYTES, MAX_FRAME_MESSAGES
from tests.core.world import World

REQUEST: Final = "1-fuzz:1"
JOB: Final[dict[str, Any]] = {"id": "job-1", "task": "shop.tasks.send", "args": [1, "é"]}

TOKENS: Final = (
    *("NaN", "Infinity", "-Infinity", "1e999", "-0", "1E400", "9" * 400, "9" * 5000, "-1", "0.1"),
    *('"\\ud800"', '"\\udc00\\ud800"', '"\\u0000"', '"\ufeff"', '"\\', '"\\u12"', "\x00", "\x7f"),
    *('{"a":1,"a":2}', '{"id":1,"id":2}', "[" * 99 + "]" * 99, "[" * 120 + "]" * 120, "[" * 3000),
    *('{"a":' * 1500, "null", "true", "{}", "[]", "[,]", "//", "\u2028", "\ud800", "٣"),
    *("9223372036854775808", "18446744073709551616", "-9223372036854775809", "1e-400"),
)
"""Pieces of text that have tripped readers of JSON."""

MESSAGES: Final[tuple[dict[str, Any], ...]] = (
    {"id": 0, "op": "hello", "client": "fuzz", "worker": "w1"},
    {"id": 1, "op": "push", "request": REQUEST, "jobs": [JOB]},
    {"id": 2, "op": "claim", "claim": "1-fuzz:9", "queues": ["default"], "max": 3, "wait": 0.5},
    {"id": 3, "op": "heartbeat", "tokens": ["t"], "started": ["t"]},
    {"id": 4, "op": "complete", "items": [{"token": "t", "result": {"a": [1]}}]},
    {"id": 5, "op": "fail", "items": [{"token": "t", "error": {"type": "E"}, "retry_after": 1}]},
    {"id": 6, "op": "release", "tokens": ["t"]},
    {"id": 7, "op": "get", "ids": ["job-1", "nobody"]},
    *(
        {"id": 8, "op": op, "request": "1-fuzz:2", "ids": ["job-1"], "expected": state}
        for op, state in (
            ("cancel", "ready"),
            ("retry", "dead"),
            ("delete", "dead"),
            ("run_now", "scheduled"),
        )
    ),
    {"id": 12, "op": "pause", "request": "1-fuzz:3", "queue": "mail"},
    {"id": 13, "op": "resume", "request": "1-fuzz:4", "queue": "mail"},
    {"id": 14, "op": "list", "filter": {"states": ["dead"], "text": "x"}, "page": {"limit": 5}},
    {"id": 15, "op": "stats"},
    {"id": 16, "op": "workers"},
    {"id": 17, "op": "history"},
    {"id": 18, "op": "watch"},
)

REPLIES: Final = (
    '{"id":1,"ok":{"items":[{"id":"a","state":"ready"}],"position":[1,2,3]}}',
    '{"id":2,"ok":{"jobs":[{"id":"a","token":"t","queue":"q","task":"t","args":[],"kwargs":{},'
    '"attempt":1,"max_attempts":3,"pushed_at":1,"claimed_at":1}]}}',
    '{"id":null,"error":{"code":"not_broker","message":"m","url":"ws://x/"}}',
    '{"id":1,"error":{"code":"overloaded","message":"m","retry_after":0.5}}',
    '{"id":18,"delta":{"after":1,"seq":2,"epoch":1,"at":3,"removed":["a"]}}',
)


def text_of(*messages: Any) -> bytes:
    return json.dumps(messages[0] if len(messages) == 1 else messages).encode()


def frames() -> list[bytes]:
    """Return frames of clients, good and bad, and at the limits."""
    each = [text_of(message) for message in MESSAGES]
    beat = text_of(MESSAGES[3])
    jobs = [JOB, *(1 for _ in range(20_000))]
    crowd = b"[" + b",".join([b"1"] * MAX_FRAME_MESSAGES) + b"]"
    gets = {"id": 7, "op": "get", "ids": ["large"] * 16}
    return [
        *each,
        text_of(*MESSAGES),
        text_of(*MESSAGES[::2], 7, {"id": 9, "op": "dance"}),
        b" " * (MAX_FRAME_BYTES - len(beat)) + beat,
        b" " * (MAX_FRAME_BYTES - len(beat) + 1) + beat,
        b'["' + b"\xc3\xa9" * (MAX_FRAME_BYTES // 2) + b'"]',
        crowd,
        crowd[:-1] + b",1]",
        text_of({**MESSAGES[1], "jobs": jobs}),
        text_of(*[{**MESSAGES[1], "jobs": jobs[:8_000]}] * 40),
        text_of(*[gets] * 40),
        b"[" * 400_000 + b"]" * 400_000,
        b"[NaN," + b"9" * 300_000 + b"]",
        b'{"id":1,"op":"push","request":"1-fuzz:1","jobs":[{"id":"a","task":"t","args":'
        + b"[" * 101
        + b"]" * 101
        + b"}]}",
        *(b'{"id":3,"op":"get","ids":[%b]}' % encoded(token) for token in TOKENS),
        *(
            b'[{"id":1,"op":"push","request":"1-fuzz:1","jobs":[{"id":"a","task":"t","args":[%b]},'
            b'{"id":"b","task":"t"}]},{"id":3,"op":"stats"}]' % encoded(token)
            for token in TOKENS
        ),
        b"\xff binary",
    ]


def encoded(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def a_world(**settings: Any) -> World:
    """Return a document that has a job in every state."""
    world = World(**settings)
    world.push("a", "b", "c", "d", "e", "f", args=b'["\\u00e9", {"n": 1.50}]')
    world.complete(world.take(), b'{"ok": true}')
    world.fail(world.take(), retry_after=None)
    world.fail(world.take(), retry_after=60.0)
    world.start(world.take())
    world.operate(ops.Cancel, "e", "ready")
    world.apply(ops.Pause(request=world.request(), queue="mail"))
    return world


def documents() -> list[bytes]:
    """Return documents: plain, compressed, cut, lying about their length, and bombs."""
    plain = a_world().reload()
    packed = a_world(compress_above=0).reload()
    compress = zstandard.ZstdCompressor(level=1).compress
    text = json.loads(plain)
    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(plain)
    head = plain[: plain.index(b',\n"jobs"')]
    odd: tuple[Any, ...] = (-1, 2**63, 2**64, 1e300, "x", None, [], {}, [[]], {"a": {}})
    return [
        plain,
        packed,
        unsized,
        compress(head) + compress(bytes(1 << 28)),
        compress(bytes(1 << 28)),
        compress(compress(bytes(1 << 28))),
        packed[: len(packed) // 2],
        packed[:4] + b"\xff" * 12 + packed[16:],  # a header that lies
        packed + b"\x50\x2a\x4d\x18\xff\xff\xff\x7f",  # a frame to be skipped that is not there
        packed * 2,
        *(
            json.dumps({**text, field: value}).encode()
            for field in ("seq", "epoch", "at", "uptime_ms", "jobs", "totals", "requests", "queues")
            for value in odd
        ),
        *(plain.replace(b'"n": 1.50', b'"n": %b' % encoded(token), 1) for token in TOKENS),
        b"[" * 100_000,
        b'{"objq":1,"jobs":' + b"[" * 100_000,
        b'{"objq": 2}',
        plain.replace(b'"objq":1', b'"objq":2', 1),
        plain.replace(b'"objq":1', b'"new":{},"objq":2', 1),
        b"",
    ]


def texts() -> list[bytes]:
    """Return JSON values for what reads arguments and results."""
    inner = [f"[{token}]" for token in TOKENS] + [f'{{"k":{token}}}' for token in TOKENS]
    return [
        *map(encoded, (*TOKENS, *inner)),
        b'[1, 2.5, "x", {"a": null}]',
        b"[" * 100 + b"]" * 100,
        b'"' + b"\\u00e9" * 100_000 + b'"',
        b'["\xff\xfe"]',
        b"[" + b"0," * 200_000 + b"0]",
    ]


# --- Hypothesis ----------------------------------------------------------------------------------

_atoms = st.sampled_from(TOKENS) | st.integers().map(str) | st.text(max_size=6).map(json.dumps)


def _object(pairs: list[tuple[str, str]]) -> str:
    return "{" + ",".join(f"{json.dumps(key)}:{value}" for key, value in pairs) + "}"


_keys = st.sampled_from(("id", "token", "task", "args", "error", "type", "a")) | st.text(max_size=3)
hostile_text: st.SearchStrategy[str] = st.recursive(
    _atoms,
    lambda inner: (
        st.lists(inner, max_size=4).map(lambda values: f"[{','.join(values)}]")
        | st.lists(st.tuples(_keys, inner), max_size=4).map(_object)
    ),
    max_leaves=8,
)
"""Text in the form of JSON, more or less: keys may be doubled, and numbers none."""


@st.composite
def hostile_message(draw: st.DrawFn) -> str:
    """Draw a message of which some fields are something else, or are there twice."""
    message = draw(st.sampled_from(MESSAGES))
    pairs = [(name, json.dumps(value)) for name, value in message.items()]
    for _ in range(draw(st.integers(0, 2))):
        name = draw(st.sampled_from([*message, "jobs", "items", "tokens", "ids", "new"]))
        pairs.insert(draw(st.integers(0, len(pairs))), (name, draw(hostile_text)))
    return _object(pairs)


hostile_frames: st.SearchStrategy[bytes] = (
    hostile_message()
    | st.lists(hostile_message() | hostile_text, max_size=5).map(lambda m: f"[{','.join(m)}]")
    | hostile_text
    | st.text()
).map(encoded)


@st.composite
def hostile_document(draw: st.DrawFn) -> bytes:
    """Draw a document with some value in it replaced."""
    text = json.loads(a_world().reload())
    place: Any = text
    name: Any = draw(st.sampled_from(sorted(place)))
    while isinstance(place[name], dict | list) and place[name] and draw(st.booleans()):
        place = place[name]
        names = sorted(place) if isinstance(place, dict) else range(len(place))
        name = draw(st.sampled_from(list(names)))
    place[name] = "@here@"
    data = json.dumps(text).replace('"@here@"', draw(hostile_text), 1)
    return encoded(data)
