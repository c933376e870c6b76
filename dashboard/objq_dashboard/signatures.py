"""What the positional arguments of a task are called, as far as that may be found out.

A job's task path is whatever somebody pushed. So nothing is imported for it but a module of an app
that this site has installed, and nothing is looked at but an object that is a task.
"""

from __future__ import annotations

import inspect
import sys
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any, Final, NamedTuple

from django.apps import apps

TASK_CLASSES: Final = {"django.tasks.base.Task", "django_tasks.base.Task"}


class Parameters(NamedTuple):
    """`rest`: the name of what takes all further positional arguments."""

    names: tuple[str, ...] = ()
    rest: str = ""

    def name_at(self, index: int) -> str:
        return self.names[index] if index < len(self.names) else self.rest


NONE: Final = Parameters()


def parameters_of(path: str) -> Parameters:
    """Return the positional parameters of the task at a dotted path; none if it is not known."""
    module_name, _, name = path.rpartition(".")
    module = sys.modules.get(module_name) or _import(module_name)
    task: Any = vars(module).get(name) if isinstance(module, ModuleType) else None
    if not _is_task(task):
        return NONE
    try:
        found = inspect.signature(task.func).parameters.values()
    except (TypeError, ValueError):
        return NONE
    names = [p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in found if p.kind is p.VAR_POSITIONAL), "")
    return Parameters(tuple(names[1:] if task.takes_context else names), rest)


def _is_task(found: Any) -> bool:
    return any(
        f"{cls.__module__}.{cls.__qualname__}" in TASK_CLASSES for cls in type(found).__mro__
    )


@lru_cache(maxsize=1024)
def _import(name: str) -> ModuleType | None:
    """Import a module of an installed app; any other is not looked for. Remembers failures."""
    if not any(name.startswith(f"{app.name}.") for app in apps.get_app_configs()):
        return None
    try:
        return import_module(name)
    except Exception:
        return None
