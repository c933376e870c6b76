"""The settings of the project: which backends of `TASKS` are objq's, and their options.

Settings are read when somebody asks, never at import, and nothing here does I/O.
"""

from __future__ import annotations

from typing import Final

from objq.errors import ConfigurationError
from objq.optionrules import did_you_mean, parse
from objq.options import Options

BACKEND: Final = "objq.backend.ObjqBackend"

NOT_USED: Final = (
    f'No backend in TASKS is objq\'s. Write TASKS = {{"default": {{"BACKEND": "{BACKEND}", '
    '"OPTIONS": {"STORAGE": "objq"}}}, where "objq" is an alias in STORAGES.'
)
"""Also where there is no `TASKS` at all: Django has a default, which runs tasks at once."""


def options_for(alias: str = "default") -> Options:
    """Return the options of `TASKS[alias]`; raise ConfigurationError if absent or wrong."""
    from django.conf import settings

    tasks = getattr(settings, "TASKS", {})
    if alias not in tasks:
        if not backend_aliases():
            raise ConfigurationError(NOT_USED)
        raise ConfigurationError(f'TASKS has no "{alias}". {did_you_mean(alias, tasks)}')
    params = tasks[alias]
    try:
        return parse(params.get("OPTIONS", {}), alias=alias, beside=params)
    except ConfigurationError:
        # Options of another backend are not ours to find fault with.
        if _is_ours(params.get("BACKEND", "")):
            raise
        ours = backend_aliases()
        if not ours:
            raise ConfigurationError(NOT_USED) from None
        raise ConfigurationError(
            f'TASKS["{alias}"] is not objq\'s. These are: {", ".join(ours)}.'
        ) from None


def backend_aliases() -> tuple[str, ...]:
    """Return the aliases in `TASKS` that objq serves, also through a subclass of its backend."""
    from django.conf import settings

    tasks = getattr(settings, "TASKS", {})
    return tuple(alias for alias, params in tasks.items() if _is_ours(params.get("BACKEND", "")))


def _is_ours(path: str) -> bool:
    if path == BACKEND:
        return True
    from django.utils.module_loading import import_string

    try:
        cls = import_string(path)
    except ImportError:
        return False
    # By name, since this module is below the backend and must not import it.
    return any(f"{base.__module__}.{base.__qualname__}" == BACKEND for base in cls.__mro__)
