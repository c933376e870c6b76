"""Can the document be understood, has it room, and do its totals add up?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from objq.client.reading import Reading
from objq.core.codec import SCHEMA
from objq.core.document import Document
from objq.core.ops import DocumentSettings
from objq.core.totals import mismatches
from objq.doctor.findings import Finding, ok, problem, warning
from objq.durations import in_words
from objq.options import Options

CRAMPED: Final = 0.8
"""A document that is filled beyond this share of a limit gets a warning."""


def check_document(reading: Reading) -> Iterator[Finding]:
    document = reading.document
    yield ok(
        "document",
        f"Document {document.id}, schema {document.schema}, epoch {document.epoch}, "
        f"seq {document.seq}, {reading.size_bytes:,} bytes, "
        f"last commit {in_words(reading.age_s)} ago; "
        f"{len(document.jobs):,} waiting or running, {len(document.dead):,} dead.",
    )
    if document.schema > SCHEMA:
        yield problem(
            "schema",
            f"This objq reads schema {document.schema} as far as it knows it, and writes only "
            f"{SCHEMA}: it cannot lead, nor push directly.",
            "Upgrade objq here.",
        )
    yield from _check_room(document)


def check_totals(reading: Reading) -> Iterator[Finding]:
    """Find a queue whose counters do not account for its jobs (design §5)."""
    wrong = mismatches(reading.document)
    for each in wrong:
        yield problem(
            "totals",
            f"Queue {each.queue!r}: {each.came} jobs came and {each.accounted} are accounted for.",
            "Unless somebody edited queue.json this is a bug of objq: please report it, with the "
            "output of objq_cat.",
        )
    if not wrong:
        yield ok("totals", f"The totals add up ({len(reading.document.totals)} queues).")


def check_shared_settings(options: Options, document: Document) -> Iterator[Finding]:
    """Compare what the last leader wrote with what is configured here."""
    theirs, ours = document.settings, options.document_settings()
    differing = [
        f"{name.removesuffix('_s').upper()} is {getattr(theirs, name):,.15g} there and "
        f"{getattr(ours, name):,.15g} here"
        for name in DocumentSettings.__struct_fields__
        if getattr(theirs, name) != getattr(ours, name)
    ]
    if differing and document.broker is not None:
        yield warning(
            "shared",
            f"The broker leads with other settings than these: {'; '.join(differing)}.",
            "Its own hold until a broker with these takes over: restart the brokers.",
        )


def _check_room(document: Document) -> Iterator[Finding]:
    settings = document.settings
    shares = {
        "MAX_JOBS": len(document.jobs) / settings.max_jobs,
        "MAX_BYTES": document.waiting_bytes() / max(1, document.room_bytes()),
        "MAX_QUEUES": len(document.totals) / settings.max_queues,
        "MAX_CLIENTS": len(document.requests.clients) / settings.max_clients,
    }
    for option, share in shares.items():
        if share > CRAMPED:
            yield warning(
                "room",
                f"{share:.0%} of {option} is used; at 100% pushes are refused.",
                "Run more workers, or raise the option on the brokers and restart them.",
            )
    if max(shares.values()) <= CRAMPED:
        option, share = max(shares.items(), key=lambda item: item[1])
        yield ok("room", f"At most {share:.0%} of a limit is used ({option}).")
