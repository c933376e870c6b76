"""The table at the head of `objq.client.ticket`, row by row."""

from __future__ import annotations

import pytest

from objq.client.link import ClientClosed
from objq.client.ticket import Next, Ticket
from objq.core import ops
from objq.errors import (
    ClaimLost,
    Conflict,
    ExpiredId,
    Invalid,
    NoDocument,
    NotBroker,
    ObjqError,
    Overloaded,
    QueueFull,
    Unauthorized,
    Unavailable,
    Unknown,
)

JOB = ops.NewJob(id="job-1", task="shop.tasks.send")
PUSH = ops.Push(request="1-a:1", jobs=(JOB,))
CANCEL = ops.Cancel(request="1-a:1", ids=("job-1",), expected="ready")
PAUSE = ops.Pause(request="1-a:1", queue="default")
CLAIM = ops.TakeClaim(claim="1-a:1")
CHANGES = [PUSH, CANCEL, PAUSE, CLAIM]


def in_doubt(op: ops.Op) -> Ticket:
    ticket = Ticket(op)
    copy = ticket.issue()
    copy.mark_sent()
    ticket.lost(copy)
    return ticket


@pytest.mark.parametrize("op", CHANGES)
@pytest.mark.parametrize("error", [Invalid("x"), QueueFull("x"), Conflict("x"), Unauthorized("x")])
def test_refusal(op: ops.Op, error: ObjqError) -> None:
    ticket = Ticket(op)
    ticket.issue()
    with pytest.raises(type(error)):
        ticket.refuse(error)

    ticket = in_doubt(op)
    ticket.issue()
    with pytest.raises(Unknown) as caught:
        ticket.refuse(error)
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("op", CHANGES)
def test_final_refusal(op: ops.Op) -> None:
    ticket = in_doubt(op)
    ticket.issue()
    with pytest.raises(Conflict):
        ticket.refuse(Conflict("x", final=True))


@pytest.mark.parametrize("op", CHANGES)
def test_expired_id(op: ops.Op) -> None:
    ticket = Ticket(op)
    ticket.give_id("1-a:1")
    ticket.issue()
    assert ticket.refuse(ExpiredId("x")) is Next.REDRAW
    ticket.give_id("")
    assert ticket.needs_id()
    ticket.give_id("2-b:1")
    assert not ticket.needs_id()

    ticket = in_doubt(op)
    ticket.issue()
    with pytest.raises(Unknown):
        ticket.refuse(ExpiredId("x", final=True))


@pytest.mark.parametrize("op", CHANGES)
def test_expired_id_that_the_caller_gave_is_the_callers(op: ops.Op) -> None:
    ticket = Ticket(op)
    ticket.issue()
    with pytest.raises(ExpiredId):
        ticket.refuse(ExpiredId("x"))


def test_expired_id_beside_another_copy_under_way() -> None:
    ticket = Ticket(PUSH)
    ticket.issue()
    ticket.issue()
    with pytest.raises(Unknown):
        ticket.refuse(ExpiredId("x"))


@pytest.mark.parametrize(
    ("error", "then"),
    [
        (Overloaded("x"), Next.WAIT),
        (NotBroker("x"), Next.ELSEWHERE),
        (Unavailable("x"), Next.RECHECK),
        (Unknown("x"), Next.RECHECK),
    ],
)
def test_passing_refusals(error: ObjqError, then: Next) -> None:
    for ticket in (Ticket(PUSH), in_doubt(PUSH)):
        ticket.issue()
        assert ticket.refuse(error) is then


@pytest.mark.parametrize("error", [Unavailable("x"), Unknown("x")])
def test_no_clear_answer_leaves_doubt(error: ObjqError) -> None:
    ticket = Ticket(PUSH)
    assert not ticket.issue().op.repeat  # type: ignore[attr-defined]
    ticket.refuse(error)
    assert ticket.issue().op.repeat  # type: ignore[attr-defined]


