"""Saving a page and pushing the job that indexes it: the write that a web site does all day."""

from __future__ import annotations

import time
from dataclasses import dataclass

from django.db import transaction

from objq import enqueue_on_commit
from project.models import IndexJob, Page
from project.tasks import index_page


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """What the database and the queue took, in milliseconds; as text, a Server-Timing header."""

    save_ms: float
    enqueue_ms: float

    def __str__(self) -> str:
        return f"save;dur={self.save_ms:.2f}, enqueue;dur={self.enqueue_ms:.2f}"


def save_and_index(page: Page) -> Timing:
    """Save the page and push its job; an `ObjqError` means that it is saved, but not pushed.

    A worker may be faster than a commit, and a page that is rolled back needs no index: so the job
    is pushed once the transaction is committed. Its id is known before that, for our own record.
    """
    began = time.perf_counter()
    committed: list[float] = []
    with transaction.atomic():
        page.indexed_at = None
        page.save()
        transaction.on_commit(lambda: committed.append(time.perf_counter()))
        result = enqueue_on_commit(index_page, page.pk)
        IndexJob.objects.create(page=page, job=result.id)
    ended = time.perf_counter()
    saved = committed[0] if committed else ended
    return Timing(save_ms=1000 * (saved - began), enqueue_ms=1000 * (ended - saved))
