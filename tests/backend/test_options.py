from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from django.test import override_settings
from msgspec import Raw

from objq import wire
from objq.checks import check_backend
from objq.conf import BACKEND, backend_aliases, options_for
from objq.core.ops import MAX_RECORD_BYTES, DocumentSettings, NewJob, Push
from objq.errors import ConfigurationError
from objq.optionrules import BOUNDS, find_problems, parse
from objq.options import DEFAULTS, FIELD_BY_OPTION, Options
from objq.server.binding import advertised_url

MINIMAL = {"STORAGE": "objq"}

DOCUMENTED = {
    "NAME": "queue.json",
    "MODE": "broker",
    "DIRECT_FALLBACK": True,
    "BROKER_URL": None,
    "HEARTBEAT_TIMEOUT": 30,
    "BROKER_TTL": 10,
    "ENQUEUE_TIMEOUT": 10,
    "SHUTDOWN_GRACE": 30,
    "MAX_ATTEMPTS": 3,
    "DEDUPE_WINDOW": 120,
    "RESULT_TTL": 24 * 3600,
    "MAX_FINISHED": 10_000,
    "DEAD_TTL": 30 * 24 * 3600,
    "MAX_DEAD": 10_000,
    "MAX_JOBS": 1_000_000,
    "MAX_BYTES": 64 * 1024 * 1024,
    "MAX_JOB_BYTES": 256 * 1024,
    "MAX_RESULT_BYTES": 64 * 1024,
    "MAX_ERROR_BYTES": 16 * 1024,
    "MAX_QUEUES": 100,
    "MAX_CLIENTS": 10_000,
    "COMPRESS_ABOVE": 256 * 1024,
}

# For each option a value of the wrong type, and one of the right type that cannot be.
BAD: dict[str, tuple[object, object]] = {
    "STORAGE": (None, ""),
    "NAME": (1, "../queue.json"),
    "MODE": (True, "brocker"),
    "BROKER_URL": (80, "http://10.0.0.1/"),
    "HEARTBEAT_TIMEOUT": ("30", 0),
    "BROKER_TTL": (None, 0),
    "ENQUEUE_TIMEOUT": ([], float("nan")),
    "SHUTDOWN_GRACE": (True, -1),
    "MAX_ATTEMPTS": (1.5, 0),
    "DEDUPE_WINDOW": ({}, float("inf")),
    "RESULT_TTL": ("24h", -1),
    "MAX_FINISHED": (1.0, -1),
    "DEAD_TTL": (None, 0),
    "MAX_DEAD": ("1", 0),
    "MAX_JOBS": (False, 0),
    "MAX_BYTES": ("64M", 10),
    "MAX_JOB_BYTES": (None, 2_000_000),
    "MAX_RESULT_BYTES": (1.5, -1),
    "MAX_ERROR_BYTES": ("", 1),
    "MAX_QUEUES": ([], 0),
    "MAX_CLIENTS": (None, 0),
    "COMPRESS_ABOVE": ("never", -1),
}


def test_every_option_has_the_documented_default() -> None:
    assert DEFAULTS == DOCUMENTED
    assert set(FIELD_BY_OPTION) == {"STORAGE", *DOCUMENTED}


def test_what_is_left_out_gets_its_default_and_times_are_floats() -> None:
    options = parse({"STORAGE": "objq", "HEARTBEAT_TIMEOUT": 60})
    assert options == Options(storage="objq", heartbeat_timeout_s=60.0)
    assert isinstance(options.heartbeat_timeout_s, float)


def test_the_document_gets_every_setting_that_it_knows() -> None:
    raw = {**MINIMAL, "HEARTBEAT_TIMEOUT": 60, "MAX_JOBS": 5, "COMPRESS_ABOVE": 0}
    wanted = DocumentSettings(heartbeat_timeout_s=60.0, max_jobs=5, compress_above=0)
    assert parse(raw).document_settings() == wanted
    assert parse(MINIMAL).document_settings() == DocumentSettings()


@pytest.mark.parametrize("option", sorted(BAD))
def test_a_wrong_type_is_refused(option: str) -> None:
    problems = find_problems({**MINIMAL, option: BAD[option][0]})
    assert [problem.check for problem in problems] == ["E002"]
    assert option in problems[0].message
    assert option in problems[0].hint


@pytest.mark.parametrize("option", sorted(BAD))
def test_a_value_out_of_range_is_refused(option: str) -> None:
    problems = find_problems({**MINIMAL, option: BAD[option][1]})
    assert [problem.check for problem in problems] == ["E003"]
    assert option in problems[0].message


def test_the_fallback_is_a_switch() -> None:
    (problem,) = find_problems({**MINIMAL, "DIRECT_FALLBACK": "no"})
    assert problem.check == "E002"
    assert "True or False" in problem.message


def test_the_cases_above_are_all_options() -> None:
    assert {*BAD, "DIRECT_FALLBACK"} == set(FIELD_BY_OPTION)


