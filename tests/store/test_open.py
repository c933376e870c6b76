"""Which store is opened for an entry of `STORAGES`, and what is said when none can be."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from django.core.files.storage import FileSystemStorage, Storage

from objq.errors import ConfigurationError
from objq.store.file import FileStore
from objq.store.memory import MemoryStore
from tests.objectservers import Entry, azure_entry, gcs_entry, s3_entry
from tests.store.conftest import open_entry

URL = "http://127.0.0.1:9"


class OurStorage(FileSystemStorage):
    """A project's own subclass."""


class OtherStorage(Storage):
    """A class that objq knows nothing of."""


def test_names(tmp_path: Path) -> None:
    folder = {"BACKEND": "tests.store.test_open.OurStorage", "OPTIONS": {"location": tmp_path}}
    store = open_entry(folder, "deep/queue.json")
    assert isinstance(store, FileStore)
    assert store.name == f"file://{tmp_path}/deep/queue.json"
    memory = open_entry({"BACKEND": "django.core.files.storage.InMemoryStorage"})
    assert isinstance(memory, MemoryStore)
    assert memory.name == "memory://objq/queue.json"


@pytest.mark.parametrize(
    ("entry", "name", "pace_s"),
    [
        (s3_entry(URL, "a/b"), "s3://objq-test/a/b/queue.json", 0.0),
        (s3_entry("https://x.r2.cloudflarestorage.com", ""), "s3://objq-test/queue.json", 1.0),
        (gcs_entry(URL, "a/b"), "gs://objq-test/a/b/queue.json", 1.0),
        (azure_entry(URL, "a/b"), "azure://devstoreaccount1/objq-test/a/b/queue.json", 0.0),
    ],
    ids=["s3", "r2", "gcs", "azure"],
)
def test_location_is_part_of_the_name(entry: Entry, name: str, pace_s: float) -> None:
    store = open_entry(entry)
    assert store.name == name
    assert store.pace_s == pace_s
    assert store.sibling(".x").name == f"{name}.x"
    store.close()


def test_unknown_class_is_named_with_the_supported_ones() -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_entry({"BACKEND": "tests.store.test_open.OtherStorage"})
    message = caught.value.message
    assert "STORAGES['objq'] is a tests.store.test_open.OtherStorage" in message
    assert "storages.backends.s3.S3Storage" in message
    assert "django.core.files.storage.FileSystemStorage" in message


@pytest.mark.parametrize("backend", ["no.such.Storage", "storages.backends.nothing.Storage"])
def test_class_that_cannot_be_imported(backend: str) -> None:
    with pytest.raises(ConfigurationError, match=r"install the extra.*objq\[s3\]"):
        open_entry({"BACKEND": backend})


@pytest.mark.parametrize(
    "backend",
    ["storages.backends.dropbox.DropboxStorage", "storages.backends.sftpstorage.SFTPStorage"],
)
def test_class_that_cannot_work_is_told_so_although_its_library_is_missing(backend: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_entry({"BACKEND": backend})
    message = caught.value.message
    assert message.startswith(f"STORAGES['objq'] is a {backend}, through which objq cannot write")
    assert "storages.backends.s3.S3Storage" in message


def test_option_that_is_misspelt_is_answered_with_those_that_there_are() -> None:
    folder = "django.core.files.storage.FileSystemStorage"
    with pytest.raises(ConfigurationError, match=r"'objq'.*locaton.*may be: location, base_url"):
        open_entry({"BACKEND": folder, "OPTIONS": {"locaton": "/srv"}})


def test_location_that_is_none() -> None:
    folder = "django.core.files.storage.FileSystemStorage"
    with pytest.raises(ConfigurationError, match=r"STORAGES\['objq'\].* Look at its OPTIONS"):
        open_entry({"BACKEND": folder, "OPTIONS": {"location": 7}})


def test_alias_that_is_not_configured() -> None:
    from objq.store import open_store

    with pytest.raises(ConfigurationError, match=r"STORAGES\['nothing'\]"):
        open_store("nothing", "queue.json")


@pytest.mark.parametrize("name", ["", "folder/"])
def test_name_that_is_none(name: str) -> None:
    with pytest.raises(ConfigurationError, match="NAME must name an object"):
        open_entry({"BACKEND": "django.core.files.storage.InMemoryStorage"}, name)


@pytest.mark.parametrize("entry", [s3_entry(URL, "a"), gcs_entry(URL, "a"), azure_entry(URL, "a")])
def test_name_outside_of_the_location(entry: Entry) -> None:
    with pytest.raises(ConfigurationError, match="outside the location"):
        open_entry(entry, "../queue.json")


@pytest.mark.parametrize(
    ("entry", "option"),
    [
        (s3_entry(URL, ""), "bucket_name"),
        (gcs_entry(URL, ""), "bucket_name"),
        (azure_entry(URL, ""), "azure_container"),
    ],
)
def test_bucket_that_is_not_configured(entry: Entry, option: str) -> None:
    entry["OPTIONS"].pop(option)
    with pytest.raises(ConfigurationError, match=option):
        open_entry(entry)


def test_extra_that_is_not_installed_breaks_no_other_store(tmp_path: Path) -> None:
    """In a process of its own, in which no SDK can be imported."""
    script = f"""
import sys
for name in ("boto3", "botocore", "google.cloud", "google.auth", "azure", "azure.core"):
    sys.modules[name] = None
from django.conf import settings
entry = {{"BACKEND": "django.core.files.storage.FileSystemStorage",
         "OPTIONS": {{"location": {str(tmp_path)!r}}}}}
s3 = {{"BACKEND": "storages.backends.s3.S3Storage"}}
azure = {{"BACKEND": "storages.backends.azure_storage.AzureStorage"}}
gcs = {{"BACKEND": "storages.backends.gcloud.GoogleCloudStorage"}}
settings.configure(STORAGES={{"objq": entry, "s3": s3, "azure": azure, "gcs": gcs}})
from objq.errors import ConfigurationError
from objq.store import open_store
print(type(open_store("objq", "queue.json")).__name__)
for alias, extra in (("s3", "s3"), ("azure", "azure"), ("gcs", "google")):
    try:
        open_store(alias, "queue.json")
    except ConfigurationError as exc:
        print(exc.message.endswith(f"the extra that brings it: objq[{{extra}}]."))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["FileStore", "True", "True", "True"]
