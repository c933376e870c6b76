"""What a form of the dashboard asks to be done, as it was posted.

A form does not say where to go afterwards but which page it is on, and with which query: so the
address is made here, and cannot lead out of the dashboard.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

from msgspec import structs

from objq import conf
from objq.core import ops
from objq_dashboard import frame
from objq_dashboard.actions.actions import JOB_ACTIONS, QUEUE_ACTIONS, as_state
from objq_dashboard.source.searching import wanted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from django.http import QueryDict

    from objq_dashboard.actions.actions import JobAction, QueueAction

PAGES: Final = ("overview", "jobs", "dead", "job")
"""Those that have a form."""

MAX_QUERY_FIELDS: Final = 20

MAX_KEY: Final = max(ops.MAX_JOB_ID, ops.MAX_NAME)
"""Characters of a row's key: a job's id or a queue's name. How many there may be Django bounds, by
DATA_UPLOAD_MAX_NUMBER_FIELDS (1000 unless the site says otherwise); more are answered with 400."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """`keys`: of the rows that were ticked. `seen`: the state that all of them were shown in.

    `chosen`: ids by state, as the page that confirms has shown them; `confirmed`: the counts that
    it has shown of all that match.
    """

    action: JobAction | QueueAction
    alias: str
    page: str
    query: Mapping[str, str]
    keys: tuple[str, ...]
    seen: ops.JobState | None
    all_that_match: bool
    chosen: Mapping[ops.JobState, Sequence[str]]
    confirmed: Mapping[str, int]

    @property
    def filter(self) -> ops.Filter:
        """The filter of the page that the form is on. Raises Invalid if no job can meet it."""
        found = wanted(self.query)
        return structs.replace(found, states=("dead",)) if self.page == "dead" else found

    def back(self, site_name: str, *, gone: bool = False) -> str:
        """Return the address of the page; of the list, if the job that it shows is `gone`."""
        if self.page == "job":
            key = "" if gone else next(iter(self.keys), "")
            return job_address(site_name, self.alias, key)
        return frame.address(site_name, self.page, {**self.query, "backend": self.alias})


def job_address(site_name: str, alias: str, job_id: str) -> str:
    """Return the address of a job's page, or of the list of jobs for an empty id."""
    return frame.address(site_name, "job", {"job": job_id, "backend": alias})


def read(form: QueryDict) -> Asked | None:
    """Return what is asked, or None if it is nothing that a page of the dashboard asks."""
    name, alias = form.get("action", ""), form.get("backend", "")
    action = JOB_ACTIONS.get(name) or QUEUE_ACTIONS.get(name)
    page = form.get("page", "")
    if action is None or page not in PAGES or alias not in conf.backend_aliases():
        return None
    try:
        query = dict(parse_qsl(form.get("query", ""), max_num_fields=MAX_QUERY_FIELDS))
    except ValueError:
        return None
    keys = tuple(dict.fromkeys(key for key in form.getlist("key") if key))
    chosen: dict[ops.JobState, list[str]] = defaultdict(list)
    for text in form.getlist("chosen"):
        word, _, job_id = text.partition(":")
        state = as_state(word)
        if state is not None and job_id:
            chosen[state].append(job_id)
    if any(len(key) > MAX_KEY for key in chain(keys, *chosen.values())):
        return None
    return Asked(
        action=action,
        alias=alias,
        page=page,
        query=query,
        keys=keys,
        seen=as_state(form.get("seen", "")),
        all_that_match=form.get("scope") == "all",
        chosen=chosen,
        confirmed=_counts(form.getlist("confirmed")),
    )


def _counts(texts: list[str]) -> dict[str, int]:
    pairs = (text.partition(":") for text in texts)
    return {state: int(count) for state, _, count in pairs if count.isdecimal() and len(count) < 10}
