"""`objq_worker`: what its command line means, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import CommandError, call_command

from objq.errors import ConfigurationError
from objq.ids import Ids
from objq.worker import process
from objq.worker.process import ProcessOptions
from objq.worker.setup import DEFAULT_CONCURRENCY, queues_of


class Recorded:
    """Stands in for the process."""

    made: list[ProcessOptions]

    def __init__(self, options: ProcessOptions) -> None:
        type(self).made.append(options)

    def run(self) -> int:
        return 0


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[ProcessOptions]:
    from objq.management.commands import objq_worker

    Recorded.made = []
    monkeypatch.setattr(objq_worker, "WorkerProcess", Recorded)
    monkeypatch.setattr(objq_worker, "log_to_stderr", lambda verbosity: None)
    return Recorded.made


def test_the_defaults_are_all_queues_of_the_default_backend(made: list[ProcessOptions]) -> None:
    with pytest.raises(SystemExit) as exited:
        call_command("objq_worker")
    assert exited.value.code == 0
    assert made == [
        ProcessOptions(alias="default", queues=("default", "mail"), concurrency=DEFAULT_CONCURRENCY)
    ]


def test_every_option_arrives(made: list[ProcessOptions]) -> None:
    with pytest.raises(SystemExit):
        call_command(
            "objq_worker", "--queue", "mail", "--queue", "default", "--concurrency", "9", "--burst"
        )
    assert made == [
        ProcessOptions(alias="default", queues=("mail", "default"), concurrency=9, burst=True)
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--queue", "mial"], "Did you mean mail?"),
        (["--backend", "defualt"], "Did you mean default?"),
        (["--concurrency", "0"], "--concurrency"),
    ],
)
def test_what_cannot_be_is_refused(
    made: list[ProcessOptions], options: list[str], said: str
) -> None:
    with pytest.raises(CommandError, match=said.replace("?", r"\?")):
        call_command("objq_worker", *options)
    assert made == []


def test_without_named_queues_in_the_settings_any_may_be_worked_on(settings: Any) -> None:
    tasks = {**settings.TASKS["default"], "QUEUES": []}
    settings.TASKS = {"default": tasks}
    assert queues_of("default", []) == ("default",)
    assert queues_of("default", ["a", "b", "a"]) == ("a", "b")


def test_more_queues_than_one_claim_can_name_are_refused(settings: Any) -> None:
    tasks = {**settings.TASKS["default"], "QUEUES": [f"q{number}" for number in range(101)]}
    settings.TASKS = {"default": tasks}
    with pytest.raises(ConfigurationError, match="--queue"):
        queues_of("default", [])


def test_the_name_of_a_worker_is_short_enough_whatever_the_host_is_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "h" * 200)
    names = {process.worker_name(Ids()) for _ in range(10)}
    assert len(names) == 10
    assert {len(name) for name in names} == {64}
