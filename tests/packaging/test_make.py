"""The commands that the README promises are there."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

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
        parser.parse_args(arguments.split())
