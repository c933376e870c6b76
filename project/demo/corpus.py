"""The input: every Python module of a folder, by default the standard library, as text."""

from __future__ import annotations

import re
import sysconfig
import tokenize
from dataclasses import dataclass
from pathlib import Path
from typing import Final

OTHERS: Final = {"site-packages", "dist-packages", "__pycache__"}
"""Folders inside the library's that hold what is not of it."""

WORD = re.compile(r"\b[A-Za-z]{4,40}\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One module. `token` is a word that is on no other page."""

    path: str
    title: str
    source: str
    token: str

    @property
    def query(self) -> str:
        """What finds this page and no other: its token, and a word of its text if it has one."""
        words = WORD.findall(self.source)
        return f"{max(words, key=len)} {self.token}" if words else self.token


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    folder: Path
    modules: tuple[Module, ...]
    unreadable: tuple[str, ...]
    """Files that are no text in the encoding which they state, such as those of encoding tests."""


def library() -> Path:
    return Path(sysconfig.get_path("stdlib"))


def read(folder: Path) -> Corpus:
    modules: list[Module] = []
    unreadable: list[str] = []
    for number, file in enumerate(sorted(find(folder))):
        path = file.relative_to(folder).as_posix()
        source = read_source(file)
        if source is None:
            unreadable.append(path)
            continue
        modules.append(
            Module(path=path, title=dotted(path), source=source, token=f"shelfmark{number:05d}")
        )
    return Corpus(folder=folder, modules=tuple(modules), unreadable=tuple(unreadable))


def find(folder: Path) -> list[Path]:
    return [
        file
        for file in folder.rglob("*.py")
        if file.is_file() and not OTHERS & set(file.relative_to(folder).parts)
    ]


def read_source(file: Path) -> str | None:
    """Return the text, or None if it cannot be read as Python would read it."""
    try:
        with tokenize.open(file) as text:
            source = text.read()
    except (OSError, SyntaxError, UnicodeDecodeError):
        return None
    # A form refuses these, and so does Python.
    return None if "\x00" in source else source


def dotted(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
