"""What may be concluded about one request, from all that was sent and heard (promises S7, S12).

A request can be under way in several copies at once: over a socket that broke, over the next one,
by a direct write. Each copy ends in exactly one of three ways, and the table says what that means
for the request; "doubt" is that an earlier copy was sent and may still be applied.

=====================  =================================  =========================================
a copy                 without doubt                      in doubt
=====================  =================================  =========================================
is accepted            ok                                 ok (items refused for good, else unknown)
is refused, final      Rejected                           Rejected
is refused             Rejected                           Unknown
`expired_id`           ours: draw a new id and send that  Unknown
                       the caller's: Rejected
`overloaded`           wait and repeat                    wait and repeat
`not_broker`           repeat elsewhere                   repeat elsewhere
`unavailable`,         in doubt from now on; repeat       repeat
`unknown`, or lost
=====================  =================================  =========================================

Reads are never in doubt: they change nothing. Outcome reports need no request id, since a token is
one; `claim_lost` for a repeated report is what S6 promises, and stays as it is.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any, Final

import msgspec

from objq.client.link import ClientClosed
from objq.core import ops
from objq.errors import (
    DocumentError,
    ExpiredId,
    NotBroker,
    ObjqError,
    Overloaded,
    Rejected,
    Unauthorized,
    Unavailable,
    Unknown,
)

READS: Final = (ops.Hello, *ops.UNCOMMITTED)


READ_NAMES: Final = {
    ops.Hello: "greeting",
    ops.Get: "request for jobs",
    ops.Stats: "request for stats",
    ops.ListJobs: "request for a list of jobs",
    ops.Workers: "request for the workers",
    ops.History: "request for the history",
}
"""What people call them; any other is called by its name: "push request"."""


class NotRunning(Unavailable):
    """Nothing listens at the address of the broker that the document names."""


class Next(Enum):
    """What to do with a request whose copy was refused, but not for good."""

    WAIT = auto()
    REDRAW = auto()
    ELSEWHERE = auto()
    RECHECK = auto()


class Copy:
    """One sending of a request. `mark_sent` is called when it is handed to a socket or a write."""

    __slots__ = ("op", "sent")

    def __init__(self, op: ops.Op) -> None:
        self.op = op
        self.sent = False

    def mark_sent(self) -> None:
        self.sent = True


class Ticket:
    """One request. Every `issue` is followed by one of `accept`, `refuse` and `lost`."""

    def __init__(self, op: ops.Op) -> None:
        self.op: Any = op
        """With the id that it has by now."""
        self.overloaded: Overloaded | None = None
        self.told: ObjqError | None = None
        """What last kept this request waiting, as its peer or the store said it."""
        self.answer: ops.Answer | None = None
        """What was accepted; the deadline may strike before the caller gets it."""
        self._open = 0
        self._drawn = False
        """The id was drawn here, so that another may be, of which no caller knows."""
        self._doubt: bool = getattr(op, "repeat", False)

    # --- the id ----------------------------------------------------------------------------------

    @property
    def id_field(self) -> str | None:
        """Return the field that holds the request's id, if its kind has one."""
        if isinstance(self.op, ops.TakeClaim):
            return "claim"
        return "request" if hasattr(self.op, "request") else None

    @property
    def id(self) -> str:
        """Return the request's id, or "" if it has none (yet)."""
        return getattr(self.op, self.id_field) if self.id_field is not None else ""

    def needs_id(self) -> bool:
        return self.id_field is not None and not self.id

    def give_id(self, request: str) -> None:
        """Give it an id that was drawn for it; an empty one lets another be drawn."""
        assert self.id_field is not None
        self._drawn = True
        self.op = msgspec.structs.replace(self.op, **{self.id_field: request})

    # --- copies ----------------------------------------------------------------------------------

    def issue(self) -> Copy:
        """Return a copy to send, marked as a repeat if another may be under way."""
        op = self.op
        if self.in_doubt() and hasattr(op, "repeat"):
            op = msgspec.structs.replace(op, repeat=True)
        self._open += 1
        return Copy(op)

    def lost(self, copy: Copy) -> None:
        """Nobody will hear what became of this copy."""
        self._open -= 1
        self._doubt = self._doubt or copy.sent

    def accept(self, answer: ops.Answer) -> ops.Answer:
        """Return the answer for the caller."""
        self._open -= 1
        if self.in_doubt() and isinstance(answer, ops.Outcomes) and self.id_field is not None:
            items = tuple(self._settled(item) for item in answer.items)
            return msgspec.structs.replace(answer, items=items)
        return answer

    def refuse(self, error: ObjqError) -> Next:
        """Return what to do next, or raise what the refusal means to the caller."""
        self._open -= 1
        self.overloaded = error if isinstance(error, Overloaded) else None
        if self.overloaded is not None:
            return Next.WAIT
        if isinstance(error, NotBroker):
            return Next.ELSEWHERE
        if not isinstance(error, Rejected | DocumentError):
            self._doubt = True
            self.told = error
            return Next.RECHECK
        if isinstance(error, ExpiredId):
            if self.in_doubt():
                why = "its id has expired, so what became of it is forgotten"
                raise self.unknown(why) from error
            if self._drawn:
                return Next.REDRAW
            raise error
        if not self.in_doubt() or isinstance(self.op, READS) or getattr(error, "final", False):
            raise error
        raise self.unknown("a repeat of it was refused", error) from error

    def barred(self, error: ObjqError) -> ObjqError:
        """Return what to raise when an error keeps all further copies from being sent."""
        if not self.in_doubt() or isinstance(self.op, READS):
            return error
        if isinstance(error, ClientClosed):
            return self.unknown("the client was closed before an answer came")
        return self.unknown("it could not be sent again to learn that", error)

    # --- the end ---------------------------------------------------------------------------------

    def gave_up(self, limit_s: float, why: ObjqError | None) -> ObjqError:
        """Return what to raise at the deadline. `why`: what now keeps the broker out of reach."""
        why = why or self.told
        answer = "answer" if self.told is None else "conclusive answer"
        if self.in_doubt() and not isinstance(self.op, READS):
            return self.unknown(f"there was no {answer} within {limit_s:g} s", why)
        if self.overloaded is not None:
            return self.overloaded
        if isinstance(why, DocumentError | Unauthorized):
            return why
        name = called(self.op)
        sent = (
            "" if isinstance(self.op, READS) else f" The {name} was not sent, so nothing changed."
        )
        if isinstance(why, NotRunning):
            waited = f"No other broker took over within {limit_s:g} s."
            return NotRunning(f"{why.message} {waited}{sent}")
        reason = f" {why.message.rstrip('.')}." if why is not None else ""
        return Unavailable(
            f"There was no {answer} to this {name} within {limit_s:g} s.{reason}{sent}"
        )

    def unknown(self, what: str, why: ObjqError | None = None) -> Unknown:
        name = f"{called(self.op)} {self.id}".rstrip()
        reason = f" {why.message.rstrip('.')}." if why is not None else ""
        return Unknown(
            f"Whether this {name} was applied is not known: {what}.{reason} "
            "Repeating it with the same ids is safe.",
            ids=ops.ids_of(self.op),
            request=self.id or None,
        )

    def in_doubt(self) -> bool:
        """Tell whether a copy that was sent may still be applied."""
        return self._doubt or self._open > 0

    def _settled(self, item: ops.ItemOutcome) -> ops.ItemOutcome:
        if item.error is None or item.error.final:
            return item
        problem = ops.Problem(
            code=Unknown.code, message=f"A repeat was refused. {item.error.message}"
        )
        return msgspec.structs.replace(item, error=problem)


def called(op: ops.Op) -> str:
    """Return what a request is called in a sentence, after "this" or "the"."""
    name = ops.op_name(op).replace("_", " ")
    return READ_NAMES.get(type(op), f"{name} request")
