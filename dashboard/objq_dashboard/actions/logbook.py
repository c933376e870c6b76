"""What operators did, in the admin's own log: an entry for each action, written before it is sent.

So an action leaves a trace also if the process ends while it waits for the answer, and none is sent
that could not be written down. The text is English in every language, as that of all entries that
are kept for later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from django.contrib.admin.models import CHANGE, DELETION, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.utils.text import Truncator
from django.utils.translation import override

from objq_dashboard.models import Queue

if TYPE_CHECKING:
    from collections.abc import Sequence

    from objq_dashboard.access import User
    from objq_dashboard.actions.actions import JobAction, QueueAction
    from objq_dashboard.actions.applying import Report

NAMED: Final = 50
"""Ids that an entry names; the others are counted."""

MAX_REPR: Final = 200


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

    def close(self, report: Report) -> None:
        """Write down what has become of it."""
        counts = ", ".join(
            f"{report.count(became)} {became}"
            for became in dict.fromkeys(fate.became for fate in report.groups)
        )
        self._entry.change_message = self._text(counts)
        self._entry.save(update_fields=["change_message"])

    def _text(self, outcome: str) -> str:
        left = len(self._ids) - NAMED
        named = ", ".join(self._ids[:NAMED])
        return f"{self._what}: {outcome}. {named}{f' and {left} more' if left > 0 else ''}"


def _repr(of: str, ids: Sequence[str]) -> str:
    text = f"{of} {ids[0]}" if len(ids) == 1 else f"{len(ids)} {of}s"
    return Truncator(text).chars(MAX_REPR)
