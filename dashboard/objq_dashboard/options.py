"""The setting OBJQ_DASHBOARD and its checks, `objq_dashboard.E###`.

======  ==========================================================================================
E001    OBJQ_DASHBOARD is not a dictionary
E002    an option that does not exist
E003    an option of the wrong type
======  ==========================================================================================
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.core.checks import CheckMessage, Error

if TYPE_CHECKING:
    from django.apps import AppConfig

SETTING: Final = "OBJQ_DASHBOARD"

MASK: Final = (
    *("password", "passwd", "passphrase", "pwd", "secret", "token", "credential", "authorization"),
    *("api_key", "access_key", "private_key", "session_key", "signing_key", "encryption_key"),
    *("cookie", "csrf", "jwt", "otp", "pin", "cvv", "cvc", "ssn", "iban", "card_number"),
)
"""What is masked when it stands in a name; see `objq_dashboard.masking`."""

ALL: Final = "*"
"""In the place of a name: everything is masked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardOptions:
    """`mask`: what is masked besides `MASK`. `mask_tasks`: the same by a task's path. Among either,
    `"*"` is everything. `sockets`: whether the site serves the socket; None: as this process does.
    """

    read_only: bool = False
    sockets: bool | None = None
    mask: tuple[str, ...] = ()
    mask_tasks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def options() -> DashboardOptions:
    """Return the setting. What is wrong in it, which the checks report, forbids and masks: whoever
    wrote something that cannot be read may have meant to."""
    raw = getattr(settings, SETTING, {})
    if not isinstance(raw, Mapping):
        return DashboardOptions(read_only=True, mask=(ALL,))
    mask, tasks = raw.get("MASK", ()), raw.get("MASK_TASKS", {})
    if isinstance(mask, str):
        mask = (mask,)
    names = _names(mask)
    if names is None or not isinstance(tasks, Mapping):
        names = (ALL,)
    sockets = raw.get("SOCKETS")
    return DashboardOptions(
        read_only=raw.get("READ_ONLY", False) is not False,
        sockets=sockets if isinstance(sockets, bool) else None,
        mask=names,
        mask_tasks={
            task: _names(own) or (ALL,)
            for task, own in (tasks.items() if isinstance(tasks, Mapping) else ())
        },
    )


def check_setting(
    app_configs: Sequence[AppConfig] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    return list(_problems(getattr(settings, SETTING, {})))


def _problems(raw: object) -> Iterator[CheckMessage]:
    if not isinstance(raw, Mapping):
        yield Error(
            f"{SETTING} is not a dictionary.", hint="Write {...}.", id="objq_dashboard.E001"
        )
        return
    for key, value in raw.items():
        if key not in EXPECTED:
            yield Error(
                f"{SETTING} has an unknown option {key!r}.",
                hint=_did_you_mean(key),
                id="objq_dashboard.E002",
            )
        elif not _fits(key, value):
            yield Error(
                f"{SETTING}[{key!r}] is {value!r}.",
                hint=f"It is {EXPECTED[key]}.",
                id="objq_dashboard.E003",
            )


EXPECTED: Final = {
    "READ_ONLY": "True or False",
    "SOCKETS": "True or False",
    "MASK": 'a list of names, or of "*" for all, such as ["iban"]',
    "MASK_TASKS": 'a list of names, or of "*" for all, by task: {"shop.tasks.pay": ["account"]}',
}


def _fits(key: str, value: object) -> bool:
    if key in ("READ_ONLY", "SOCKETS"):
        return isinstance(value, bool)
    if key == "MASK":
        return _names(value) is not None
    return isinstance(value, Mapping) and all(
        isinstance(task, str) and _names(names) is not None for task, names in value.items()
    )


def _names(value: object) -> tuple[str, ...] | None:
    if isinstance(value, str) or not isinstance(value, Sequence | set | frozenset):
        return None
    names = tuple(value)
    return names if all(isinstance(name, str) and name for name in names) else None


def _did_you_mean(key: object) -> str:
    near = difflib.get_close_matches(str(key).upper(), EXPECTED, n=1)
    return f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(EXPECTED)}."
