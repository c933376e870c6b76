"""What the command line of a worker leaves open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from django.conf import settings

from objq.conf import options_for
from objq.core.ops import MAX_QUEUES, QueueName
from objq.errors import ConfigurationError
from objq.optionrules import did_you_mean

DEFAULT_CONCURRENCY: Final = 4
"""Whatever the machine: every job may hold a database connection, so this must not surprise."""


def queues_of(alias: str, named: Sequence[str]) -> tuple[QueueName, ...]:
    """Return the queues to work on: those named, or all that `QUEUES` of the backend lists.

    Raises ConfigurationError for a queue that nobody can push to, and for an unknown alias.
    """
    options_for(alias)
    known = list(settings.TASKS[alias].get("QUEUES", ["default"]))  # [] allows any name
    for name in named:
        if known and name not in known:
            hint = did_you_mean(name, known)
            if "," in name:
                hint = "Give --queue once for each queue."
            hint += " Or add it to QUEUES in the settings of this process."
            raise ConfigurationError(f'TASKS["{alias}"]["QUEUES"] has no {name!r}. {hint}')
    queues = tuple(dict.fromkeys(named or known or ["default"]))
    if len(queues) > MAX_QUEUES:
        raise ConfigurationError(
            f"{len(queues)} queues are more than one worker takes jobs from "
            f"({MAX_QUEUES}): name some with --queue."
        )
    return queues
