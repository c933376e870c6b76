"""docs/guarantees.md names a test for each rule, and every test that it names is there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
PAGE = (TESTS.parent / "docs/guarantees.md").read_text()
USER_PART, _, RULES = PAGE.partition("\n## Rule by rule")
RULES = RULES.partition("\n## Not yet shown")[0]
REFERENCE = re.compile(r"`(?P<path>[\w/]+\.py)::(?P<name>[\w:]+)(?:\[(?P<case>[^\]]+)\])?`")
REFERENCES = sorted({match.groups() for match in REFERENCE.finditer(PAGE)}, key=str)
PROMISES = [f"S{number}" for number in range(1, 16)]


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def named_in(path: Path) -> dict[str, ast.stmt]:
    """Return the tests of a module by name: functions, methods of classes, and state machines."""
    found: dict[str, ast.stmt] = {}
    for node in parsed(path).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found[node.name] = node
        elif isinstance(node, ast.ClassDef):
            methods = (each for each in node.body if isinstance(each, ast.FunctionDef))
            found |= {f"{node.name}::{each.name}": each for each in methods}
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node
    return {name: node for name, node in found.items() if name.lower().startswith("test")}


def is_parametrised(test: ast.stmt) -> bool:
    decorators = getattr(test, "decorator_list", [])
    return any("parametrize" in ast.unparse(decorator) for decorator in decorators)


def words_of(path: Path) -> set[str]:
    """Return what may be the id of a case: literals and functions of a module and its helpers."""
    words: set[str] = set()
    imported = [node.module or "" for node in parsed(path).body if isinstance(node, ast.ImportFrom)]
    helpers = [
        TESTS.parent / f"{name.replace('.', '/')}.py"
        for name in imported
        if name.startswith("tests.")
    ]
    for module in filter(Path.exists, [path, *helpers]):
        for inner in ast.walk(parsed(module)):
            if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                words.add(inner.value)
            elif isinstance(inner, ast.FunctionDef):
                words.add(inner.name)
    return words


@pytest.mark.parametrize(("path", "name", "case"), REFERENCES)
def test_a_test_that_is_named_is_there(path: str, name: str, case: str | None) -> None:
    file = TESTS / path
    assert file.exists()
    tests = named_in(file)
    assert name in tests
    if case is not None:
        assert is_parametrised(tests[name])
        assert case in words_of(file)


def test_each_promise_is_explained_and_held() -> None:
    explained = re.findall(r"^\| (S\d+) \| ", USER_PART, re.MULTILINE)
    held = re.findall(r"^\| (S\d+) \| ", RULES, re.MULTILINE)
    assert explained == PROMISES
    assert list(dict.fromkeys(held)) == PROMISES


def test_each_section_of_the_design_is_gone_through() -> None:
    design = (TESTS.parent / "docs/design.md").read_text()
    sections = re.findall(r"^## (\d)\. (.+)$", design, re.MULTILINE)
    gone_through = re.findall(r"^### §(\d) (.+)$", RULES, re.MULTILINE)
    assert [number for number, _ in gone_through] == [number for number, _ in sections]
    for (_, title), (_, ours) in zip(sections, gone_through, strict=True):
        assert title.startswith(ours)


def test_each_rule_names_what_holds_it() -> None:
    rows = [line for line in RULES.splitlines() if line.startswith("| ") and "|---" not in line]
    bare = [
        row
        for row in rows
        if not row.endswith("held by |") and not REFERENCE.search(row) and "`make " not in row
    ]
    assert len(rows) > 100
    assert not bare


def test_each_part_of_the_bench_that_is_named_is_there() -> None:
    parts = (TESTS.parent / "bench/__main__.py").read_text()
    named = re.findall(r"`make bench ONLY=([\w-]+)`", PAGE)
    assert named
    assert all(f'"{part}":' in parts for part in named)
