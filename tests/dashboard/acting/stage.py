"""A queue with jobs in every state, and an operator at the dashboard's forms."""

from __future__ import annotations

import html
import re
from itertools import count
from typing import TYPE_CHECKING

from django.contrib.messages import get_messages
from django.urls import reverse

import objq
from objq.core import ops

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.test import Client

TASK = "shop.tasks.send"
BASE = "/admin/objq_dashboard/queue/"
_numbers = count(1)


def push(amount: int = 1, *, task: str = TASK, **changes: object) -> list[str]:
    """Push jobs; return their ids."""
    ids = [f"{next(_numbers):05}-job" for _ in range(amount)]
    jobs = [ops.NewJob(id=job_id, task=task, **changes) for job_id in ids]  # type: ignore[arg-type]
    outcomes = objq.connect().push(jobs).items
    assert all(outcome.error is None for outcome in outcomes)
    return ids


def scheduled(amount: int = 1) -> list[str]:
    return push(amount, run_after=4_000_000_000_000)


def running(amount: int = 1) -> list[str]:
    """Push jobs and have a worker take them; nothing else may be ready."""
    ids = push(amount)
    claim(ids)
    return ids


def claim(ids: Sequence[str]) -> list[str]:
    """Have a worker take the jobs that are ready, which must be these; return their tokens."""
    granted = objq.connect().claim(max_jobs=len(ids), worker="worker-1").jobs
    assert {grant.id for grant in granted} == set(ids)
    return [grant.token for grant in granted]


def dead(amount: int = 1, *, task: str = TASK, error: str = "boom") -> list[str]:
    ids = push(amount, task=task, max_attempts=1)
    failures = [
        ops.Failure(token=token, error=ops.JobError(type="ValueError", message=error))
        for token in claim(ids)
    ]
    objq.connect().fail(failures)
    return ids


def states(ids: Sequence[str]) -> list[str]:
    """Return the state of each job, "gone" for one that is not there."""
    return [job.state if job else "gone" for job in objq.connect().get(ids).jobs]


def act(
    browser: Client, action: str, ids: Sequence[str] = (), address: str = "", **fields: object
) -> Answer:
    """Send a form, as a page does."""
    form = {"action": action, "backend": "default", "page": "jobs", "query": "", "key": ids}
    address = address or reverse("admin:objq_dashboard_queue_act")
    return Answer(browser, address, {**form, **fields})


class Answer:
    """What came back: the status, where it leads, what is said, and the form of its page."""

    def __init__(self, browser: Client, address: str, form: dict[str, object]) -> None:
        self._browser = browser
        self._address = address
        browser.cookies.pop("messages", None)  # those before were not shown
        self.response = browser.post(address, form)
        self.status = self.response.status_code
        self.location = self.response.headers.get("Location", "")
        self.page = self.response.content.decode()
        self.said = [
            (each.level_tag, str(each)) for each in get_messages(self.response.wsgi_request)
        ]

    @property
    def form(self) -> dict[str, object]:
        """The hidden fields of the page that asks, but the token against forgery."""
        found: dict[str, list[str]] = {}
        inner = self.page[self.page.index('<div class="objq-confirm">') :]
        for name, value in re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', inner):
            found.setdefault(name, []).append(html.unescape(value))
        found.pop("csrfmiddlewaretoken", None)
        return dict(found)

    def agree(self) -> Answer:
        """Press the button of the page that asks."""
        return Answer(self._browser, self._address, self.form)
