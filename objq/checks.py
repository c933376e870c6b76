"""System checks, `objq.E###` and `objq.W###`. None of them goes to the network: `objq_doctor` does.

======  ==========================================================================================
E001    an option or key that does not exist, or stands in the wrong place
E002    an option of the wrong type
E003    an option out of its range
E004    options that contradict each other
E005    STORAGE is missing, or stands beside OPTIONS
E006    STORAGE names no alias of STORAGES
E007    the storage cannot be used: its class, its configuration or a missing library
E008    `django_tasks` is not in INSTALLED_APPS (Django 5.2)
E009    `objq` is not in INSTALLED_APPS
E010    QUEUES does not fit
W001    `django_tasks` is in INSTALLED_APPS although Django has `django.tasks`
W002    a storage in memory, which other processes cannot see, with MODE "broker"
W003    a package that `runbroker` needs is not installed
W004    a folder that the site serves, or that was left to chance
======  ==========================================================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from django.apps import AppConfig, apps
from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning  # noqa: A004 - the name that Django gives it
from django.core.files.storage import FileSystemStorage, InMemoryStorage, storages

from objq.compat import NATIVE
from objq.conf import backend_aliases
from objq.core.ops import QUEUE_NAMES, is_queue_name
from objq.errors import ConfigurationError
from objq.optionrules import did_you_mean, find_problems, parse
from objq.options import Options
from objq.store.open import open_store

SERVER_PACKAGES: Final = ("channels", "daphne")


def check_backend(alias: str, params: Mapping[str, Any]) -> Iterator[CheckMessage]:
    """Check one entry of `TASKS`."""
    where = f'TASKS["{alias}"]'
    if not apps.is_installed("objq"):
        hint = 'Add "objq" to INSTALLED_APPS; runbroker and objq_worker come with it.'
        yield Error(
            f"{where} uses objq, which is not installed as an app.", hint=hint, id="objq.E009"
        )
    yield from check_options(alias, params)
    if not find_problems(params.get("OPTIONS", {}), params):
        yield from _check_storage(where, parse(params.get("OPTIONS", {}), alias=alias))


def check_options(alias: str, params: Mapping[str, Any]) -> Iterator[CheckMessage]:
    """Check the options by themselves."""
    where = f'TASKS["{alias}"]'
    raw = params.get("OPTIONS", {})
    problems = find_problems(raw, params)
    for problem in problems:
        yield Error(f"{where}: {problem.message}", hint=problem.hint, id=f"objq.{problem.check}")
    if not problems:
        options = parse(raw, alias=alias)
        yield from _check_queues(where, params.get("QUEUES", []), options)


def check_installation(
    app_configs: Sequence[AppConfig] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """Check what concerns the whole project."""
    found: list[CheckMessage] = []
    aliases = backend_aliases()
    if not aliases:
        return found
    if not NATIVE and not apps.is_installed("django_tasks"):
        hint = 'Add "django_tasks" to INSTALLED_APPS: this Django has no django.tasks of its own.'
        found.append(Error("django_tasks is not installed as an app.", hint=hint, id="objq.E008"))
    if NATIVE and apps.is_installed("django_tasks"):
        message = "django_tasks is installed beside Django's own django.tasks."
        hint = "Remove it: tasks that are made with it are not known to objq, which uses Django's."
        found.append(Warning(message, hint=hint, id="objq.W001"))
    if any(_mode(alias) == "broker" for alias in aliases):
        for package in SERVER_PACKAGES:
            if find_spec(package) is None:
                message = f"The package {package} is missing, so runbroker cannot start here."
                hint = f"pip install {package}"
                found.append(Warning(message, hint=hint, id="objq.W003"))
    return found


def _mode(alias: str) -> object:
    options = settings.TASKS[alias].get("OPTIONS", {})
    return options.get("MODE", "broker") if isinstance(options, Mapping) else None


def _check_queues(where: str, queues: object, options: Options) -> Iterator[CheckMessage]:
    if isinstance(queues, str) or not isinstance(queues, Sequence | set | frozenset):
        hint = 'Write ["default"], for example.'
        yield Error(f"{where}: QUEUES is {queues!r}, not a list.", hint=hint, id="objq.E010")
        return
    for name in queues:
        if not is_queue_name(name):
            message = f"{where}: {name!r} in QUEUES is not a queue name."
            hint = f"A name is text of {QUEUE_NAMES}."
            yield Error(message, hint=hint, id="objq.E010")
    if len(queues) > options.max_queues:
        message = f"{where}: QUEUES has {len(queues)} names, MAX_QUEUES is {options.max_queues}."
        yield Error(message, hint="Raise MAX_QUEUES or use fewer.", id="objq.E010")


def _check_storage(where: str, options: Options) -> Iterator[CheckMessage]:
    alias = options.storage
    if alias not in settings.STORAGES:
        message = f"{where}: STORAGE = {alias!r}, but STORAGES has no such alias."
        hint = did_you_mean(alias, settings.STORAGES)
        yield Error(message, hint=hint, id="objq.E006")
        return
    try:
        open_store(alias, options.name).close()
    except ConfigurationError as error:
        yield Error(f"{where}: {error.message}", id="objq.E007")
        return
    storage = storages[alias]
    if isinstance(storage, FileSystemStorage) and (place := _bad_place(storage)):
        message = f"{where}: the folder of the storage {alias!r}, {storage.location}, is {place}."
        hint = (
            'Give it an absolute "location" of its own, in which nothing is served: queue.json '
            "holds the arguments of your jobs."
        )
        yield Warning(message, hint=hint, id="objq.W004")
    if isinstance(storage, InMemoryStorage) and options.mode == "broker":
        message = f"{where}: the storage {alias!r} is in memory, which other processes cannot see."
        hint = 'Use a bucket or folder, or MODE = "direct" where one process does everything.'
        yield Warning(message, hint=hint, id="objq.W002")


def _bad_place(storage: FileSystemStorage) -> str:
    """Return why nothing private may lie in the storage's folder; empty if there is no reason."""
    folder = Path(storage.location)
    for setting in ("MEDIA_ROOT", "STATIC_ROOT"):
        root = getattr(settings, setting)
        if root and folder.is_relative_to(Path(root).absolute()):
            return f"{setting} or inside it, which the site serves"
    # A storage that has no location of its own takes MEDIA_ROOT's, be it empty.
    if not Path(storage.base_location).is_absolute():
        return "relative to where the process was started, which may differ between processes"
    return ""
