"""From the path that a job names to its task, and what stands for a task that is not found here.

Whoever may push chooses the path, and importing a module runs it. So a module that this process has
not imported is imported for a job's sake only if an installed app has it, or the package of the
settings.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from typing import Any

from django.apps import apps
from django.conf import ENVIRONMENT_VARIABLE

from objq.compat import Task


class NotATask(TypeError):
    """The path that a job names leads to something else than a task."""


class TaskMissing(ImportError):
    """The module that a job names is not there, or defines no such name: it may be newer code."""


class ForeignModule(ImportError):
    """The module that a job names is not the project's, so it is not imported for a job's sake."""


def find_task(path: str) -> Task[..., Any]:
    """Return the task that `path` names; raise TaskMissing, ForeignModule, or NotATask.

    Call this where an error does no harm beyond the job: whatever its module raises on import comes
    out of here too, SystemExit as well.
    """
    module_path, _, name = path.rpartition(".")
    if module_path not in sys.modules and not _may_import(module_path):
        raise ForeignModule(
            f"{path!r} is not looked for: its module is not imported in this process, and is not a "
            "public one (no _ before its name) of an app in INSTALLED_APPS or of the package of "
            "the settings. If it holds tasks of yours, add its package to INSTALLED_APPS or import "
            "it in an AppConfig.ready()."
        )
    try:
        module = import_module(module_path)  # also to wait where another thread is about to
    except ModuleNotFoundError as error:
        # Not where the module is there and imports another that is not.
        if error.name is None or not f"{module_path}.".startswith(f"{error.name}."):
            raise
        raise TaskMissing(f"There is no module {error.name!r}", name=error.name) from error
    # Not getattr: a module may import others for a name that it is asked for.
    if name not in vars(module):
        raise TaskMissing(f"Module {module_path!r} defines no {name!r}", name=module_path)
    found = vars(module)[name]
    if not isinstance(found, Task):
        raise NotATask(f"{path!r} is {type(found).__name__}, not a task. Decorate it with @task.")
    return found


def missing_task(path: str, cause: BaseException) -> Task[..., Any]:
    """Return a stand-in for a task that this process cannot import, so its result can be read."""

    def stand_in(*args: object, **kwargs: object) -> None:
        raise ImportError(f"Task {path!r} cannot be imported here: {cause}") from cause

    stand_in.__module__, _, stand_in.__name__ = path.rpartition(".")
    stand_in.__qualname__ = stand_in.__name__
    nothing = dict.fromkeys(f.name for f in fields(Task))
    return unchecked(Task, {**nothing, "func": stand_in, "takes_context": False})


def unchecked(cls: type[Task[..., Any]], values: Mapping[str, Any]) -> Task[..., Any]:
    """Return a task with these fields; the constructor would validate against today's settings."""
    task = object.__new__(cls)
    for name, value in values.items():
        object.__setattr__(task, name, value)
    return task


def _may_import(module_path: str) -> bool:
    """Tell whether a module lies in an installed app, or in the package that has the settings.

    No module with an underscore before its name does: `__main__` of an app is a program, which may
    well run when it is imported.
    """
    parts = module_path.split(".")
    if not all(part.isidentifier() and not part.startswith("_") for part in parts):
        return False
    packages = [config.name for config in apps.get_app_configs()]
    package, dot, _ = os.environ.get(ENVIRONMENT_VARIABLE, "").partition(".")
    if dot:
        packages.append(package)
    return any(f"{module_path}.".startswith(f"{package}.") for package in packages)
