"""What operators did, in the admin's own log: an entry for each action, written before it is sent.

So an action leaves a trace also if the process ends while it waits for the answer, and none is sent
that could not be written down. The text is English in every language, as that of all entries that
are kept for later.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, TypeVar

from django.contrib.admin.models import CHANGE, DELETION, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import DatabaseError, router, transaction
from django.utils.text import Truncator
from django.utils.translation import override

from objq_dashboard.models import Queue

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from objq_dashboard.access import User
    from objq_dashboard.actions.actions import JobAction, QueueAction
    from objq_dashboard.actions.applying import Report

View = TypeVar("View", bound="Callable[..., Any]")

logger = logging.getLogger(__name__)

NAMED: Final = 50
"""Ids that an entry names; the others are counted."""

MAX_REPR: Final = 200


def outside_of_transactions(view: View) -> View:
    """Have a view whose entries stand in the log at once, also under ATOMIC_REQUESTS.

    In the transaction of a request nobody would see an entry before the answer, it would be gone
    with the process, and the log would be locked for everybody while the queue is waited for.
    """
    database = router.db_for_write(LogEntry)
    apart: Callable[[View], View] = transaction.non_atomic_requests(using=database)
    return apart(view)


class Entry:
    """One entry; `of` is what the things are called: "job" or "queue"."""

    def __init__(
        self, user: User, alias: str, action: JobAction | QueueAction, of: str, ids: Sequence[str]
    ) -> None:
        with override(None):
            self._what = f"{action.label} in the backend {alias}"
        self._ids = ids
        # Not through log_action or log_actions: Django 6 has not the one, and the other wants rows.
        self._entry = LogEntry.objects.create(
            user_id=str(user.pk),
            content_type=ContentType.objects.get_for_model(Queue),
            object_id=ids[0] if len(ids) == 1 else None,
            object_repr=_repr(of, ids),
            action_flag=DELETION if action.name == "delete" else CHANGE,
            change_message=self._text("sent, and not answered yet"),
        )

    def close(self, report: Report) -> bool:
        """Write down what has become of it; return whether that could be written.

        It has become of it all the same, and whoever asked for it has to be told.
        """
        counts = ", ".join(
            f"{report.count(became)} {became}"
            for became in dict.fromkeys(fate.became for fate in report.groups)
        )
        self._entry.change_message = self._text(counts)
        try:
            self._entry.save(update_fields=["change_message"])
        except DatabaseError:
            logger.exception(
                "The log of the admin could not be completed: %s", self._entry.change_message
            )
            return False
        return True

    def _text(self, outcome: str) -> str:
        left = len(self._ids) - NAMED
        named = ", ".join(self._ids[:NAMED])
        return f"{self._what}: {outcome}. {named}{f' and {left} more' if left > 0 else ''}"


def _repr(of: str, ids: Sequence[str]) -> str:
    text = f"{of} {ids[0]}" if len(ids) == 1 else f"{len(ids)} {of}s"
    return Truncator(text).chars(MAX_REPR)
