"""What the positional arguments of a task are called, as far as that may be found out."""

from __future__ import annotations

import inspect
import sys
from functools import lru_cache
from typing import Final, NamedTuple

from objq.finding import ForeignModule, find_task


class Parameters(NamedTuple):
    """`rest`: the name of what takes all further positional arguments."""

    names: tuple[str, ...] = ()
    rest: str = ""

    def name_at(self, index: int) -> str:
        return self.names[index] if index < len(self.names) else self.rest


UNKNOWN: Final = Parameters()


def parameters_of(path: str) -> Parameters:
    """Return the positional parameters of the task at a dotted path; UNKNOWN if it is not found."""
    try:
        return _look_up(path)
    except ForeignModule:  # not remembered: its module may be imported by others later
        return UNKNOWN


@lru_cache(maxsize=1024)
def _look_up(path: str) -> Parameters:
    """Look once: what cannot be imported would run again for each job that is shown."""
    module = path.rpartition(".")[0]
    if module not in sys.modules and "tasks" not in module.split("."):
        raise ForeignModule("To look at a job is no reason to import just anything.")
    try:
        task = find_task(path)
        found = inspect.signature(task.func).parameters.values()
    except ForeignModule:
        raise
    except (Exception, SystemExit):  # anything that a module can raise on its import
        return UNKNOWN
    names = [p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in found if p.kind is p.VAR_POSITIONAL), "")
    return Parameters(tuple(names[1:] if task.takes_context else names), rest)
