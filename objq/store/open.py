"""From an alias in Django's `STORAGES` to a store."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final, NamedTuple

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


def open_store(storage_alias: str, name: str) -> Store:
    """Return the store for the object `name` in the storage `storage_alias` of `STORAGES`.

    Asks the storage nothing yet. Raises ConfigurationError if the alias is not configured, its
    storage cannot be built, or its class is none that objq can write conditionally through.
    """
    storage = _storage(storage_alias)
    adapter = _adapter(storage)
    if adapter is None:
        raise ConfigurationError(
            f"STORAGES[{storage_alias!r}] is a {_path(type(storage))}, through which objq cannot "
            f"write conditionally. Use one of: {', '.join(supported())}, or a subclass of one."
        )
    if not name or name.endswith("/"):
        raise ConfigurationError(f"NAME must name an object, such as 'queue.json', not {name!r}.")
    store_class: Callable[[Storage, str, str], Store] = import_string(adapter.store)
    try:
        return store_class(storage, name, storage_alias)
    except SuspiciousOperation as exc:
        raise ConfigurationError(
            f"NAME {name!r} is outside the location of STORAGES[{storage_alias!r}]: {exc}"
        ) from exc


def supported() -> list[str]:
    """Return the dotted paths of the storage classes that `open_store` accepts."""
    return [adapter.storage for adapter in ADAPTERS]


def _storage(alias: str) -> Storage:
    try:
        return storages[alias]
    except (InvalidStorageError, ImproperlyConfigured, ImportError) as exc:
        extras = ", ".join(f"objq[{adapter.extra}]" for adapter in ADAPTERS if adapter.extra)
        raise ConfigurationError(
            f"STORAGES[{alias!r}] cannot be opened: {exc} If the library of the store is not "
            f"installed, install the extra that brings it: {extras}."
        ) from exc


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
