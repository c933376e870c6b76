"""The commands that the README promises are there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class

ROOT = Path(__file__).resolve().parent.parent.parent
README = (ROOT / "README.md").read_text()
TARGET = re.compile(r"^([a-z][a-z0-9-]*):", re.MULTILINE)


def _make(*arguments: str) -> str:
    done = subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},  # nothing of a `make test` around this
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout


def test_make_alone_lists_every_target_with_a_word_about_it() -> None:
    listed = re.findall(r"^  make ([a-z0-9-]+) +\S", _make(), re.MULTILINE)
    assert listed == TARGET.findall((ROOT / "Makefile").read_text())


def test_every_make_command_that_is_written_down_exists() -> None:
    pages = [README, *(page.read_text() for page in sorted((ROOT / "docs").glob("*.md")))]
    command = re.compile(r"(?:^|`)make ([a-z0-9-]+)", re.MULTILINE)
    named = {name for page in pages for name in command.findall(page)}
    assert {"demo", "test"} <= named
    assert named <= set(TARGET.findall((ROOT / "Makefile").read_text()))


def test_every_management_command_of_the_readme_exists_with_its_options() -> None:
    commands = get_commands()
    lines = re.findall(r"^python manage\.py (\S+)(.*)$", README, re.MULTILINE)
    assert {"runbroker", "objq_worker"} <= {name for name, _ in lines}
    for name, arguments in lines:
        parser = load_command_class(str(commands[name]), name).create_parser("manage.py", name)
        parser.parse_args(shlex.split(arguments))


def _make_venv(python: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    script = [ROOT / "tools/make_venv.sh", python, folder]
    return subprocess.run(script, check=False, capture_output=True, text=True)


# Each is a Python as a machine may have it; `$real` is the one that runs this test.
@pytest.mark.parametrize(
    ("python", "advice"),
    [
        ('case "$*" in *"-m venv"*) mkdir "$3"; exit 1 ;; esac; exec $real "$@"', "python3-venv"),
        ('case "$*" in *version_info*) exit 1 ;; esac; exec $real "$@"', "3.11 or newer"),
    ],
    ids=["Debian's python3 without python3-venv", "too old"],
)
def test_what_the_machine_lacks_is_named(python: str, advice: str, tmp_path: Path) -> None:
    stand_in = tmp_path / "python3"
    stand_in.write_text(f"#!/bin/sh\nreal={sys.executable}\n{python}\n")
    stand_in.chmod(0o755)
    done = _make_venv(stand_in, tmp_path / "venv")
    assert done.returncode == 1
    assert advice in done.stderr
    assert "apt-get install" in done.stderr
    assert not (tmp_path / "venv").exists()


def test_a_missing_python_is_named_too(tmp_path: Path) -> None:
    done = _make_venv(tmp_path / "nothing", tmp_path / "venv")
    assert done.returncode == 1
    assert "apt-get install python3 python3-venv" in done.stderr
