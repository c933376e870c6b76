"""How those who wait for a commit are answered: a broker's, and that of a process without one."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

import msgspec

from objq.core import ops
from objq.core.document import Document

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


def placed(answer: ops.Answer, document: Document, index: int, *, changed: bool) -> ops.Answer:
    """Return the answer with the place of its commit, if the document was changed for it.

    A claim is told the version that it was looked up in, too, also if that had nothing for it: from
    its seq an idle worker draws the id of its next claim (S7).
    """
    if not changed and not isinstance(answer, ops.Granted):
        return answer
    return msgspec.structs.replace(answer, position=(document.epoch, document.seq, index))
