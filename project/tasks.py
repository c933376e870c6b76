from __future__ import annotations

from objq import task
from project import search


@task
def index_page(page_id: int) -> bool:
    """Put a page into the search index; False if it is gone.

    Delivery is at least once, and that is all this needs: running it twice changes nothing.
    """
    return search.put(page_id)
