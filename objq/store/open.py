"""From an alias in Django's `STORAGES` to a store."""

from __future__ import annotations

import sys
from collections.abc import Callable
from inspect import Parameter, signature
from typing import Final, NamedTuple

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured, SuspiciousOperation
from django.core.files.storage import InvalidStorageError, Storage, storages
from django.utils.module_loading import import_string

from objq.errors import ConfigurationError
from objq.store.base import Store


class Adapter(NamedTuple):
    """Which store is for which storage class; the extra brings what the class needs."""

    storage: str
    store: str
    extra: str


ADAPTERS: Final = (
    Adapter("storages.backends.s3.S3Storage", "objq.store.s3.S3Store", "s3"),
    Adapter("storages.backends.gcloud.GoogleCloudStorage", "objq.store.gcs.GcsStore", "google"),
    Adapter("storages.backends.azure_storage.AzureStorage", "objq.store.azure.AzureStore", "azure"),
    Adapter("django.core.files.storage.FileSystemStorage", "objq.store.file.FileStore", ""),
    Adapter("django.core.files.storage.InMemoryStorage", "objq.store.memory.MemoryStore", ""),
)


CANNOT: Final = tuple(
    f"storages.backends.{module}."
    for module in ("apache_libcloud", "dropbox", "ftp", "sftpstorage")
)
"""The rest of django-storages: they cannot write conditionally, whether their library is there."""


def open_store(storage_alias: str, name: str) -> Store:
    """Return the store for the object `name` in the storage `storage_alias` of `STORAGES`.

    Asks the storage nothing yet. Raises ConfigurationError if the alias is not configured, its
    storage cannot be built, or its class is none that objq can write conditionally through.
    """
    storage = _storage(storage_alias)
    adapter = _adapter(storage)
    if adapter is None:
        raise _unsupported(storage_alias, _path(type(storage)))
    if not name or name.endswith("/"):
        raise ConfigurationError(f"NAME must name an object, such as 'queue.json', not {name!r}.")
    store_class: Callable[[Storage, str, str], Store] = import_string(adapter.store)
    try:
        return store_class(storage, name, storage_alias)
    except SuspiciousOperation as exc:
        raise ConfigurationError(
            f"NAME {name!r} is outside the location of STORAGES[{storage_alias!r}]: {exc}"
        ) from exc
    except (ImproperlyConfigured, TypeError) as exc:  # what a class looks at only when it is used
        raise _unusable(storage_alias, exc) from exc


def supported() -> list[str]:
    """Return the dotted paths of the storage classes that `open_store` accepts."""
    return [adapter.storage for adapter in ADAPTERS]


def _storage(alias: str) -> Storage:
    backend = str(settings.STORAGES.get(alias, {}).get("BACKEND", ""))
    if backend.startswith(CANNOT):
        raise _unsupported(alias, backend)
    try:
        return storages[alias]
    except TypeError as exc:
        raise _unusable(alias, exc, _options_of(backend)) from exc
    except ValueError as exc:
        raise _unusable(alias, exc) from exc
    except (InvalidStorageError, ImproperlyConfigured, ImportError) as exc:
        raise _unusable(alias, exc, _library_of(backend)) from exc


def _unsupported(alias: str, path: str) -> ConfigurationError:
    return ConfigurationError(
        f"STORAGES[{alias!r}] is a {path}, through which objq cannot write conditionally. "
        f"Use one of: {', '.join(supported())}, or a subclass of one."
    )


def _unusable(alias: str, exc: Exception, fix: str = "Look at its OPTIONS.") -> ConfigurationError:
    why = str(exc).rstrip(".")
    return ConfigurationError(f"STORAGES[{alias!r}] cannot be opened: {why}. {fix}")


def _options_of(backend: str) -> str:
    """Return a sentence with the options that the class takes."""
    try:
        _, *parameters = signature(import_string(backend).__init__).parameters.values()
    except (ImportError, TypeError, ValueError):
        return "Look at its OPTIONS."
    gathering = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    named = [each.name for each in parameters if each.kind not in gathering]
    return f"Its OPTIONS may be: {', '.join(named)}."


def _library_of(backend: str) -> str:
    """Return a sentence with the extra that brings the class's library, or all of them."""
    extras = [adapter.extra for adapter in ADAPTERS if adapter.extra]
    mine = [adapter.extra for adapter in ADAPTERS if adapter.storage == backend]
    listed = ", ".join(f"objq[{extra}]" for extra in mine or extras)
    return (
        f"If the library of the store is not installed, install the extra that brings it: {listed}."
    )


def _adapter(storage: Storage) -> Adapter | None:
    for adapter in ADAPTERS:
        # An instance can exist only if its class's module has been imported; importing it here
        # would need every extra.
        module_name, _, class_name = adapter.storage.rpartition(".")
        module = sys.modules.get(module_name)
        if module is not None and isinstance(storage, getattr(module, class_name)):
            return adapter
    return None


def _path(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
