"""Bytes of `queue.json` ⇄ `Document` (design §5).

The header stands first and within `HEAD_BYTES`, so that a ranged read finds the broker. Above
`compress_above` bytes the object is zstd-compressed, with the header as a frame of its own, so that
the same ranged read still suffices. What is not understood is refused and never guessed (S14): of a
newer schema what is known here is read, and nothing is written.
"""

from __future__ import annotations

from typing import Annotated, Final, NoReturn

import msgspec
import zstandard
from msgspec import Meta, Raw, Struct

from objq.core.document import Document, Header, QueueState, Totals
from objq.core.job import PLACES, place_of
from objq.core.ops import DocumentSettings, JobView
from objq.core.requests import Remembered, RequestMemory
from objq.errors import Corrupt, ForeignDocument, Forked, NewerSchema, WentBack

SCHEMA: Final = 1
HEAD_BYTES: Final = 4096
MARGIN_BYTES: Final = 64
"""Of those, for what follows the header in the file, or for the frame around it."""

ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
ZSTD_LEVEL: Final = 1

MAX_TEXT_BYTES: Final = 2 * 1024**3
"""The longest text that is read. What a frame of zstd says of its length is not relied on."""

SLICE_BYTES: Final = 512
"""What zstd is given at a time: it makes at most some 16 MiB of so much."""


class _AnyRequests(Struct):
    forgotten: int = 0
    clients: dict[str, Remembered] = {}


class _Requests(_AnyRequests, forbid_unknown_fields=True):
    """Those of this schema."""


class _AnyFile(Header, frozen=True, kw_only=True):
    jobs: list[Raw]
    dead: list[Raw]
    finished: list[Raw]
    settings: DocumentSettings
    queues: dict[str, QueueState]
    requests: _AnyRequests
    totals: dict[str, Totals]


