"""Are the settings such that a queue can work? What `manage.py check` says of objq."""

from __future__ import annotations

from collections.abc import Iterator

from django.core.checks import CheckMessage, run_checks
from django.core.checks.messages import ERROR, WARNING

from objq.doctor.findings import Finding, ok, problem, warning
from objq.options import Options

NAME = "settings"


def check_settings(alias: str, options: Options) -> Iterator[Finding]:
    found = [message for message in run_checks() if _is_ours(message)]
    for message in found:
        make = problem if message.level >= ERROR else warning
        yield make(NAME, f"{message.id}: {message.msg}", message.hint or "")
    if not any(message.level >= WARNING for message in found):
        where = f'TASKS["{alias}"] uses STORAGES["{options.storage}"], MODE is "{options.mode}"'
        yield ok(NAME, f"{where}, and Django's checks have nothing against it.")


def _is_ours(message: CheckMessage) -> bool:
    return str(message.id).startswith("objq.")
