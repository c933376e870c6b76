"""A project of somebody else: a virtual environment with the wheel alone, and the README's code."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent.parent
README: Final = (ROOT / "README.md").read_text()
DEADLINE_S: Final = 180.0
"""For each step. It only decides when to give up: a busy machine may take long."""


def readme_code(heading: str) -> list[str]:
    """Return the Python blocks under a heading of the README."""
    _, _, rest = README.partition(f"\n### {heading}\n")
    assert rest, f"The README has no section {heading!r}."
    section = re.split(r"^##+ ", rest, maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


def clean_environment() -> dict[str, str]:
    """Return the environment without what could bring in the source tree."""
    ours = ("PYTHON", "DJANGO_", "PYTEST_", "COVERAGE", "VIRTUAL_ENV", "MAKE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**kept, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONWARNINGS": "error::Warning:objq"}


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def wait_until(what: str, done: Callable[[], bool]) -> None:
    """Ask `done` again and again; fail after `DEADLINE_S`."""
    give_up = time.monotonic() + DEADLINE_S
    while not done():
        assert time.monotonic() < give_up, f"Waited {DEADLINE_S:g} s in vain until {what}."
        time.sleep(0.05)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


class Environment:
    """A new virtual environment with one wheel and what it depends on."""

    def __init__(self, folder: Path, wheel: Path, python: str = sys.executable) -> None:
        self.python = folder / "bin" / "python"
        subprocess.run([python, "-m", "venv", folder], check=True)
        self.run("-m", "pip", "install", "-qqq", str(wheel), cwd=folder)

    def run(self, *arguments: str, cwd: Path) -> str:
        """Run Python, and return what it printed; fail with its words if it fails."""
        done = subprocess.run(
            [self.python, *arguments],
            cwd=cwd,
            env=clean_environment(),
            check=False,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        assert done.returncode == 0, f"{arguments}:\n{done.stdout}\n{done.stderr}"
        return done.stdout


class NewProject:
    """`django-admin startproject mysite`, and what the README says to add to it."""

    def __init__(self, environment: Environment, folder: Path) -> None:
        self.environment = environment
        self.folder = folder
        folder.mkdir()
        environment.run("-m", "django", "startproject", "mysite", ".", cwd=folder)
        version = environment.run("-c", "import django; print(django.VERSION[0])", cwd=folder)
        self._write(backport=int(version) < 6)

    def _write(self, *, backport: bool) -> None:
        (settings,) = readme_code("With a local folder")
        (settings_52,) = readme_code("Django 5.2")
        tasks, views, urls = readme_code("A task, a view")
        if backport:
            settings += settings_52
            tasks, views = (text.replace("django.tasks", "django_tasks") for text in (tasks, views))
        site = self.folder / "mysite"
        for name, text in (("settings.py", settings), ("urls.py", urls)):
            with (site / name).open("a") as file:
                file.write(f"\n{text}")
        (site / "tasks.py").write_text(tasks)
        (site / "views.py").write_text(views)

    def manage(self, *arguments: str) -> str:
        return self.environment.run("manage.py", *arguments, cwd=self.folder)

    def shell(self, code: str) -> str:
        return self.manage("shell", "--no-imports", "--command", code).strip()

    @contextmanager
    def running(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """Run a command until the block ends, then SIGTERM; it has to end by itself, with 0."""
        log = self.folder / f"{arguments[0]}.log"
        with log.open("w") as file:
            process = subprocess.Popen(
                [self.environment.python, "manage.py", *arguments],
                cwd=self.folder,
                env=clean_environment(),
                stdout=file,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        try:
            yield process
            assert process.poll() is None, f"{arguments[0]} ended by itself"
            process.terminate()
            assert process.wait(DEADLINE_S) == 0
        except BaseException as problem:
            problem.add_note(f"--- {arguments[0]} said:\n{log.read_text()}")
            raise
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
