"""What is masked, and that nothing else is."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.conf import ENVIRONMENT_VARIABLE

from objq_dashboard import signatures
from objq_dashboard.masking import MASKED, as_call, mask_for
from objq_dashboard.signatures import Parameters, parameters_of
from tests.dashboard.sometasks import charge

if TYPE_CHECKING:
    from pytest_django.fixtures import Settings

assert charge is not None  # its module is imported, so that its arguments have names

TASK = "somewhere.tasks.send"


@pytest.mark.parametrize(
    "name",
    [
        "password", "PASSWORD", "user_password", "userPassword", "pass-word", "db.password",
        "secret", "clientSecret", "token", "access_token", "tokens", "api_key", "apiKey", "API-KEY",
        "X-Api-Key", "authorization", "Authorization", "credentials", "private_key", "cookie",
        "pin", "pinCode", "pins", "otp", "iban", "cardNumber", "jwt", "pwd",
    ],
)  # fmt: skip
def test_secret_names(name: str) -> None:
    assert mask_for(TASK).is_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        "shipping", "spin", "pinned", "hotpath", "author", "key", "keys", "name", "passenger",
        "compass", "", "card", "number", "session", "libane", "ibanez",
    ],
)  # fmt: skip
def test_names_that_are_not(name: str) -> None:
    assert not mask_for(TASK).is_secret(name)


def kwargs(value: Any, task: str = TASK) -> Any:
    return json.loads(mask_for(task).kwargs(json.dumps(value).encode()).text)


def args(value: Any, task: str = TASK) -> Any:
    return json.loads(mask_for(task).args(json.dumps(value).encode()).text)


def test_the_value_under_a_secret_name_is_masked_as_a_whole_at_any_depth() -> None:
    given = {
        "to": "a@b.c",
        "password": "hunter2",
        "conf": {"Api-Key": {"id": 1, "value": "xyz"}, "retries": [1, {"token": None, "n": 2}]},
    }
    assert kwargs(given) == {
        "to": "a@b.c",
        "password": MASKED,
        "conf": {"Api-Key": MASKED, "retries": [1, {"token": MASKED, "n": 2}]},
    }
    assert args([given, "plain"]) == [kwargs(given), "plain"]


def test_where_nothing_is_masked_the_text_is_the_one_that_was_pushed() -> None:
    raw = b'{"n":1.50,  "big":123456789012345678901234567890,"e":1E5,"u":"\\u00e9"}'
    shown = mask_for(TASK).kwargs(raw)
    assert shown == (raw.decode(), False)


def test_where_something_is_the_rest_keeps_its_value() -> None:
    shown = mask_for(TASK).kwargs(b'{"token":"x","big":123456789012345678901234567890}')
    assert shown.masked
    assert json.loads(shown.text)["big"] == 123456789012345678901234567890


@pytest.mark.parametrize("raw", [b"[" * 100_000 + b"]" * 100_000, b"nonsense", b"\xff"])
def test_what_cannot_be_looked_through_is_not_shown(raw: bytes) -> None:
    shown = mask_for(TASK).args(raw)
    assert shown == (json.dumps(MASKED, ensure_ascii=False), True)


def test_results_are_masked_too() -> None:
    assert json.loads(mask_for(TASK).result(b'{"token":"x","ok":true}').text) == {
        "token": MASKED,
        "ok": True,
    }


def test_the_setting_adds_names_for_all_tasks_and_for_one(settings: Settings) -> None:
    settings.OBJQ_DASHBOARD = {
        "MASK": ["Tax Id"],
        "MASK_TASKS": {TASK: ["account"], "somewhere.tasks.vote": ["*"]},
    }
    given = {"tax_id": 1, "bank_account": 2, "other": 3, "password": 4}
    assert kwargs(given) == {
        "tax_id": MASKED, "bank_account": MASKED, "other": 3, "password": MASKED
    }  # fmt: skip
    assert kwargs(given, "another.task") == {
        "tax_id": MASKED, "bank_account": 2, "other": 3, "password": MASKED
    }  # fmt: skip
    assert kwargs(given, "somewhere.tasks.vote") == dict.fromkeys(given, MASKED)
    assert args([1, {"a": 2}], "somewhere.tasks.vote") == [MASKED, MASKED]
    assert mask_for("somewhere.tasks.vote").result(b"[1]").text == json.dumps(
        MASKED, ensure_ascii=False
    )


def test_as_a_call() -> None:
    assert as_call('[1,"a",null]', '{"n":true,"who":"é"}') == '1, "a", null, n=true, who="é"'
    assert as_call("[]", "{}") == ""
    assert as_call(f'["{MASKED}"]', f'{{"token":"{MASKED}"}}') == f"{MASKED}, token={MASKED}"
    assert as_call("nonsense", "{}") == "nonsense {}"


# --- names of positional arguments ---------------------------------------------------------------


def test_positional_arguments_are_called_what_the_task_calls_them() -> None:
    path = "tests.dashboard.sometasks.charge"
    assert parameters_of(path) == Parameters(("order", "api_key"), "tokens")
    assert args([1, "k", "t", "u"], path) == [1, MASKED, MASKED, MASKED]


def test_a_task_that_takes_its_context_is_not_given_it() -> None:
    assert parameters_of("tests.dashboard.sometasks.with_context").names == ("password",)


@pytest.mark.parametrize(
    "path",
    [
        "tests.dashboard.sometasks.not_a_task",  # a function
        "tests.dashboard.sometasks.trap",  # whose attributes do something
        "tests.dashboard.sometasks.absent",
        "this.pay",  # is not imported, and not the project's
        "objq.enqueue_on_commit",  # which its module would import first
        "nodots", "", ".", "..", "a..b", "json.dumps",
    ],
)  # fmt: skip
def test_of_anything_else_no_names_are_known_and_nothing_is_imported(path: str) -> None:
    before = set(sys.modules)
    assert parameters_of(path) == Parameters()
    assert set(sys.modules) == before


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("project.tasks.index_page", ("page_id",)),  # of an installed app
        (
            "tests.dashboard.unimported.tasks.pay",
            ("order", "api_key"),
        ),  # beside the settings, of no app
    ],
)
def test_a_module_of_the_project_is_imported_for_it(
    path: str, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, path.rpartition(".")[0], raising=False)
    signatures._look_up.cache_clear()
    assert parameters_of(path).names == names
    assert args([1, "k"], path)[1:] == ([MASKED] if "api_key" in names else ["k"])


def test_a_module_that_ends_the_process_on_its_import_does_not_and_is_tried_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scripts").mkdir()
    script = "sys = __import__('sys')\nsys.tries = getattr(sys, 'tries', 0) + 1\nsys.exit()\n"
    (tmp_path / "scripts/tasks.py").write_text(script)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, "scripts.settings")
    monkeypatch.setattr(sys, "tries", 0, raising=False)
    assert {parameters_of("scripts.tasks.run") for _ in range(3)} == {Parameters()}
    assert sys.tries == 1  # type: ignore[attr-defined]
    del sys.modules["scripts"]


def test_to_look_at_a_job_imports_nothing_that_holds_no_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/wipe.py").write_text("raise AssertionError('It was run.')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, "scripts.settings")
    before = set(sys.modules)
    assert parameters_of("scripts.wipe.run") == Parameters()
    assert set(sys.modules) == before


def test_a_module_that_others_import_later_is_looked_into_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imported_later.py").write_text("from tests.dashboard.sometasks import charge\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    path = "imported_later.charge"
    assert parameters_of(path) == Parameters()
    monkeypatch.setitem(sys.modules, "imported_later", import_module("imported_later"))
    assert parameters_of(path).names == ("order", "api_key")