class _File(_AnyFile, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A document of this schema."""

    requests: _Requests


class _JobRecord(JobView, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job in the file: an unknown field would be lost by the next change, so it is refused."""


class _Schema(Struct):
    objq: Annotated[int, Meta(ge=1)]


_encode = msgspec.json.Encoder().encode
_file_decoder: msgspec.json.Decoder[_AnyFile] = msgspec.json.Decoder(_File)
_job_decoder: msgspec.json.Decoder[JobView] = msgspec.json.Decoder(_JobRecord)
_newer_file_decoder = msgspec.json.Decoder(_AnyFile)
_newer_job_decoder = msgspec.json.Decoder(JobView)
_header_decoder = msgspec.json.Decoder(Header)


def seal(document: Document, commit: str, now: int, *, leading: bool) -> bytes:
    """Make the document's next version and return its bytes.

    `seq` rises by one and `commit` (a random id of this write) makes the bytes unlike any others
    (S3). A commit of the leader answers a challenge by removing it.
    """
    document.seq += 1
    document.commit = commit
    document.at = document.stamp(now)
    if leading:
        document.challenge = None
    document.dirty = False
    return encode(document)


def encode(document: Document) -> bytes:
    """Return the document as it stands, compressed if it is large.

    Raises NewerSchema: whatever of it is not known here would be lost (S14).
    """
    check_writable(document.header())
    head = _encode(document.header())[:-1]
    if len(head) > HEAD_BYTES - MARGIN_BYTES:
        raise ValueError(f"The header has {len(head)} bytes: the broker's URL is far too long.")
    parts = [head]
    for name, jobs in zip(PLACES, (document.jobs, document.dead, document.finished), strict=True):
        parts.append(b',\n"%s": [\n' % name.encode() if jobs else b',\n"%s": [' % name.encode())
        parts.append(b",\n".join([job.raw for job in jobs.values()]))
        parts.append(b"]")
    requests = {"forgotten": document.requests.forgotten, "clients": document.requests.clients}
    for name, value in (
        ("settings", document.settings),
        ("queues", document.queues),
        ("requests", requests),
        ("totals", document.totals),
    ):
        parts.append(b',\n"%s": ' % name.encode())
        parts.append(_encode(value))
    parts.append(b"}\n")
    if sum(map(len, parts)) <= document.settings.compress_above:
        return b"".join(parts)
    compressor = zstandard.ZstdCompressor(level=ZSTD_LEVEL)
    return compressor.compress(head) + compressor.compress(b"".join(parts[1:]))


def decode(data: bytes) -> Document:
    """Return the document in `data`; of one in a newer schema, what is known here.

    Raises Corrupt with what to do, and NewerSchema if too little is known here; the caller must
    then write nothing, nor onto a document that is not `check_writable` (S14).
    """
    text = to_json(data)
    schema = SCHEMA
    try:
        schema = msgspec.json.decode(text, type=_Schema).objq
        files, jobs = _file_decoder, _job_decoder
        if schema > SCHEMA:
            files, jobs = _newer_file_decoder, _newer_job_decoder
        file = files.decode(text)
        document = Document(
            file,
            file.settings,
            file.queues,
            RequestMemory(file.requests.forgotten, file.requests.clients),
            file.totals,
        )
        for where in PLACES:
            _load(document, where, getattr(file, where), jobs)
    except (msgspec.MsgspecError, RecursionError) as error:
        _refuse(str(error), schema)
    document.dirty = False
    return document


def decode_head(data: bytes) -> Header:
    """Return the header from the first `HEAD_BYTES` bytes of an object (or from all of it).

    Raises as `decode`.
    """
    _check_present(data)
    if data.startswith(ZSTD_MAGIC):
        head, _, _ = _expand(data[:HEAD_BYTES], 0, HEAD_BYTES)
    else:
        end = data.find(b',\n"jobs":')
        # Where somebody's editor changed the spacing, the whole text, if all is there, still tells.
        head = data[:end] if end >= 0 else data.rstrip().removesuffix(b"}")
    schema = SCHEMA
    try:
        schema = msgspec.json.decode(head + b"}", type=_Schema).objq
        return _header_decoder.decode(head + b"}")
    except (msgspec.MsgspecError, RecursionError) as error:
        _refuse(str(error), schema)


def check_writable(header: Header) -> None:
    """Raise NewerSchema if the document may be read here, but not written (S14)."""
    if header.objq > SCHEMA:
        raise NewerSchema(
            f"queue.json has schema {header.objq} and this objq writes {SCHEMA}: it is read and "
            "left alone; upgrade objq here."
        )


def check_successor(seen: Header, found: Header, *, is_told: bool = False) -> None:
    """Raise ForeignDocument unless `found` may be what became of `seen` (S14).

    The commit of either may be empty: not known, where a broker told of it. `is_told`: a broker
    tells of `found`, so that it may be older than what others have written, or lead no more. Only
    one of a later epoch has itself read what was there before.
    """
    if found.document != seen.document:
        raise ForeignDocument(
            f"This is document {found.document}, but {seen.document} was here before; "
            "if that is intended (a restore), run manage.py objq_doctor --adopt, and if it was "
            "adopted, restart this process."
        )
    if is_told and found.epoch <= seen.epoch:
        return
    if found.seq < seen.seq or found.epoch < seen.epoch:
        raise WentBack(
            f"The document went back from epoch {seen.epoch}, seq {seen.seq} to epoch "
            f"{found.epoch}, seq {found.seq}; if an older version was restored on purpose, "
            "run manage.py objq_doctor --adopt."
        )
    if found.seq == seen.seq and found.commit != seen.commit and found.commit and seen.commit:
        raise Forked(
            f"There are two versions with seq {found.seq}: somebody wrote unconditionally."
        )


def _check_present(data: bytes) -> None:
    if not data:
        _corrupt("it is empty")


def to_json(data: bytes) -> bytes:
    """Return the JSON text of an object as it was stored, compressed or not. Raises Corrupt."""
    _check_present(data)
    if not data.startswith(ZSTD_MAGIC):
        return data
    parts: list[bytes] = []
    at, left = 0, MAX_TEXT_BYTES
    while at < len(data):
        part, at, ended = _expand(data, at, left)
        if not ended:
            _corrupt("it is cut short")
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _expand(data: bytes, at: int, most: int) -> tuple[bytes, int, bool]:
    """Return what the zstd frame at `at` holds, where it ends, and whether all of it is there.

    Raises Corrupt, and has then taken little more memory than `most` bytes.
    """
    frame = zstandard.ZstdDecompressor().decompressobj()
    view = memoryview(data)
    parts: list[bytes] = []
    size_bytes = 0
    try:
        while at < len(data) and not frame.eof:
            parts.append(frame.decompress(view[at : at + SLICE_BYTES]))
            at = min(at + SLICE_BYTES, len(data))
            size_bytes += len(parts[-1])
            if size_bytes > most:
                _corrupt(f"a part of it expands to more than {most:,} bytes")
    except zstandard.ZstdError as error:
        _corrupt(str(error))
    return b"".join(parts), at - len(frame.unused_data), frame.eof


def _load(
    document: Document, where: str, records: list[Raw], decoder: msgspec.json.Decoder[JobView]
) -> None:
    for record in records:
        raw = bytes(record)
        view = decoder.decode(raw)
        if document.find(view.id) is not None:
            _corrupt(f"job {view.id} stands in it twice")
        if place_of(view.state) != where:
            _corrupt(f"job {view.id} is {view.state} but stands among {where!r}")
        if (view.state == "running") != (view.claim is not None):
            _corrupt(f"job {view.id} is {view.state} but its claim says otherwise")
        if view.claim is not None and view.claim.token in document.claims:
            _corrupt(f"two jobs are held under the token {view.claim.token}")
        document.load(view, raw)


def _refuse(why: str, schema: int) -> NoReturn:
    if schema > SCHEMA:
        raise NewerSchema(
            f"queue.json has schema {schema}, of which this objq, which knows {SCHEMA}, cannot "
            f"read enough ({why}): it is left alone; upgrade objq here."
        )
    _corrupt(why)


def _corrupt(why: str) -> NoReturn:
    raise Corrupt(
        f"queue.json is not a document of objq ({why}); it is left as it is. Restore a version of "
        "it and run manage.py objq_doctor --adopt, or move it away to begin anew."
    )
