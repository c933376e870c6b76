"""What an operator can do to jobs and queues, and in which states of a job each thing makes sense.

The rules are the core's: every request names the state that the operator saw, and a job that is in
another one by now is left alone (`conflict`). Its table also decides what is offered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, get_args

from django.utils.translation import gettext_lazy as _

from objq.core import ops
from objq.core.transitions import TABLE
from objq.errors import Conflict

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise

    from objq.client.sync import SyncClient

    Text = str | _StrPromise
    OnJobs = Callable[[SyncClient, Iterable[str], ops.JobState], ops.Outcomes]
    OnQueue = Callable[[SyncClient, str], ops.Answer]

STATES: Final[tuple[ops.JobState, ...]] = get_args(ops.JobState)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAction:
    """One of the operator's requests on jobs. `name`: of the core's operation.

    `question` is what the page that confirms it asks, and `hint` says what it does. One that
    `destroys` is always confirmed.
    """

    name: str
    label: Text
    hint: Text
    question: Text
    past: Text
    run: OnJobs
    destroys: bool = False

    @property
    def states(self) -> frozenset[ops.JobState]:
        """The states in which the core does it, and does not refuse."""
        return frozenset(each for each in STATES if TABLE[each, self.name] != Conflict.code)

    def fits(self, state: str) -> bool:
        """Tell whether it is worth offering for jobs in this state; "" is any."""
        return not state or state in self.states


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueAction:
    """One of the operator's requests on a queue."""

    name: str
    label: Text
    hint: Text
    past: Text
    run: OnQueue


JOB_ACTIONS: Final[Mapping[str, JobAction]] = {
    action.name: action
    for action in (
        JobAction(
            name="retry",
            label=_("Retry"),
            hint=_("Puts dead and cancelled jobs at the end of their queue, with no attempts."),
            question=_("Retry these jobs?"),
            past=_("retried"),
            run=lambda client, ids, expected: client.retry(ids, expected),
        ),
        JobAction(
            name="run_now",
            label=_("Run now"),
            hint=_("Makes scheduled jobs ready."),
            question=_("Run these jobs now?"),
            past=_("made ready"),
            run=lambda client, ids, expected: client.run_now(ids, expected),
        ),
        JobAction(
            name="cancel",
            label=_("Cancel"),
            hint=_("Ends waiting jobs as cancelled, and asks the workers of running ones to stop."),
            question=_("Cancel these jobs?"),
            past=_("cancelled"),
            run=lambda client, ids, expected: client.cancel(ids, expected),
        ),
        JobAction(
            name="delete",
            label=_("Delete"),
            hint=_("Removes jobs for good, except running ones."),
            question=_("Delete these jobs?"),
            past=_("deleted"),
            run=lambda client, ids, expected: client.delete(ids, expected),
            destroys=True,
        ),
    )
}

QUEUE_ACTIONS: Final[Mapping[str, QueueAction]] = {
    action.name: action
    for action in (
        QueueAction(
            name="pause",
            label=_("Pause queues"),
            hint=_("Gives out no more jobs of the queue; pushes and running jobs go on."),
            past=_("paused"),
            run=lambda client, queue: client.pause(queue),
        ),
        QueueAction(
            name="resume",
            label=_("Resume queues"),
            hint=_("Gives out jobs of the queue again."),
            past=_("resumed"),
            run=lambda client, queue: client.resume(queue),
        ),
    )
}


def as_state(text: str) -> ops.JobState | None:
    """Return the state that a form names, or None if it names none."""
    return next((state for state in STATES if state == text), None)
