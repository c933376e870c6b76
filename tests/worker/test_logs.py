"""What a worker's log says of a job that ended."""

from __future__ import annotations

import logging

import pytest
from msgspec import UNSET, Raw, UnsetType

from objq.core.ops import Completion, Failure, JobError
from objq.worker.holdings import Held
from objq.worker.logs import MESSAGE_LENGTH, log_end
from objq.worker.seam import Report
from tests.worker.fakes import grant


def line(
    caplog: pytest.LogCaptureFixture, item: Report, *, attempt: int = 1, cancelled: bool = False
) -> str:
    held = Held(
        grant(1, task="shop.tasks.send", attempt=attempt, max_attempts=3),
        confirmed_at=0,
        taken_at=0,
    )
    held.control.cancel_requested = cancelled
    with caplog.at_level(logging.INFO, "objq.worker"):
        log_end(held, item, 0.5, "worker")
    return caplog.messages[-1]


def failure(message: str, retry_after: float | None | UnsetType = UNSET) -> Failure:
    error = JobError(type="builtins.ValueError", message=message)
    return Failure(token="token-1", error=error, retry_after=retry_after)


def test_a_success(caplog: pytest.LogCaptureFixture) -> None:
    said = line(caplog, Completion(token="token-1", result=Raw(b"1")))
    assert said.endswith("(shop.tasks.send) succeeded after 0.500 s, attempt 1 of 3")


@pytest.mark.parametrize(
    ("attempt", "retry_after", "follows"),
    [
        (1, UNSET, "Next attempt in 2 s"),
        (2, UNSET, "Next attempt in 4 s"),
        (2, 0.5, "Next attempt in 0.5 s"),
        (1, None, "The job is dead"),
        (3, UNSET, "The job is dead"),
    ],
)
def test_a_failure_is_told_with_what_follows(
    attempt: int,
    retry_after: float | None | UnsetType,
    follows: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    said = line(caplog, failure("no such order.", retry_after), attempt=attempt)
    assert said.endswith(f"attempt {attempt} of 3: ValueError: no such order. {follows}")


@pytest.mark.parametrize(("attempt", "level"), [(1, "WARNING"), (3, "ERROR")])
def test_a_failure_brings_its_traceback_and_is_an_error_where_it_is_the_last(
    attempt: int, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    trace = 'Traceback (most recent call last):\n  File "shop/tasks.py", line 9, in send\n'
    error = JobError(type="builtins.ValueError", message="no", traceback=trace)
    said = line(caplog, Failure(token="token-1", error=error), attempt=attempt)
    assert said.partition("\n")[2] == trace.rstrip()
    assert caplog.records[-1].levelname == level


def test_a_cancellation_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    said = line(caplog, failure("stopped as asked"), cancelled=True)
    assert said.endswith(
        "was cancelled after 0.500 s, attempt 1 of 3: ValueError: stopped as asked"
    )
    assert caplog.records[-1].levelname == "INFO"


def test_a_message_takes_one_line_of_bounded_length(caplog: pytest.LogCaptureFixture) -> None:
    assert "ValueError: a b. Next" in line(caplog, failure("a\n\n  b"))
    assert len(line(caplog, failure("x" * 100_000))) < MESSAGE_LENGTH + 200
    assert "ValueError. Next" in line(caplog, failure(""))
