"""Arguments and results as they may be shown: what looks secret by its name is masked.

A name is secret if a pattern stands in it; case and separators do not count. Short patterns have to
be whole words of it, since `pin` is in "shipping" too. The value under a secret name is masked as a
whole, however deep the name stands. Where nothing is masked, the very text that was pushed is
shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final, NamedTuple

from objq_dashboard.options import ALL, MASK, options
from objq_dashboard.signatures import Parameters, parameters_of

MASKED: Final = "•••••"

SHORT: Final = 4
"""Patterns of so many letters have to be whole words of a name."""


class Shown(NamedTuple):
    """JSON text to show, and whether something in it is masked."""

    text: str
    masked: bool


@dataclass(frozen=True)
class Mask:
    """What is masked of one task."""

    task: str
    patterns: tuple[str, ...]
    everything: bool = False

    def args(self, raw: bytes) -> Shown:
        return self._show(raw, self._args)

    def kwargs(self, raw: bytes) -> Shown:
        return self._show(raw, self._kwargs)

    def result(self, raw: bytes) -> Shown:
        return self._show(raw, lambda value: MASKED if self.everything else self._clean(value))

    def is_secret(self, name: str) -> bool:
        return _is_secret(name, self.patterns)

    def _show(self, raw: bytes, clean: Callable[[Any], Any]) -> Shown:
        try:
            value = json.loads(raw)
            cleaned = clean(value)
            if cleaned == value:
                return Shown(raw.decode(), masked=False)
            return Shown(json.dumps(cleaned, ensure_ascii=False), masked=True)
        except (ValueError, RecursionError):  # what cannot be looked through is not shown
            return Shown(json.dumps(MASKED, ensure_ascii=False), masked=True)

    def _kwargs(self, value: Any) -> Any:
        if self.everything:
            return dict.fromkeys(value, MASKED) if isinstance(value, dict) else MASKED
        return self._clean(value)

    def _args(self, value: Any) -> Any:
        if not isinstance(value, list):
            return MASKED if self.everything else self._clean(value)
        return [
            MASKED
            if self.everything or self.is_secret(self._parameters.name_at(at))
            else self._clean(item)
            for at, item in enumerate(value)
        ]

    def _clean(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {
                name: MASKED if self.is_secret(name) else self._clean(inner)
                for name, inner in value.items()
            }
        if isinstance(value, list):
            return [self._clean(inner) for inner in value]
        return value

    @cached_property
    def _parameters(self) -> Parameters:
        return parameters_of(self.task)


def mask_for(task: str) -> Mask:
    found = options()
    own = found.mask_tasks.get(task, ())
    more = (*found.mask, *own)
    return Mask(task=task, patterns=_patterns(more), everything=ALL in more)


@lru_cache(maxsize=1024)
def _patterns(more: tuple[str, ...]) -> tuple[str, ...]:
    names = [name for name in (*MASK, *more) if name != ALL]
    return tuple(filter(None, dict.fromkeys(map(_plain, names))))


@lru_cache(maxsize=4096)
def _is_secret(name: str, patterns: tuple[str, ...]) -> bool:
    plain, words = _plain(name), _words(name)
    return any(
        pattern in words if len(pattern) <= SHORT else pattern in plain for pattern in patterns
    )


_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[\W_]+")


def _plain(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def _words(name: str) -> frozenset[str]:
    """Return the words of a name, each also without a plural's s."""
    words = {word.casefold() for word in _CAMEL.split(name) if word}
    return frozenset(words | {word.removesuffix("s") for word in words})


def as_call(args: str, kwargs: str) -> str:
    """Return arguments, given as JSON text, as one would write them in a call."""
    try:
        positional, named = json.loads(args), json.loads(kwargs)
    except (ValueError, RecursionError):
        return f"{args} {kwargs}"
    if not (isinstance(positional, list) and isinstance(named, dict)):
        return f"{args} {kwargs}"
    parts = [_as_json(value) for value in positional]
    return ", ".join([*parts, *(f"{name}={_as_json(value)}" for name, value in named.items())])


def _as_json(value: Any) -> str:
    return MASKED if value == MASKED else json.dumps(value, ensure_ascii=False)
