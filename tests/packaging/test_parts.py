"""Rules about the shape of the code that no linter knows."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = sorted((ROOT / "objq/management/commands").glob("[!_]*.py"))
LONGEST_COMMAND = 60

OPEN_TO_THE_DASHBOARD = {
    *("objq", "objq.client.reading", "objq.client.sync", "objq.commandline", "objq.compat"),
    "objq.conf",
    *("objq.core.ops", "objq.core.filters", "objq.core.transitions", "objq.errors", "objq.finding"),
    "objq.overview",
}
"""The client and its type, the document where no broker answers, where Django has its checks of
tasks, which aliases there are, the words of requests and answers, what a text is found in, what can
be done in which state, errors, which task a path leads to, and who takes from
a queue, and what to type."""


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: path.stem)
def test_a_command_parses_builds_and_runs_and_no_more(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LONGEST_COMMAND


def test_every_command_is_there() -> None:
    names = {path.stem for path in COMMANDS}
    assert names == {
        *("runbroker", "objq_worker", "objq_doctor", "objq_stats", "objq_cat", "objq_token")
    }


def test_an_app_without_tables_has_no_migrations() -> None:
    assert not (ROOT / "objq/migrations").exists()
    assert not (ROOT / "objq/models.py").exists()


def imported_by(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            inside = {f"{module}.{alias.name}" for alias in node.names}
            modules = {name for name in inside if is_module(name)}
            names |= modules if modules == inside else {module, *modules}
    return {name for name in names if name.partition(".")[0] == "objq"}


def is_module(name: str) -> bool:
    path = ROOT / name.replace(".", "/")
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


@pytest.mark.parametrize(
    "path", sorted((ROOT / "dashboard").rglob("*.py")), ids=lambda path: path.stem
)
def test_the_dashboard_has_no_door_of_its_own(path: Path) -> None:
    assert imported_by(path) <= OPEN_TO_THE_DASHBOARD
