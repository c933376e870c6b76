"""`manage.py check` tells every mistake in the settings, with a fix, and does no I/O."""

from __future__ import annotations

import socket
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core.checks import CheckMessage, Error, run_checks
from django.test import override_settings

from objq import checks
from objq.checks import check_backend, check_installation
from objq.compat import NATIVE, task_backends
from objq.conf import BACKEND
from tests.backend.test_options import BAD

FILES = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": "/srv"}}


def found(**params: Any) -> list[CheckMessage]:
    return list(check_backend("default", {"QUEUES": ["default"], **params}))


def ids(messages: list[CheckMessage]) -> list[str | None]:
    return [message.id for message in messages]


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    settings.STORAGES = {**settings.STORAGES, "files": FILES}

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("a check went to the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def test_good_settings_pass() -> None:
    assert found(OPTIONS={"STORAGE": "files"}) == []


@pytest.mark.parametrize("option", sorted(BAD))
def test_every_option_is_checked(option: str) -> None:
    wrong_type, out_of_range = BAD[option]
    for value, check in ((wrong_type, "objq.E002"), (out_of_range, "objq.E003")):
        messages = found(OPTIONS={"STORAGE": "files", option: value})
        assert ids(messages) == [check]
        assert isinstance(messages[0], Error)
        assert messages[0].msg.startswith('TASKS["default"]: ')
        assert messages[0].hint


def test_the_fallback_switch_is_checked() -> None:
    assert ids(found(OPTIONS={"STORAGE": "files", "DIRECT_FALLBACK": 1})) == ["objq.E002"]


def test_all_problems_are_told_at_once() -> None:
    messages = found(OPTIONS={"STORGE": "files", "MODE": 1, "MAX_JOBS": 0})
    assert ids(messages) == ["objq.E001", "objq.E002", "objq.E003", "objq.E005"]
    assert messages[0].hint == "Did you mean STORAGE?"


def test_contradictions() -> None:
    options = {"STORAGE": "files", "MODE": "direct", "BROKER_URL": "ws://127.0.0.1:3000/objq/v1/"}
    assert ids(found(OPTIONS=options)) == ["objq.E004"]


def test_a_storage_alias_that_is_not_there() -> None:
    (message,) = found(OPTIONS={"STORAGE": "flies"})
    assert message.id == "objq.E006"
    assert message.hint == "Did you mean files?"


def test_a_storage_class_that_is_not_supported_names_those_that_are(settings: Any) -> None:
    settings.STORAGES = {
        **settings.STORAGES,
        "other": {"BACKEND": "django.core.files.storage.Storage"},
    }
    (message,) = found(OPTIONS={"STORAGE": "other"})
    assert message.id == "objq.E007"
    assert "storages.backends.s3.S3Storage" in message.msg
    assert "FileSystemStorage" in message.msg


def test_a_storage_that_cannot_be_built(settings: Any) -> None:
    settings.STORAGES = {**settings.STORAGES, "gone": {"BACKEND": "no.such.Storage"}}
    (message,) = found(OPTIONS={"STORAGE": "gone"})
    assert message.id == "objq.E007"
    assert "no.such" in message.msg


def test_s3_is_checked_without_asking_it(settings: Any) -> None:
    pytest.importorskip("boto3")
    settings.STORAGES = {
        **settings.STORAGES,
        "s3": {"BACKEND": "storages.backends.s3.S3Storage", "OPTIONS": {"bucket_name": "b"}},
    }
    assert found(OPTIONS={"STORAGE": "s3"}) == []


def test_memory_with_a_broker_is_a_warning() -> None:
    assert ids(found(OPTIONS={"STORAGE": "objq"})) == ["objq.W002"]
    assert found(OPTIONS={"STORAGE": "objq", "MODE": "direct"}) == []


@pytest.mark.parametrize(
    ("options", "roots", "told"),
    [
        ({}, {"MEDIA_ROOT": "/srv/media"}, "MEDIA_ROOT"),
        ({}, {}, "where the process was started"),
        ({"location": "/srv/media/queue"}, {"MEDIA_ROOT": "/srv/media"}, "MEDIA_ROOT"),
        ({"location": "/srv/static"}, {"STATIC_ROOT": Path("/srv/static")}, "STATIC_ROOT"),
        ({"location": "/srv/queue"}, {"MEDIA_ROOT": "/srv/media", "STATIC_ROOT": "/srv/s"}, None),
        ({"location": Path.cwd() / "queue"}, {}, None),
        ({"location": "objq-data"}, {}, "relative to where the process was started"),
        ({"location": "objq-data"}, {"MEDIA_ROOT": "/srv/media"}, "relative to where"),
        ({}, {"MEDIA_ROOT": "media"}, "MEDIA_ROOT"),
    ],
)
def test_a_folder_that_the_site_serves_is_a_warning(
    options: dict[str, Any], roots: dict[str, Any], told: str | None, settings: Any
) -> None:
    storage = {"BACKEND": FILES["BACKEND"], "OPTIONS": options}
    with override_settings(STORAGES={**settings.STORAGES, "files": storage}, **roots):
        messages = found(OPTIONS={"STORAGE": "files"})
    assert ids(messages) == ([] if told is None else ["objq.W004"])
    assert told is None or told in messages[0].msg


def test_a_static_storage_without_a_folder(settings: Any) -> None:
    static = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "files": static}
    assert ids(found(OPTIONS={"STORAGE": "files"})) == ["objq.E007"]