@pytest.mark.parametrize(
    ("written", "meant"),
    [("STORGE", "STORAGE"), ("heartbeat_timeout", "HEARTBEAT_TIMEOUT"), ("MAXJOBS", "MAX_JOBS")],
)
def test_an_unknown_option_gets_a_suggestion(written: str, meant: str) -> None:
    problems = find_problems({**MINIMAL, written: 1})
    assert [problem.check for problem in problems] == ["E001"]
    assert problems[0].hint == f"Did you mean {meant}?"


def test_an_unknown_option_like_no_other_gets_the_list() -> None:
    (problem,) = find_problems({**MINIMAL, "X": 1})
    assert problem.hint.startswith("Known are: BROKER_TTL, BROKER_URL,")


def test_storage_is_the_one_that_has_to_be_there() -> None:
    (problem,) = find_problems({})
    assert problem.check == "E005"
    assert "STORAGE" in problem.message


@pytest.mark.parametrize("raw", [None, [], "STORAGE"])
def test_options_that_are_no_dictionary(raw: object) -> None:
    (problem,) = find_problems(raw)
    assert problem.check == "E002"


@pytest.mark.parametrize(
    "together",
    [
        {"HEARTBEAT_TIMEOUT": 5, "BROKER_TTL": 10.5},
        {"ENQUEUE_TIMEOUT": 121},
        {"ENQUEUE_TIMEOUT": 10, "DEDUPE_WINDOW": 5},
        {"MAX_BYTES": 65_536, "MAX_JOB_BYTES": 65_536},
        {"MAX_BYTES": 65_536, "MAX_RESULT_BYTES": 65_536},
        {"MAX_BYTES": 65_536, "MAX_ERROR_BYTES": 16_384},
        {"MAX_BYTES": 1 << 20, "MAX_JOB_BYTES": (1 << 16) + 1},
        {"MAX_BYTES": 1 << 20, "MAX_RESULT_BYTES": (1 << 15) + 1},
        {"MAX_BYTES": 1 << 20, "MAX_ERROR_BYTES": (1 << 14) + 1},
        {"MODE": "direct", "BROKER_URL": "ws://10.0.0.1:3000/objq/v1/"},
    ],
    ids=lambda together: "-".join(together),
)
def test_options_that_contradict_each_other(together: dict[str, object]) -> None:
    problems = find_problems({**MINIMAL, **together})
    assert [problem.check for problem in problems] == ["E004"]
    assert all(option in problems[0].message for option in together)


def test_a_contradiction_is_told_in_fractions_and_multiples() -> None:
    (one,) = find_problems({**MINIMAL, "MAX_BYTES": 1 << 20, "MAX_JOB_BYTES": 1 << 17})
    assert "MAX_JOB_BYTES = 131072 is more than 1/16 of MAX_BYTES = 1048576: " in one.message
    (other,) = find_problems({**MINIMAL, "HEARTBEAT_TIMEOUT": 5, "BROKER_TTL": 11})
    assert "is more than 2 times HEARTBEAT_TIMEOUT = 5: " in other.message


@pytest.mark.parametrize("bound", BOUNDS, ids=lambda bound: bound.option)
def test_a_default_never_contradicts_what_was_configured(bound: Any) -> None:
    lowest = next(f for f in fields(Options) if f.name == FIELD_BY_OPTION[bound.limit])
    raw = {**MINIMAL, bound.limit: lowest.metadata["low"]}
    assert find_problems(raw) == []
    options = parse(raw)
    small = getattr(options, FIELD_BY_OPTION[bound.option])
    assert small <= getattr(options, FIELD_BY_OPTION[bound.limit]) * bound.times
    assert type(small) is type(DEFAULTS[bound.option])


def test_parse_tells_all_problems_at_once() -> None:
    with pytest.raises(ConfigurationError) as raised:
        parse({"STORGE": "objq", "MODE": "x", "MAX_JOBS": 0}, alias="jobs")
    text = str(raised.value)
    assert text.startswith('TASKS["jobs"]["OPTIONS"] cannot work:')
    assert all(name in text for name in ("STORGE", "MODE", "MAX_JOBS", "STORAGE is missing"))


@pytest.mark.parametrize("name", ["queue.json", "jobs/a b.json", "ü.json"])
def test_names_that_stores_take(name: str) -> None:
    assert parse({**MINIMAL, "NAME": name}).name == name


@pytest.mark.parametrize(
    "name", ["/queue.json", "a//b", "a/", ".", "a/../b", "a\\b", "a\nb", "x" * 901]
)
def test_names_that_some_store_does_not_take(name: str) -> None:
    assert [problem.check for problem in find_problems({**MINIMAL, "NAME": name})] == ["E003"]


