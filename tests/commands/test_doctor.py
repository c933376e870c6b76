"""`objq_doctor` finds what is wrong, says what to do, and fails only for a problem."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

import pytest
from django.core.files.storage import storages
from msgspec import structs

import objq
from objq.broker.election import ProbeResult, Reach
from objq.core.document import Totals
from objq.core.ops import AllWorkers, Challenge, NewJob, QueueStats, WorkerView
from objq.core.statistics import statistics
from objq.doctor.broker import judge
from objq.doctor.examination import _guarded
from objq.doctor.findings import Finding, as_json, as_line, problem
from objq.doctor.storage import check_file_system, check_probe, check_reachable
from objq.doctor.workers import check_workers
from objq.store.base import Ambiguous, Denied, Missing, Unavailable
from tests.commands.conftest import Queue, configured, recorded, run
from tests.core.world import World
from tests.e2e.stack import Stack
from tests.objectservers import Entry


def examined(*arguments: str) -> tuple[dict[str, list[dict[str, str]]], int]:
    """Run the doctor; return its findings by check, and its exit status."""
    said = run("objq_doctor", "--json", *arguments)
    report = json.loads(said.out)
    assert report["healthy"] is (said.status == 0)
    found: dict[str, list[dict[str, str]]] = {}
    for finding in report["findings"]:
        found.setdefault(finding["check"], []).append(finding)
    return found, said.status


def levels(found: dict[str, list[dict[str, str]]]) -> dict[str, list[str]]:
    return {check: [finding["level"] for finding in listed] for check, listed in found.items()}


def a_world(**settings: Any) -> World:
    world = World(**settings)
    world.push("a", "b")
    return world


def led(world: World) -> World:
    world.document.broker = recorded()
    return world


# --- all of it -----------------------------------------------------------------------------------


def test_a_healthy_queue_has_a_line_for_each_check_and_status_0(queue: Queue, live: Stack) -> None:
    said = run("objq_doctor")
    lines = [line.split()[:2] for line in said.out.splitlines()]
    assert said.status == 0, said.out
    assert lines == [
        ["ok", "settings"],
        ["ok", "store"],
        ["ok", "probe"],
        ["ok", "permissions"],
        ["ok", "folder"],
        ["ok", "versions"],
        ["skipped", "clock"],
        ["ok", "document"],
        ["ok", "room"],
        ["ok", "totals"],
        ["ok", "broker"],
        ["ok", "answers"],
        ["ok", "workers"],
        ["ok", "clock"],
    ]


def test_on_s3_it_asks_the_store_and_the_bucket(settings: Any, ministack_storage: Entry) -> None:
    options = {**ministack_storage["OPTIONS"], "bucket_name": f"own-{secrets.token_hex(6)}"}
    entry = {**ministack_storage, "OPTIONS": options}
    with configured(settings, entry) as queue:
        client: Any = storages["objq"].connection.meta.client  # type: ignore[attr-defined]
        assert levels(examined()[0])["store"] == ["problem"]  # no bucket
        client.create_bucket(Bucket=options["bucket_name"])
        queue.put_world(a_world())
        told = levels(examined()[0])
        assert told["store"] == told["probe"] == told["permissions"] == ["ok"]
        assert told["versions"] == ["ok"]
        assert told["clock"] in (["ok"], ["skipped"])  # as the server tells its time, or not
        client.put_bucket_versioning(
            Bucket=options["bucket_name"], VersioningConfiguration={"Status": "Enabled"}
        )
        found, status = examined()
        assert found["versions"][0]["level"] == "warning"
        assert "lifecycle rule" in found["versions"][0]["message"]
        assert "docs/operating.md" in found["versions"][0]["advice"]
        assert status == 1  # no broker leads; a warning alone would not do that


def test_without_a_document_there_is_nothing_more_to_check(queue: Queue) -> None:
    found, status = examined()
    assert "runbroker" in found["document"][0]["message"]
    assert "totals" not in found
    assert status == 1


def test_in_direct_mode_no_document_and_no_broker_are_needed(
    settings: Any, file_storage: Entry
) -> None:
    with configured(settings, file_storage, MODE="direct") as queue:
        assert examined()[1] == 0
        queue.put_world(a_world())
        found, status = examined()
        assert "needs none" in found["broker"][0]["message"]
        assert levels(found)["workers"] == ["skipped"]
        assert "known only to a broker" in found["workers"][0]["message"]
        assert status == 0


def test_a_check_that_fails_itself_hides_no_other() -> None:
    def broken() -> Any:
        yield problem("a", "found before")
        raise ZeroDivisionError("oops")

    found = list(_guarded("a", broken))
    assert [finding.level for finding in found] == ["problem", "problem"]
    assert "ZeroDivisionError: oops" in found[1].message


# --- settings ------------------------------------------------------------------------------------


def test_an_alias_or_options_that_cannot_work_are_a_problem(queue: Queue, settings: Any) -> None:
    found, status = examined("--backend", "defualt")
    assert "Did you mean default?" in found["settings"][0]["message"]
    assert status == 1
    settings.TASKS["default"]["OPTIONS"]["HEARTBEAT_TIMEOT"] = 3
    found, status = examined()
    assert "Did you mean HEARTBEAT_TIMEOUT?" in found["settings"][0]["message"]
    assert status == 1


def test_what_djangos_checks_say_is_among_the_findings(queue: Queue, settings: Any) -> None:
    queue.put_world(a_world())
    settings.TASKS["default"]["QUEUES"] = ["x" * 65]
    found, _ = examined()
    assert [finding["level"] for finding in found["settings"]] == ["problem"]
    assert found["settings"][0]["message"].startswith("objq.E010: ")


# --- the store -----------------------------------------------------------------------------------


class BrokenStore:
    name = "s3://b/queue.json"

    def __init__(self, error: Exception) -> None:
        self.error = error

    def read_head(self) -> None:
        raise self.error


@pytest.mark.parametrize("kind", [Denied, Missing, Unavailable])
def test_a_store_that_is_not_reached_is_a_problem(kind: type[Exception]) -> None:
    store: Any = BrokenStore(kind("s3://b/queue.json: no"))
    (finding,) = check_reachable(store)
    assert finding.level == "problem"
    assert finding.message == "s3://b/queue.json: no."


def test_a_file_where_the_folder_should_be_is_told_as_one(settings: Any, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    backend = "django.core.files.storage.FileSystemStorage"
    entry: Entry = {"BACKEND": backend, "OPTIONS": {"location": str(tmp_path / "data")}}
    with configured(settings, entry):
        (finding,) = examined()[0]["store"]
    assert finding["level"] == "problem"
    assert finding["message"].startswith(f"The folder {tmp_path / 'data'} cannot be made (Not a ")
    assert finding["message"].endswith(".")
    assert "another location" in finding["advice"]
    assert "network" not in finding["advice"]


@pytest.mark.parametrize(
    ("error", "check"), [(Denied("no"), "permissions"), (Ambiguous("no"), "probe")]
)
def test_what_the_probe_meets_is_told(
    monkeypatch: pytest.MonkeyPatch, error: Exception, check: str
) -> None:
    def probe(store: Any) -> None:
        raise error

    monkeypatch.setattr("objq.doctor.storage.probe", probe)
    store: Any = BrokenStore(error)
    (finding,) = check_probe(store)
    assert (finding.check, finding.level) == (check, "problem")


def test_a_store_that_ignores_conditions_is_a_problem(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(store: Any, data: bytes, expect: Any) -> object:
        with store._locked():
            store._replace(data)
        return object()

    queue.put_world(a_world())
    monkeypatch.setattr(type(queue.store), "write", write)
    found, status = examined()
    assert "ignoring If-None-Match" in found["probe"][0]["message"]
    assert status == 1


@pytest.mark.parametrize(
    ("kind", "level"), [("nfs4", "warning"), ("cifs", "warning"), ("fuse.s3fs", "warning"),
                        ("ext4", "ok"), ("xfs", "ok")],
)  # fmt: skip
def test_a_folder_on_another_machine_is_a_warning(
    queue: Queue, tmp_path: Path, kind: str, level: str
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"server:/x / {kind} rw 0 0\n")
    (finding,) = check_file_system(storages["objq"], "queue.json", mounts)
    assert finding.level == level
    assert kind in finding.message


# --- the document --------------------------------------------------------------------------------


def test_a_document_that_is_not_understood_is_a_problem(queue: Queue) -> None:
    queue.put(b'{"objq": 2}')
    found, status = examined()
    assert "schema 2" in found["document"][0]["message"]
    assert status == 1
    queue.put(b"?")
    assert "--adopt" in examined()[0]["document"][0]["message"]


def test_totals_that_do_not_add_up_are_a_problem(queue: Queue) -> None:
    world = a_world()
    world.document.totals["default"] = Totals(pushed=5)
    queue.put_world(world)
    found, _ = examined()
    assert found["totals"][0]["level"] == "problem"
    assert "5 jobs came and 2 are accounted for" in found["totals"][0]["message"]


def test_a_document_that_is_nearly_full_is_a_warning(queue: Queue) -> None:
    queue.put_world(a_world(max_jobs=2, max_queues=1))
    found, _ = examined()
    assert levels(found)["room"] == ["warning", "warning"]
    assert "100% of MAX_JOBS" in found["room"][0]["message"]


def test_settings_that_a_broker_does_not_follow_are_a_warning(queue: Queue) -> None:
    others = {"result_ttl_s": 2_592_001.0, "max_bytes": 67_108_865}
    queue.put_world(led(a_world(heartbeat_timeout_s=60.0, **others)))
    found, _ = examined()
    assert "HEARTBEAT_TIMEOUT is 60 there and 30 here" in found["shared"][0]["message"]
    assert "RESULT_TTL is 2,592,001 there and 86,400 here" in found["shared"][0]["message"]
    assert "MAX_BYTES is 67,108,865 there and 67,108,864 here" in found["shared"][0]["message"]
    assert found["shared"][0]["level"] == "warning"


# --- the broker ----------------------------------------------------------------------------------


def test_a_broker_that_is_gone_and_a_challenge_are_told_of(queue: Queue) -> None:
    world = led(a_world())
    world.document.challenge = Challenge(id="c-1", by="s", at=1)
    # The commit of a leader would remove it.
    from objq.core import codec

    queue.put(codec.seal(world.document, "c", world.now, leading=False))
    found, status = examined()
    assert levels(found)["broker"] == ["warning", "problem"]
    assert "c-1" in found["broker"][0]["message"]
    assert "refuses the connection" in found["broker"][1]["message"]
    assert levels(found)["answers"] == levels(found)["workers"] == ["skipped"]
    assert status == 1


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (ProbeResult(Reach.REFUSED), "the process is gone"),
        (ProbeResult(Reach.UNREACHABLE), "cannot be reached from here"),
        (ProbeResult(Reach.ANSWERED, "other", True, True), "another answers (other)"),
        (ProbeResult(Reach.ANSWERED, None, True, True), "no broker"),
        (ProbeResult(Reach.ANSWERED, "gone", False, True), "does not lead"),
        (ProbeResult(Reach.ANSWERED, "gone", True, False), "does not reach the store"),
    ],
)
def test_every_way_in_which_a_broker_can_be_wrong_is_told_apart(
    result: ProbeResult, said: str
) -> None:
    finding = judge("default", recorded(), result)
    assert finding.level == "problem"
    assert said in finding.message
    assert finding.advice


def test_a_proxy_that_refuses_is_not_taken_for_the_broker() -> None:
    finding = judge("default", recorded("wss://h/objq/v1/"), ProbeResult(Reach.REFUSED))
    assert "the proxy in front of the broker is gone" in finding.message


def test_what_to_type_names_the_backend() -> None:
    finding = judge("slow lane", recorded(), ProbeResult(Reach.REFUSED))
    assert finding.advice == "Start one: python manage.py runbroker --backend 'slow lane'"


def test_a_broker_that_leads_is_fine() -> None:
    assert (
        judge("default", recorded(), ProbeResult(Reach.ANSWERED, "gone", True, True)).level == "ok"
    )


def test_a_broker_with_another_secret_key_refuses_this_process(
    queue: Queue, live: Stack, settings: Any
) -> None:
    settings.SECRET_KEY = "another"
    found, status = examined()
    assert levels(found)["broker"] == ["ok"]
    assert levels(found)["answers"] == ["problem"]
    assert "SECRET_KEY" in found["answers"][0]["message"]
    assert status == 1


# --- the workers ---------------------------------------------------------------------------------


def told_of_workers(
    queues: dict[str, QueueStats], *workers: WorkerView, alias: str = "default", total: int = 0
) -> list[Finding]:
    stats = structs.replace(statistics(World().document, lambda token: None), queues=queues)
    known = AllWorkers(workers=workers, total=total or len(workers))
    return list(check_workers(alias, lambda: (stats, known)))


def test_a_job_that_no_worker_takes_is_a_warning_with_the_command(
    queue: Queue, live: Stack
) -> None:
    objq.connect().push([NewJob(id="j", task="a.b", queue="mail")])
    found, status = examined()
    (finding,) = found["workers"]
    assert finding["level"] == "warning"
    assert finding["message"].startswith("1 job is ready in queue 'mail', and no worker takes")
    assert finding["advice"] == "Start one: python manage.py objq_worker --queue mail"
    assert status == 0
    objq.connect().pause("mail")
    assert levels(examined()[0])["workers"] == ["ok"]


def test_only_a_worker_that_takes_from_the_queue_counts() -> None:
    ready = {"mail": QueueStats(ready=12), "a b": QueueStats(ready=1), "off": QueueStats()}
    elsewhere = WorkerView(name="w", connected=True, queues=("default",))
    gone = WorkerView(name="x", connected=False, queues=("mail", "a b"))
    here = WorkerView(name="y", connected=True, queues=("mail", "a b"))
    first, second = told_of_workers(ready, elsewhere, gone, alias="jobs")
    assert (first.level, second.level) == ("warning", "warning")
    assert first.advice.endswith("objq_worker --backend jobs --queue 'a b'")
    assert second.message == (
        "12 jobs are ready in queue 'mail', and no worker takes from it. 1 worker is connected."
    )
    (finding,) = told_of_workers(ready, elsewhere, gone, here)
    assert (finding.level, finding.message) == ("ok", "2 workers are connected.")


def test_nobody_is_missed_where_not_all_workers_are_told_of() -> None:
    elsewhere = WorkerView(name="w", connected=True, queues=("default",))
    (finding,) = told_of_workers({"mail": QueueStats(ready=1)}, *[elsewhere] * 500, total=501)
    assert (finding.level, finding.message) == ("ok", "At least 500 workers are connected.")


# --- how it is told ------------------------------------------------------------------------------


def test_a_finding_is_one_line_and_the_report_json() -> None:
    finding = Finding("store", "warning", "It is\n  slow.", "Wait.")
    assert as_line(finding) == "WARNING  store        It is slow. Wait."
    assert json.loads(as_json([finding])) == {
        "healthy": True,
        "findings": [
            {"check": "store", "level": "warning", "message": "It is\n  slow.", "advice": "Wait."}
        ],
    }
    assert not json.loads(as_json([problem("a", "b")]))["healthy"]