def test_an_option_of_the_storage_that_is_misspelt(settings: Any) -> None:
    storage = {"BACKEND": FILES["BACKEND"], "OPTIONS": {"locaton": "/srv"}}
    settings.STORAGES = {**settings.STORAGES, "files": storage}
    (message,) = found(OPTIONS={"STORAGE": "files"})
    assert message.id == "objq.E007"
    assert "STORAGES['files']" in message.msg
    assert "location" in message.msg


def test_the_app_is_missing(settings: Any) -> None:
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != "objq"]
    (message,) = found(OPTIONS={"STORAGE": "files"})
    assert message.id == "objq.E009"
    assert message.hint is not None
    assert '"objq"' in message.hint


@pytest.mark.parametrize(
    ("queues", "count"),
    [("default", 1), (None, 1), ([1, ""], 2), (["x" * 65], 1), (["a\nb"], 1), (["a", "b", "c"], 1)],
    ids=str,
)
def test_queues_that_do_not_fit(queues: Any, count: int) -> None:
    messages = found(QUEUES=queues, OPTIONS={"STORAGE": "files", "MAX_QUEUES": 2})
    assert ids(messages) == ["objq.E010"] * count


def test_queues_are_checked_as_they_were_written() -> None:
    """Django makes a set of them, of which nobody can tell that it was text."""
    tasks = {"default": {"BACKEND": BACKEND, "QUEUES": "mail", "OPTIONS": {"STORAGE": "files"}}}
    with override_settings(TASKS=tasks):
        assert ids(list(task_backends["default"].check())) == ["objq.E010"]


def test_the_backport_is_missing(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    monkeypatch.setattr(checks, "NATIVE", False)
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != "django_tasks"]
    assert ids(check_installation()) == ["objq.E008"]


def test_the_backport_beside_djangos_own(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    monkeypatch.setattr(checks, "NATIVE", True)
    monkeypatch.setattr(apps, "is_installed", lambda name: True)
    assert ids(check_installation()) == ["objq.W001"]


def test_a_package_of_the_server_is_missing(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    monkeypatch.setattr(checks, "find_spec", lambda name: None if name == "daphne" else name)
    (message,) = check_installation()
    assert message.id == "objq.W003"
    assert message.hint == "pip install daphne"
    settings.TASKS = {"default": {"BACKEND": BACKEND, "OPTIONS": {"MODE": "direct"}}}
    assert check_installation() == []


def test_a_project_without_our_backend_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    monkeypatch.setattr(checks, "find_spec", lambda name: None)
    settings.TASKS = {}
    assert check_installation() == []


def test_both_checks_run_with_the_frameworks() -> None:
    tasks = {"default": {"BACKEND": BACKEND, "OPTIONS": {"STORAGE": "files", "NAM": "x"}}}
    with override_settings(TASKS=tasks):
        assert ids(list(task_backends["default"].check())) == ["objq.E001"]
        assert ids([m for m in run_checks() if m.id and m.id.startswith("objq.")]) == ["objq.E001"]


def test_the_backend_is_checked_in_a_project_that_imports_no_task(tmp_path: Path) -> None:
    """Trap: Django asks a backend only if something has imported the framework."""
    (tmp_path / "bare.py").write_text(
        textwrap.dedent(
            """
            from importlib.util import find_spec
            SECRET_KEY = "x"
            INSTALLED_APPS = ["objq"] + ([] if find_spec("django.tasks") else ["django_tasks"])
            TASKS = {"default": {"BACKEND": "objq.backend.ObjqBackend", "OPTIONS": {"NAM": 1}}}
            """
        )
    )
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-m", "django", "check", "--settings=bare"],
        env={"PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[2]}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1, ran.stderr
    assert "objq.E001" in ran.stderr
    assert "objq.E005" in ran.stderr
    assert ran.stderr.count("objq.E001") == 1


@pytest.mark.skipif(not NATIVE, reason="django_tasks, which Django 5.2 needs, is an app of its own")
@pytest.mark.parametrize("dashboard", [True, False])
def test_a_project_that_forgets_the_app_is_told(dashboard: bool, tmp_path: Path) -> None:
    """Trap: nothing of objq is imported before the checks are collected, so they found nothing."""
    others = ["django.contrib.contenttypes", *(["objq_dashboard"] if dashboard else [])]
    (tmp_path / "bare.py").write_text(
        textwrap.dedent(
            f"""
            SECRET_KEY = "x"
            ROOT_URLCONF = "bareurls"
            INSTALLED_APPS = {others!r}
            TASKS = {{"default": {{"BACKEND": "objq.backend.ObjqBackend", "OPTIONS": {{}}}}}}
            """
        )
    )
    (tmp_path / "bareurls.py").write_text(
        "import objq\n\n@objq.task\ndef send(): ...\n\nurlpatterns = []\n"
    )
    root = Path(__file__).parents[2]
    ran = subprocess.run(
        [sys.executable, "-m", "django", "check", "--settings=bare"],
        env={"PYTHONPATH": f"{tmp_path}:{root}:{root / 'dashboard'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "objq.E009" in ran.stderr
    assert ran.returncode == (1 if dashboard else 0)