@pytest.mark.parametrize("url", ["ws://10.0.0.1:3000/objq/v1/", "wss://jobs.example.org/objq/v1/"])
def test_addresses_of_a_broker(url: str) -> None:
    assert parse({**MINIMAL, "BROKER_URL": url}).broker_url == url


@pytest.mark.parametrize("url", ["ws://10.0.0.1:3000", "ws://10.0.0.1:3000/"])
def test_an_address_without_a_path_gets_the_one_that_a_broker_serves(url: str) -> None:
    assert parse({**MINIMAL, "BROKER_URL": url}).broker_url == "ws://10.0.0.1:3000/objq/v1/"
    advertised = advertised_url(url, ("", 1), host_address=lambda: None, local=True)
    assert advertised.url == parse({**MINIMAL, "BROKER_URL": url}).broker_url


@pytest.mark.parametrize("url", ["ws://", "10.0.0.1:3000", "ws://host:port/", "ws://[::1/"])
def test_addresses_that_are_none(url: str) -> None:
    assert [problem.check for problem in find_problems({**MINIMAL, "BROKER_URL": url})] == ["E003"]


def test_settings_are_read_when_asked_for() -> None:
    with override_settings(TASKS={"a": {"BACKEND": BACKEND, "OPTIONS": {"STORAGE": "x"}}}):
        assert options_for("a").storage == "x"
        with pytest.raises(ConfigurationError, match=r'no "default"\. Known are: a'):
            options_for()


@pytest.mark.parametrize("other", [{}, {"BACKEND": "django.tasks.backends.immediate.X"}])
def test_a_project_without_our_backend_is_told_what_to_write(other: dict[str, str]) -> None:
    tasks = {"default": other} if other else {}
    with override_settings(TASKS=tasks):
        with pytest.raises(
            ConfigurationError, match=r"No backend in TASKS is objq's\. Write TASKS"
        ):
            options_for()
        tasks["jobs"] = {"BACKEND": BACKEND}
    if other:
        with (
            override_settings(TASKS=tasks),
            pytest.raises(ConfigurationError, match=r"is not objq's\. These are: jobs"),
        ):
            options_for()


def test_an_option_one_level_too_high_is_told_from_a_missing_one() -> None:
    params = {"BACKEND": BACKEND, "QUEUES": [], "STORAGE": "x", "NAME": "y"}
    problems = find_problems({}, params)
    assert [problem.check for problem in problems] == ["E001", "E005"]
    assert problems[1].message == "The option STORAGE stands beside OPTIONS, where it is not read."
    with (
        override_settings(TASKS={"default": params}),
        pytest.raises(ConfigurationError, match="beside OPTIONS"),
    ):
        options_for()
    assert [message.id for message in check_backend("default", params)] == [
        "objq.E001",
        "objq.E005",
    ]


@pytest.mark.parametrize(
    ("written", "meant"), [("QUEUE", "QUEUES"), ("Options", "OPTIONS"), ("BACKENDS", "BACKEND")]
)
def test_a_misspelt_key_beside_the_options_gets_a_suggestion(written: str, meant: str) -> None:
    (problem,) = find_problems(MINIMAL, {"BACKEND": BACKEND, written: {}})
    assert problem.check == "E001"
    assert problem.message == f"Unknown key {written!r} beside OPTIONS."
    assert problem.hint == f"Did you mean {meant}?"
    tasks = {"default": {"BACKEND": BACKEND, "OPTIONS": MINIMAL, written: {}}}
    with override_settings(TASKS=tasks), pytest.raises(ConfigurationError, match="Did you mean"):
        options_for()


def test_what_django_reads_beside_the_options_is_told_from_an_unknown_option() -> None:
    (problem,) = find_problems({**MINIMAL, "QUEUES": ["default"]})
    assert problem.check == "E001"
    assert problem.message == "QUEUES stands inside OPTIONS, where it is not read."
    assert "beside OPTIONS" in problem.hint
    assert find_problems(MINIMAL, {"BACKEND": BACKEND, "QUEUES": [], "OPTIONS": MINIMAL}) == []


class Derived:
    """Stands in for a class that is no backend at all."""


def test_aliases_are_those_whose_backend_is_ours() -> None:
    tasks = {
        "plain": {"BACKEND": BACKEND},
        "derived": {"BACKEND": "tests.backend.derived.DerivedBackend"},
        "other": {"BACKEND": "tests.backend.test_options.Derived"},
        "gone": {"BACKEND": "no.such.Backend"},
    }
    with override_settings(TASKS=tasks):
        assert backend_aliases() == ("plain", "derived")


def test_the_largest_job_that_can_be_allowed_fits_into_a_frame() -> None:
    args = Raw(b'["' + b"x" * (MAX_RECORD_BYTES - 4) + b'"]')
    job = NewJob(id="x" * 63, task="t" * 256, queue="q" * 64, args=args)
    push = Push(request="1-x:1", jobs=(job,))
    assert len(wire.encode_request(1, push)) <= wire.MAX_FRAME_BYTES
