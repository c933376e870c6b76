"""Searching jobs without telling more than is shown.

A broker looks for a text in the arguments as they are. What is masked must not be found by trying
letter after letter, so a job that has the text in masked parts only is left out again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, get_args

import msgspec
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from msgspec import UNSET, inspect

from objq.core import filters, ops
from objq.errors import Invalid
from objq_dashboard import masking
from objq_dashboard.wording import number

if TYPE_CHECKING:
    from objq_dashboard.source.source import Source

LOOK_FOR_S: Final = 0.1
"""One page is looked for no longer; then it says how to search on."""

LOOK_PAST_HIDDEN_S: Final = 1.5
"""But for so long where jobs are left out, so that the page looks as if they had not been there."""

STATES: Final = get_args(ops.JobState)

FILTERS: Final = {
    "queue": gettext_lazy("Queue"),
    "task": gettext_lazy("Task"),
    "text": gettext_lazy("Id, task or arguments"),
    "error": gettext_lazy("Error"),
}
"""What a query can ask for besides a state, as the form calls it."""

List = Callable[[ops.Filter, str | None, int], ops.Listed]
Get = Callable[[Sequence[str]], Sequence[ops.JobView | None]]


@dataclass(frozen=True, slots=True)
class Found:
    """`cursor`: where to go on, None at the end. `partial`: the search ended before the page was
    full. `scanned`: how many jobs were looked at."""

    jobs: tuple[ops.JobSummary, ...]
    cursor: str | None
    partial: bool
    scanned: int


def wanted(query: Mapping[str, str]) -> ops.Filter:
    """Return the filter that a query names. Raises Invalid for one that no job can meet."""
    given: dict[str, Any] = {key: query[key] for key in ("task", "text", "error") if query.get(key)}
    if query.get("state"):
        if query["state"] not in STATES:
            known = ", ".join(STATES)
            raise Invalid(f"No job can be in state {query['state'][:40]!r}: one of {known}.")
        given["states"] = [query["state"]]
    if query.get("queue"):
        given["queues"] = [query["queue"]]
    for key, label in FILTERS.items():
        most = _most("queues" if key == "queue" else key)
        if len(query.get(key, "")) > most:
            text = _("No job can be like this: “%(field)s” may have %(most)s characters at most.")
            raise Invalid(text % {"field": label, "most": number(most)})
    try:
        return msgspec.convert(given, ops.Filter)
    except msgspec.ValidationError:  # only the names of queues have another rule
        raise Invalid(_("No queue has a name with such characters.")) from None


@cache
def _most(name: str) -> int:
    """Return how many characters a text of the filter may have, by its own type."""
    struct = inspect.type_info(ops.Filter)
    assert isinstance(struct, inspect.StructType)
    (field,) = (each for each in struct.fields if each.name == name)
    kinds = field.type.types if isinstance(field.type, inspect.UnionType) else (field.type,)
    texts = (each.item_type if isinstance(each, inspect.VarTupleType) else each for each in kinds)
    (most,) = (each.max_length for each in texts if isinstance(each, inspect.StrType))
    assert most is not None
    return most


def page_of(source: Source, wanted: ops.Filter, cursor: str | None, limit: int) -> Found:
    """Return a page of jobs of a source, or the one that was found by a long search lately."""

    def find() -> Found:
        return search(source.list, source.get, wanted, cursor, limit)

    if wanted.task is None and wanted.text is None and wanted.error is None:
        return find()  # by states and queues alone a broker finds them at once, however far away
    return source.kept((wanted, cursor, limit), find)


def search(
    list_jobs: List, get: Get, wanted: ops.Filter, cursor: str | None, limit: int = 50
) -> Found:
    """Return a page of jobs; it may hold fewer if it takes long to find them."""
    began = time.monotonic()
    found: list[ops.JobSummary] = []
    scanned = hidden = 0
    while True:
        # One that is left out has no place on the page, and the next ones may be like it.
        most = ops.MAX_PAGE if hidden > limit else limit - len(found)
        listed = list_jobs(wanted, cursor, most)
        shown = visible(listed.jobs, wanted.text, get)
        hidden += len(listed.jobs) - len(shown)
        found += shown
        scanned += listed.scanned
        cursor = listed.cursor
        look_for_s = LOOK_PAST_HIDDEN_S if hidden else LOOK_FOR_S
        if cursor is None or len(found) >= limit or time.monotonic() - began > look_for_s:
            break
    partial = cursor is not None and len(found) < limit
    return Found(tuple(found), cursor, partial, scanned)


def visible(jobs: Iterable[ops.JobSummary], text: str | None, get: Get) -> list[ops.JobSummary]:
    """Return the jobs that are found by `text` also when their arguments are masked."""
    jobs = list(jobs)
    if text is None:
        return jobs
    long = [job.id for job in jobs if job.args is UNSET or job.kwargs is UNSET]
    whole = {job.id: job for job in get(long) if job is not None} if long else {}
    return [job for job in jobs if _is_visible(whole.get(job.id, job), text)]


def _is_visible(job: ops.JobSummary | ops.JobView, text: str) -> bool:
    if filters.is_named(job.id, job.task, text):
        return True
    if job.args is UNSET or job.kwargs is UNSET:  # it has gone meanwhile
        return False
    mask = masking.mask_for(job.task)
    args, kwargs = mask.args(bytes(job.args)), mask.kwargs(bytes(job.kwargs))
    if not (args.masked or kwargs.masked):
        return True
    return filters.stands_in(filters.spellings(text), _spelt(args.text), _spelt(kwargs.text))


def _spelt(shown: str) -> bytes:
    """Return JSON text with and without spaces: as it was pushed, it may be either."""
    dense = json.dumps(json.loads(shown), ensure_ascii=False, separators=(",", ":"))
    return f"{shown}\n{dense}".encode(errors="replace")
