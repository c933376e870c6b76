"""Where the path in a job may lead: whoever may push chooses it, and importing a module runs it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.conf import ENVIRONMENT_VARIABLE, settings
from django.test import override_settings

from objq.finding import ForeignModule, NotATask, TaskMissing, find_task

TASK = "import objq\n\n@objq.task\ndef send(): ...\n"
Write = Callable[..., None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Write modules that can be imported, and that leave a mark when they are."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)

    def make(*names: str, text: str = TASK) -> None:
        for name in names:
            path = tmp_path / f"{name.replace('.', '/')}.py"
            if not path.parent.exists():
                path.parent.mkdir()
                (path.parent / "__init__.py").touch()
            mark = f"open({str(tmp_path / name)!r}, 'w').close()\n"
            path.write_text(mark + text)

    yield make
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("shop", "shops", "loose"):
            del sys.modules[name]


def test_a_module_that_is_nobodys_is_not_imported(write: Write, tmp_path: Path) -> None:
    write("loose", "shop.jobs")
    for path in ("loose.send", "shop.jobs.send", "shop.send"):
        with pytest.raises(ForeignModule, match="INSTALLED_APPS"):
            find_task(path)
    assert not (tmp_path / "loose").exists() and not (tmp_path / "shop.jobs").exists()


def test_a_module_of_an_installed_app_is_imported(write: Write) -> None:
    write("shop.jobs", "shops.jobs")
    with override_settings(INSTALLED_APPS=[*settings.INSTALLED_APPS, "shop"]):
        assert find_task("shop.jobs.send").name == "send"
        with pytest.raises(ForeignModule):
            find_task("shops.jobs.send")  # whose name only begins like the app's


def test_a_module_beside_the_settings_is_imported_though_it_is_no_app(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("shop.jobs", "loose")
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, "shop.settings")
    assert find_task("shop.jobs.send").name == "send"
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, "loose")  # settings that lie in no package
    with pytest.raises(ForeignModule):
        find_task("loose.send")


def test_what_is_imported_already_is_found_wherever_it_lies(write: Write) -> None:
    write("loose")
    __import__("loose")
    assert find_task("loose.send").name == "send"
    with pytest.raises(NotATask):
        find_task("loose.objq")
    with pytest.raises(ImportError, match="defines no 'nothing'"):
        find_task("loose.nothing")


def test_what_is_not_there_is_told_from_an_import_that_fails(write: Write) -> None:
    write("shop.jobs", text="import no_such_library\n")
    with override_settings(INSTALLED_APPS=[*settings.INSTALLED_APPS, "shop"]):
        for path in ("shop.later.send", "shop.later.more.send"):
            with pytest.raises(TaskMissing, match=r"no module 'shop\.later'"):
                find_task(path)
        with pytest.raises(ModuleNotFoundError) as raised:
            find_task("shop.jobs.send")
    assert not isinstance(raised.value, TaskMissing)


def test_a_module_that_makes_its_names_when_asked_is_not_asked(write: Write) -> None:
    write("loose", text="def __getattr__(name): raise SystemExit(name)\n")
    __import__("loose")
    with pytest.raises(ImportError, match="defines no 'send'"):
        find_task("loose.send")


def test_a_program_is_not_run_by_looking_for_a_task(write: Write) -> None:
    """`__main__` of an app, such as daphne's, may start a server when it is imported."""
    write("shop/__init__", text="")
    write("shop/__main__", text="raise SystemExit('It ran.')\n")
    with override_settings(INSTALLED_APPS=["shop"]), pytest.raises(ForeignModule):
        find_task("shop.__main__.send")


@pytest.mark.parametrize("path", ["", ".", "..", ".shop.send", "shop..send", "shop./x.send", "é.ü"])
def test_a_path_that_is_none_leads_nowhere(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, "shop.settings")
    with pytest.raises(ForeignModule):
        find_task(path)


def test_a_module_that_another_thread_is_importing_is_waited_for(write: Write) -> None:
    write("shop.jobs", text="import sys\nsys.entered.set()\nassert sys.go_on.wait(60)\n" + TASK)
    entered, go_on = threading.Event(), threading.Event()
    sys.entered, sys.go_on = entered, go_on  # type: ignore[attr-defined]
    found: list[str] = []
    with override_settings(INSTALLED_APPS=[*settings.INSTALLED_APPS, "shop"]):
        threads = [
            threading.Thread(target=lambda: found.append(find_task("shop.jobs.send").name))
            for _ in range(2)
        ]
        threads[0].start()
        assert entered.wait(60)
        threads[1].start()
        threads[1].join(0.05)
        go_on.set()
        for thread in threads:
            thread.join(60)
    del sys.entered, sys.go_on  # type: ignore[attr-defined]
    assert found == ["send", "send"]
