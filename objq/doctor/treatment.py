"""What a doctor does to a document, and only when asked: `--adopt` and `--upgrade` (promise S14).

Every process that knows a document refuses one that went back in time or has another id, and
stops writing. That is right until a person says that the older version is the one to go on with.
Adopting says so: the document gets a new id and the next epoch, and no broker. By the new id,
processes that still run go on refusing it until they are restarted, so that none of them brings
back, or repeats, what belongs to the time that was lost.
"""

from __future__ import annotations

import asyncio
from typing import Final

from objq.broker.commit import Committer
from objq.broker.election import Reach
from objq.broker.probe_http import probe_http
from objq.client.reading import Reading, document_reader
from objq.clock import SYSTEM_CLOCK, Clock
from objq.core.codec import SCHEMA, check_writable
from objq.core.document import Document
from objq.core.leading import adopt
from objq.durations import in_words
from objq.errors import Conflict, ForeignDocument, Rejected, Unknown
from objq.ids import Ids
from objq.store.aio import InThread
from objq.store.base import AsyncStore, Store, StoreError

TIMEOUT_S: Final = 60.0


def explain(reading: Reading, name: str) -> str:
    """Return what adopting this document means, for whoever has to confirm it."""
    document = reading.document
    return (
        f"{name} is document {document.id}, epoch {document.epoch}, seq {document.seq}, last "
        f"written {in_words(reading.age_s)} ago, with {len(document.jobs)} jobs that wait or run "
        f"and {len(document.dead)} dead ones.\n"
        "Adopting it means to go on from this version:\n"
        "  - it gets a new document id, the next epoch, and no broker;\n"
        "  - jobs that were pushed after it was written are lost, unless they are pushed again;\n"
        "  - jobs that were finished after it was written will run again;\n"
        "  - every broker, worker and web process that runs now goes on refusing it until it is "
        "restarted,\n    and tokens made by objq_token for the old document no longer count.\n"
        "Stop all brokers and workers before; start them, and restart the web processes, after."
    )


def confirm() -> None:
    """Ask whoever sits at the terminal. Raises Rejected without a yes."""
    try:
        said = input("Adopt it? Type yes: ")
    except (EOFError, RuntimeError):  # RuntimeError: there is not even a closed stdin
        raise Rejected(
            "Nothing was changed: nobody is there to confirm it. Give --yes to adopt it unasked."
        ) from None
    if said != "yes":
        raise Rejected("Nothing was changed.")


def adopt_document(store: Store, shown: Document) -> Document:
    """Adopt the document, if it is still the one that was shown; return it as committed.

    Raises NewerSchema, Conflict if a broker leads it without trouble, ForeignDocument if it has
    become another document meanwhile, and Unknown if the store has not answered in time.
    """
    check_writable(shown.header())
    if shown.broker is not None:
        result = asyncio.run(probe_http(shown.broker.url))
        answers = result.reach is Reach.ANSWERED and result.broker == shown.broker.id
        if answers and result.leading and result.store_ok:
            raise Conflict(
                f"{shown.broker.url} leads this document without trouble, so there is nothing to "
                "adopt. After a restore, stop every broker first."
            )
    return asyncio.run(_adopt_in_thread(store, shown.id))


async def _adopt_in_thread(store: Store, shown_id: str) -> Document:
    in_thread = InThread(store)
    try:
        return await adopt_shown(in_thread, shown_id, clock=SYSTEM_CLOCK, ids=Ids())
    finally:
        in_thread.close()


async def adopt_shown(store: AsyncStore, shown_id: str, *, clock: Clock, ids: Ids) -> Document:
    """Adopt the document with this id; raises as `adopt_document`, but asks no broker."""
    new_id = ids.token()
    committer = Committer(store, clock, ids)

    def change(document: Document) -> bool:
        if document.id == new_id:
            return False  # a conflict with somebody who wrote after our own commit
        if document.id != shown_id:
            raise ForeignDocument(
                f"{store.name} is now document {document.id}, not {shown_id}: somebody else has "
                "adopted or replaced it. Look again."
            )
        adopt(document, new_id)
        # What is written has another id than what was read: when the outcome is in doubt, reading
        # back must not take our own version for somebody else's document.
        committer.reader.seen = None
        return True

    try:
        async with asyncio.timeout(TIMEOUT_S):
            return await committer.transact(change, leading=True)
    except (TimeoutError, StoreError) as error:
        why = str(error) or "no answer in time"
        raise Unknown(
            f"Whether {store.name} was adopted is not known ({why}): run objq_doctor again and "
            "look at the document's id."
        ) from error
    finally:
        committer.close()


def upgrade_notice(alias: str) -> str:
    """Return what there is to upgrade; raises what reading the header raises, and NewerSchema."""
    with document_reader(alias) as reader:
        header = reader.header()
        check_writable(header)
        found = header.objq
        return (
            f"{reader.store.name} has schema {found}, and {SCHEMA} is the newest that this objq "
            "writes: there is nothing to do."
        )
