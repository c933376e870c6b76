from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction
from django.utils import timezone

from objq import task
from project import search
from project.models import IndexJob

if TYPE_CHECKING:
    from objq.compat import TaskContext


@task(takes_context=True)
def index_page(context: TaskContext[..., bool], page_id: int) -> bool:
    """Put a page into the search index; False if it is gone.

    Delivery is at least once, and that is all this needs: running it twice changes nothing.
    """
    began = timezone.now()
    with transaction.atomic():
        job = IndexJob.objects.filter(job=context.task_result.id, started_at=None)
        job.update(started_at=began)
        return search.put(page_id)
