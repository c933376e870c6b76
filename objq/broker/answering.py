"""How those who wait for a commit are answered: a broker's, and that of a process without one."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

import msgspec

from objq.core import ops
from objq.core.document import Document
from objq.errors import ExpiredId, ObjqError, Unknown

Entry = TypeVar("Entry")


class Poisoned(Exception, Generic[Entry]):
    """Some requests broke the rules' code, which is a bug; `entries` have to be taken out, so that
    they do not take their neighbours along."""

    def __init__(self, entries: list[Entry]) -> None:
        super().__init__("A request failed in a way that no rule foresees.")
        self.entries = entries


def answer(future: asyncio.Future[ops.Answer], answer: ops.Answer) -> None:
    """Answer, unless nobody waits any more."""
    if not future.done():
        future.set_result(answer)


def refuse(future: asyncio.Future[ops.Answer], error: Exception) -> None:
    """Answer with an error; nobody has to be listening any more."""
    if not future.done():
        future.set_exception(error)
        future.exception()  # marks it as seen, so that a caller that went away leaves no warning


def refused_again(error: ObjqError, op: ops.Op) -> ObjqError:
    """Return what a refusal means to a request that an earlier version may hold already.

    If that version lies beneath the present one, the request's id is remembered and it is answered
    as before; unless somebody whose clock is ahead has forgotten the id meanwhile. So a refusal for
    the id's age says nothing about what became of the request (S7, S12).
    """
    if not isinstance(error, ExpiredId):
        return error
    return Unknown(
        "Whether this was applied is forgotten: its id has expired meanwhile.", ids=ops.ids_of(op)
    )


def placed(answer: ops.Answer, document: Document, index: int, *, changed: bool) -> ops.Answer:
    """Return the answer with the place of its commit, if the document was changed for it.

    A claim is told the version that it was looked up in, too, also if that had nothing for it: from
    its seq an idle worker draws the id of its next claim (S7).
    """
    if not changed and not isinstance(answer, ops.Granted):
        return answer
    return msgspec.structs.replace(answer, position=(document.epoch, document.seq, index))
