"""`/metrics`: what is counted, that names have units, and that labels are bounded."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from objq.broker.gauges import Gauges
from objq.core import ops
from objq.core.document import Document
from objq.server.metrics import Metrics
from objq.server.sockets import Sockets
from tests.server.fakes import FakeBroker
from tests.server.harness import Wire

PAGE = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"

Sample = tuple[str, tuple[tuple[str, str], ...]]


def scrape(wire: Wire) -> dict[Sample, float]:
    text = Metrics(wire.broker, wire.sockets).text()
    assert text.content_type.startswith("text/plain")
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.body.decode())
        for sample in family.samples
    }


class Leading(FakeBroker):
    """Leads a document with two queues."""

    def gauges(self) -> Gauges:
        document = Document.new("d", ops.DocumentSettings(), 1_000)
        document.seq, document.epoch = 9, 2
        for name, queue in (("a", "default"), ("b", "default"), ("c", "mail")):
            document.add(
                ops.JobView(
                    id=name, queue=queue, task="t", args=ops.EMPTY_LIST, kwargs=ops.EMPTY_DICT,
                    state="ready", pushed_at=1_000,
                )
            )  # fmt: skip
            document.totals_of(queue).pushed += 1
        return Gauges(document, 3, 4, 5, 6_000, wall_ms=11_000)


async def test_requests_are_counted_by_op_and_outcome(wire: Wire) -> None:
    socket = await wire.open("push")
    await socket.ask({"id": 1, "op": "stats"})
    await socket.ask({"id": 2, "op": "nonsense"})
    socket.send({"id": 3, "op": "get", "ids": ["x"]})
    await wire.broker.wait_submitted(1)
    wire.broker.answer(0, ops.Jobs(jobs=(None,)))
    await socket.frame()
    found = scrape(wire)

    def count(op: str, outcome: str) -> float:
        return found["objq_requests_total", (("op", op), ("outcome", outcome))]

    assert count("hello", "ok") == 1
    assert count("stats", "forbidden") == 1
    assert count("get", "ok") == 1
    assert count("unreadable", "unsupported") == 1


async def test_a_standby_tells_of_itself_only(wire: Wire) -> None:
    found = scrape(wire)
    assert found["objq_leading", ()] == 0
    assert found["objq_take_overs_total", ()] == 0
    assert not [name for name, _ in found if name.startswith("objq_jobs")]


async def test_a_leader_tells_of_its_queues(wire: Wire) -> None:
    wire.broker = Leading()
    wire.sockets.broker = wire.broker
    found = scrape(wire)
    assert found["objq_leading", ()] == 1
    assert found["objq_jobs", (("queue", "default"), ("state", "ready"))] == 2
    assert found["objq_job_events_total", (("event", "pushed"), ("queue", "mail"))] == 1
    assert found["objq_oldest_ready_seconds", (("queue", "mail"),)] == 10
    assert found["objq_queue_paused", (("queue", "mail"),)] == 0
    assert found["objq_waiting_claims", ()] == 3
    assert found["objq_waiting_requests", ()] == 4
    assert found["objq_watchers", ()] == 5
    assert found["objq_document_bytes", ()] == 6_000
    assert (found["objq_document_seq", ()], found["objq_document_epoch", ()]) == (9, 2)


async def test_histograms_are_cumulative(wire: Wire) -> None:
    measures = wire.broker.measures
    for took_s in (0.004, 0.2, 99_999.0):
        measures.committed(took_s, 2_000)
    measures.waited(3.0)
    measures.ran([1.0, 2.0])
    measures.batch(7)
    found = scrape(wire)
    name = "objq_commit_duration_seconds"
    assert found[f"{name}_bucket", (("le", "0.005"),)] == 1
    assert found[f"{name}_bucket", (("le", "0.25"),)] == 2
    assert found[f"{name}_bucket", (("le", "+Inf"),)] == 3
    assert found[f"{name}_count", ()] == 3
    assert found["objq_job_wait_seconds_sum", ()] == 3.0
    assert found["objq_job_run_seconds_count", ()] == 2
    assert found["objq_batch_requests_sum", ()] == 7
    assert found["objq_commit_size_bytes_count", ()] == 3


async def test_the_page_that_documents_them_names_them_all_and_no_other(wire: Wire) -> None:
    wire.broker = Leading()
    wire.sockets.broker = wire.broker
    wire.sockets.requests[ops.Hello, "ok"] += 1
    text = Metrics(wire.broker, wire.sockets).text().body.decode()
    told = set(re.findall(r"^# TYPE (objq_\w+)", text, re.MULTILINE))
    assert told == set(re.findall(r"^\| `(objq_\w+)`", PAGE.read_text(), re.MULTILINE))


def test_brokers_of_one_process_have_registries_of_their_own() -> None:
    brokers = [FakeBroker(), FakeBroker()]
    first, second = (Metrics(broker, Sockets(broker)) for broker in brokers)
    brokers[0].measures.take_overs = 5
    assert b"objq_take_overs_total 5.0" in first.text().body
    assert b"objq_take_overs_total 0.0" in second.text().body
