"""Real object stores on 127.0.0.1, as fixtures.

`ministack`, `seaweedfs`, `fake_gcs` and `azurite` are servers, started when first asked for and
shared by the whole run. `ministack_storage`, … `file_storage`, `memory_storage` are entries for
Django's `STORAGES`, each with a place of its own in which there is nothing yet.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

import pytest

from tests.objectservers import (
    ENTRIES,
    Entry,
    azurite_launch,
    fake_gcs_launch,
    ministack_launch,
    seaweedfs_launch,
)
from tests.supervise import CannotStart, Launch, start_once, stop_all

OWNER: Final = "OBJQ_TEST_RUN"
"""Environment variable with the process id of the run, for its xdist workers."""


def skip_or_fail(reason: str) -> NoReturn:
    """Skip the test for something that this machine lacks; in CI, fail instead."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@dataclass(frozen=True)
class ObjectServer:
    """A running server. `entry` makes an entry of `STORAGES` for it, with a fresh prefix."""

    kind: str
    url: str

    def entry(self, url: str | None = None) -> Entry:
        """Return a new entry; `url` is that of a proxy in front of the server.

        Google's client takes the URL from the environment variable STORAGE_EMULATOR_HOST instead.
        """
        return ENTRIES[self.kind](url or self.url, f"test-{secrets.token_hex(6)}")


# --- fixtures ------------------------------------------------------------------------------------


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        os.environ[OWNER] = str(os.getpid())
    # django-storages 1.14 calls it in each AzureStorage; Python 3.12 has deprecated it.
    config.addinivalue_line(
        "filterwarnings",
        r"ignore:datetime.datetime.utcnow:DeprecationWarning:storages.backends.azure_storage",
    )


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the servers before the run ends; its workers are gone by now."""
    factory: pytest.TempPathFactory | None = getattr(config, "_tmp_path_factory", None)
    if hasattr(config, "workerinput") or factory is None or factory._basetemp is None:
        return
    stop_all(factory.getbasetemp() / "servers")


Prepare = Callable[[Path], Launch]


def _server(
    kind: str, prepare: Prepare, config: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> ObjectServer:
    folder = tmp_path_factory.getbasetemp()
    if hasattr(config, "workerinput"):
        folder = folder.parent  # shared by all workers of the run
    try:
        url = start_once(folder / "servers" / kind, int(os.environ[OWNER]), prepare)
    except CannotStart as exc:
        skip_or_fail(str(exc))
    return ObjectServer(kind, url)


@pytest.fixture(scope="session")
def ministack(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> ObjectServer:
    return _server("ministack", ministack_launch, pytestconfig, tmp_path_factory)


@pytest.fixture(scope="session")
def seaweedfs(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> ObjectServer:
    return _server("seaweedfs", seaweedfs_launch, pytestconfig, tmp_path_factory)


@pytest.fixture(scope="session")
def fake_gcs(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> ObjectServer:
    return _server("fake_gcs", fake_gcs_launch, pytestconfig, tmp_path_factory)


@pytest.fixture(scope="session")
def azurite(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> ObjectServer:
    return _server("azurite", azurite_launch, pytestconfig, tmp_path_factory)


@pytest.fixture
def ministack_storage(ministack: ObjectServer) -> Entry:
    return ministack.entry()


@pytest.fixture
def seaweedfs_storage(seaweedfs: ObjectServer) -> Entry:
    return seaweedfs.entry()


@pytest.fixture
def fake_gcs_storage(fake_gcs: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> Entry:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", fake_gcs.url)
    return fake_gcs.entry()


@pytest.fixture
def azurite_storage(azurite: ObjectServer) -> Entry:
    return azurite.entry()


@pytest.fixture
def file_storage(tmp_path: Path) -> Entry:
    options = {"location": str(tmp_path / "queue")}
    return {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": options}


@pytest.fixture
def memory_storage() -> Entry:
    return {"BACKEND": "django.core.files.storage.InMemoryStorage"}
