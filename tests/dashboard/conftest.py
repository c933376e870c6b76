from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from objq.client.reading import Reading
from objq.core.document import Header
from objq.core.listing import Listing
from objq.core.ops import (
    AllWorkers,
    BrokerInfo,
    Filter,
    Jobs,
    Listed,
    ListJobs,
    Page,
    QueueStats,
    RecentHistory,
    Running,
    Statistics,
)
from objq.core.statistics import statistics as core_statistics
from objq.errors import NoDocument
from objq_dashboard.pages import PAGES
from objq_dashboard.source import source
from objq_dashboard.wording import SPACE
from tests.core.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from objq_dashboard.page import Page as PageShown
    from objq_dashboard.page import Row

T = TypeVar("T")

NOW_MS = 1_764_430_000_000
SINCE_MS = NOW_MS - 3_600_000


def statistics(**changes: Any) -> Statistics:
    values: dict[str, Any] = {
        "document": "doc-1",
        "seq": 48_213,
        "epoch": 7,
        "at": NOW_MS - 200,
        "broker": BrokerInfo(
            id="broker-1", url="ws://10.0.0.42:3000/objq/v1/", since=SINCE_MS, version="0.1.0"
        ),
        "size_bytes": 3_500,
        "heartbeat_timeout_s": 30.0,
        "queues": {
            "mail": QueueStats(paused=True, scheduled=2),
            "default": QueueStats(
                ready=12,
                running=2,
                dead=1,
                oldest_ready_at=NOW_MS - 65_000,
                totals={"pushed": 1_500, "succeeded": 1_485},
            ),
        },
        "running": (
            Running(
                id="job-1", queue="default", task="shop.tasks.send", worker="host-1",
                claimed_at=NOW_MS - 90_000, attempt=2, started=True, heard_ago_s=21.0,
            ),
            Running(
                id="job-2", queue="default", task="shop.tasks.send", worker="host-2",
                claimed_at=NOW_MS - 400, attempt=1, started=False, heard_ago_s=0.4,
            ),
        ),
    }  # fmt: skip
    return Statistics(**{**values, **changes})


class FakeQueue:
    """In the place of objq's client: answers `answer`, or raises it.

    `world`: the document that lists and jobs come from, and the statistics too if `answer` is None.
    """

    def __init__(self) -> None:
        self.answer: Statistics | Exception | None = statistics()
        self.world = World()
        self.all_workers: AllWorkers | Exception = AllWorkers(workers=(), total=0)
        self.recent: RecentHistory | Exception = RecentHistory(every_s=10.0, points=())
        self.heard_ago_s: dict[str, float] = {}
        self.asked: list[str] = []
        self.questions: list[Any] = []
        self._listing = Listing()

    def __call__(self, alias: str = "default") -> FakeQueue:
        self.asked.append(alias)
        return self

    def stats(self, **_: Any) -> Statistics:
        if isinstance(self.answer, Exception):
            raise self.answer
        self.questions.append("stats")
        return self.answer or self.of_document()

    def of_document(self) -> Statistics:
        return core_statistics(self.world.document, self.heard_ago_s.get)

    def list(
        self, wanted: Filter, *, cursor: str | None = None, limit: int = 50, **_: Any
    ) -> Listed:
        self._refuse()
        op = ListJobs(filter=wanted, page=Page(cursor=cursor, limit=limit))
        self.questions.append(op)
        return self._listing.page(self.world.document, op, self.heard_ago_s.get)

    def get(self, ids: Sequence[str], **_: Any) -> Jobs:
        self._refuse()
        self.questions.append(tuple(ids))
        return Jobs(jobs=self.world.document.views(ids))

    def workers(self, **_: Any) -> AllWorkers:
        self._refuse()
        self.questions.append("workers")
        return _or_raise(self.all_workers)

    def history(self, **_: Any) -> RecentHistory:
        self._refuse()
        self.questions.append("history")
        return _or_raise(self.recent)

    def _refuse(self) -> None:
        if isinstance(self.answer, Exception):
            raise self.answer


def _or_raise(answer: T | Exception) -> T:
    if isinstance(answer, Exception):
        raise answer
    return answer


class FakeReader:
    """In the place of the document's reader; there is no document as long as `world` is None."""

    def __init__(self) -> None:
        self.world: World | None = None
        self.newest: Reading | None = None
        self.stored_bytes = 4_321
        self.age_s = 0.0
        self.reads = 0
        self._listing = Listing()

    def __call__(self, alias: str) -> FakeReader:
        return self

    def read(self) -> Reading:
        self.reads += 1
        if self.world is None:
            raise NoDocument("There is no document.")
        self.newest = Reading(self.world.document, self.age_s, self.stored_bytes, NOW_MS)
        return self.newest

    def list(self, op: ListJobs) -> Listed:
        reading = self.read()
        return self._listing.page(reading.document, op, reading.heard_ago_s)

    def header(self) -> Header:
        document = self.read().document
        return Header(
            objq=1, document=document.id, seq=document.seq, epoch=document.epoch,
            commit="commit-1", broker=document.broker, challenge=None,
        )  # fmt: skip

    def close(self) -> None:
        self.newest = None


@pytest.fixture
def clean() -> Iterator[None]:
    """Let nothing be remembered of what was asked before."""
    source.forget()
    yield
    source.forget()


@pytest.fixture
def document(monkeypatch: pytest.MonkeyPatch, clean: None) -> FakeReader:
    reader = FakeReader()
    monkeypatch.setattr("objq_dashboard.source.reading.document_reader", reader)
    return reader


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch, document: FakeReader) -> FakeQueue:
    fake = FakeQueue()
    monkeypatch.setattr("objq.connect", fake, raising=False)
    monkeypatch.setattr("objq_dashboard.source.source.time_ns", lambda: NOW_MS * 1_000_000)
    return fake


@pytest.fixture
def build(queue: FakeQueue) -> Callable[..., PageShown]:
    """Return a page that is built anew, with nothing remembered."""

    def build(name: str, **query: str) -> PageShown:
        source.refresh("default")
        return PAGES[name].build(source.Source("default"), query)

    return build


def texts(rows: Iterable[Row]) -> dict[str, list[str]]:
    """Return the texts of a table by row, with plain spaces."""
    return {row.key: [cell.text.replace(SPACE, " ") for cell in row.cells] for row in rows}


@pytest.fixture
def signed_in(db: None) -> Callable[..., Client]:
    """Return a browser with a staff user who has the permissions that are named."""

    def sign_in(*permissions: str, staff: bool = True, superuser: bool = False) -> Client:
        user = User.objects.create_user("someone", is_staff=staff, is_superuser=superuser)
        for name in permissions:
            user.user_permissions.add(Permission.objects.get(codename=name))
        client = Client()
        client.force_login(user)
        return client

    return sign_in
