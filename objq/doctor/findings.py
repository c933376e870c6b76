"""What a check has found, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec
from msgspec import Struct

Level = Literal["ok", "skipped", "warning", "problem"]

LABELS: Final[dict[Level, str]] = {
    "ok": "ok",
    "skipped": "skipped",
    "warning": "WARNING",
    "problem": "PROBLEM",
}


class Finding(Struct, frozen=True):
    """One line of the report. `advice`: what to do, for a warning or a problem."""

    check: str
    level: Level
    message: str
    advice: str = ""


def ok(check: str, message: str) -> Finding:
    return Finding(check, "ok", message)


def skipped(check: str, why: str) -> Finding:
    return Finding(check, "skipped", why)


def warning(check: str, message: str, advice: str = "") -> Finding:
    return Finding(check, "warning", message, advice)


def problem(check: str, message: str, advice: str = "") -> Finding:
    return Finding(check, "problem", message, advice)


def as_line(finding: Finding) -> str:
    """Return the finding in one line for people."""
    text = " ".join(f"{finding.message} {finding.advice}".split())
    return f"{LABELS[finding.level]:<8} {finding.check:<12} {text}"


def as_json(findings: Iterable[Finding]) -> str:
    """Return all findings as one JSON object; `healthy` is False if there is a problem."""
    listed = list(findings)
    report = {"healthy": not any(each.level == "problem" for each in listed), "findings": listed}
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode()