@pytest.mark.parametrize("error", [Overloaded("x"), NotBroker("x")])
def test_clear_answer_leaves_none(error: ObjqError) -> None:
    ticket = Ticket(PUSH)
    ticket.issue()
    ticket.refuse(error)
    assert not ticket.issue().op.repeat  # type: ignore[attr-defined]


def test_copy_that_was_never_sent_leaves_no_doubt() -> None:
    ticket = Ticket(PUSH)
    ticket.lost(ticket.issue())
    assert not ticket.issue().op.repeat  # type: ignore[attr-defined]


def test_reads_are_never_in_doubt() -> None:
    ticket = in_doubt(ops.Get(ids=("job-1",)))
    ticket.issue()
    with pytest.raises(Invalid):
        ticket.refuse(Invalid("x"))
    assert isinstance(ticket.gave_up(10, None), Unavailable)


def test_repeated_report_that_lost_its_claim() -> None:
    problem = ops.Problem(code=ClaimLost.code, message="x")
    answer = ops.Outcomes(items=(ops.ItemOutcome(token="t", error=problem),))
    ticket = in_doubt(ops.Release(tokens=("t",)))
    ticket.issue()
    assert ticket.accept(answer) == answer


@pytest.mark.parametrize(
    ("op", "ids", "request_id"),
    [
        (PUSH, ("job-1",), "1-a:1"),
        (CANCEL, ("job-1",), "1-a:1"),
        (PAUSE, ("1-a:1",), "1-a:1"),
        (CLAIM, ("1-a:1",), "1-a:1"),
        (ops.Complete(items=(ops.Completion(token="t"),)), ("t",), None),
    ],
)
def test_deadline_in_doubt(op: ops.Op, ids: tuple[str, ...], request_id: str | None) -> None:
    error = in_doubt(op).gave_up(10, Unavailable("gone"))
    assert isinstance(error, Unknown)
    assert error.ids == ids
    assert error.request == request_id
    assert "10 s" in error.message


@pytest.mark.parametrize(
    ("op", "name"),
    [
        (ops.Stats(), "request for stats"),
        (ops.Workers(), "request for the workers"),
        (CANCEL, "cancel request"),
        (ops.RunNow(request="1-a:1", ids=("job-1",), expected="scheduled"), "run now request"),
    ],
)
def test_requests_are_named_in_words(op: ops.Op, name: str) -> None:
    assert f"no answer to this {name} within" in str(Ticket(op).gave_up(2, None))


def test_deadline_without_doubt_tells_why() -> None:
    assert isinstance(Ticket(PUSH).gave_up(10, NoDocument("x")), NoDocument)
    assert isinstance(Ticket(PUSH).gave_up(10, Unauthorized("x")), Unauthorized)
    error = Ticket(PUSH).gave_up(10, NotBroker("It stands by."))
    assert isinstance(error, Unavailable)
    assert error.message == (
        "There was no answer to this push request within 10 s. It stands by. "
        "The push request was not sent, so nothing changed."
    )
    ticket = Ticket(PUSH)
    ticket.issue()
    ticket.refuse(Overloaded("busy"))
    assert isinstance(ticket.gave_up(10, None), Overloaded)


@pytest.mark.parametrize("op", CHANGES)
def test_what_bars_further_copies_is_the_reason_why_the_outcome_is_not_known(op: ops.Op) -> None:
    closed, refused = ClientClosed(), Unauthorized("The token has expired.")
    for error in (closed, refused):
        assert Ticket(op).barred(error) is error

    told = in_doubt(op).barred(closed)
    assert isinstance(told, Unknown)
    assert told.message.endswith(
        " is not known: the client was closed before an answer came. "
        "Repeating it with the same ids is safe."
    )
    told = in_doubt(op).barred(refused)
    assert told.message.endswith(
        " is not known: it could not be sent again to learn that. The token has expired. "
        "Repeating it with the same ids is safe."
    )
