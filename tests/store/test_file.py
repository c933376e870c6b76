"""What only a folder has: locks, permissions, and processes that are killed while they write."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest
from django.core.files.storage import FileSystemStorage

from objq.store import file
from objq.store.base import (
    ABSENT,
    Ambiguous,
    Conflict,
    Content,
    Denied,
    StoreError,
    TooLarge,
    Unavailable,
)
from objq.store.file import FileStore, warn_if_shared


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "queue"


@pytest.fixture
def store(folder: Path) -> FileStore:
    return FileStore(FileSystemStorage(location=str(folder)), "queue.json")


def test_killed_in_the_middle_of_writes(folder: Path) -> None:
    """Sixteen writers, sixty kill -9: no acknowledged change is lost, no document is ever torn."""
    folder.mkdir()
    seed = random.randrange(1 << 32)
    command = [sys.executable, "-m", "tests.store.file_writers", str(folder), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, f"seed {seed}: {done.stdout}{done.stderr}"
    found = json.loads(done.stdout)
    assert found["kills"] == 60
    assert found["changes"] > 0
    assert found["files"] == ["queue.json", "queue.json.lock"]


def test_files_that_are_left(store: FileStore, folder: Path) -> None:
    tag = store.write(b"one", ABSENT)
    store.write(b"two", tag)
    probe = store.sibling(".probe-x")
    probe.write(b"probe", ABSENT)
    probe.delete()
    assert sorted(path.name for path in folder.iterdir()) == ["queue.json", "queue.json.lock"]


def test_temporary_file_of_a_killed_writer_is_reused(store: FileStore, folder: Path) -> None:
    folder.mkdir()
    (folder / "queue.json.tmp").write_bytes(b"half a docu" * 1000)
    tag = store.write(b"one", ABSENT)
    assert store.read() == Content(b"one", tag)
    assert not (folder / "queue.json.tmp").exists()


def test_tag_is_of_the_content(store: FileStore, folder: Path) -> None:
    """A change by hand that keeps size and times is noticed; one of the times alone is none."""
    tag = store.write(b"one", ABSENT)
    path = folder / "queue.json"
    before = path.stat()
    path.touch()
    assert store.read() == Content(b"one", tag)
    path.write_bytes(b"two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(Conflict):
        store.write(b"three", tag)


def test_folder_is_made_with_the_first_object_only(store: FileStore, folder: Path) -> None:
    assert store.read() is None
    assert not folder.exists()
    tag = store.write(b"one", ABSENT)
    (folder / "queue.json").unlink()
    (folder / "queue.json.lock").unlink()
    folder.rmdir()
    with pytest.raises(Conflict, match="folder"):
        store.write(b"two", tag)
    assert not folder.exists()


def test_permissions_of_the_storage(folder: Path) -> None:
    storage = FileSystemStorage(
        location=str(folder), file_permissions_mode=0o640, directory_permissions_mode=0o750
    )
    store = FileStore(storage, "queue.json")
    store.write(b"one", ABSENT)
    assert (folder / "queue.json").stat().st_mode & 0o777 == 0o640
    assert folder.stat().st_mode & 0o777 == 0o750


def test_lock_that_is_never_given_back(
    store: FileStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tag = store.write(b"one", ABSENT)
    monkeypatch.setattr(file, "LOCK_TIMEOUT_S", 0.05)
    with (folder / "queue.json.lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(Unavailable, match="has been locked"):
            store.write(b"two", tag)
        assert store.read() == Content(b"one", tag)
    store.write(b"two", tag)


def test_file_system_without_locks(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Django's stand-in where there is no `fcntl` reports that it has locked nothing."""
    monkeypatch.setattr(file, "LOCK_TIMEOUT_S", 0.0)
    monkeypatch.setattr("django.core.files.locks.lock", lambda descriptor, flags: False)
    with pytest.raises(Unavailable, match="does the file system not support locks"):
        store.write(b"one", ABSENT)
    assert store.read() is None


@pytest.mark.parametrize(
    ("number", "error"),
    [
        (errno.ENOSPC, Unavailable),
        (errno.EIO, Unavailable),
        (errno.EFBIG, TooLarge),
        (errno.EROFS, Denied),
    ],
)
@pytest.mark.parametrize("call", ["open", "replace"])
def test_failure_before_the_change_is_visible(
    store: FileStore,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    number: int,
    error: type[StoreError],
) -> None:
    tag = store.write(b"one", ABSENT)
    original = os.open

    def fail(path: object, *args: object) -> int:
        if call == "open" and not str(path).endswith(".tmp"):
            return original(path, *args)  # type: ignore[arg-type]
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(StoreError) as caught:
        store.write(b"two", tag)
    assert type(caught.value) is error
    monkeypatch.undo()
    assert store.read() == Content(b"one", tag)


def test_failure_after_the_change_is_visible(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    tag = store.write(b"one", ABSENT)

    def fail(path: Path) -> NoReturn:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(file, "sync_folder", fail)
    with pytest.raises(Ambiguous):
        store.write(b"two", tag)


def test_lock_that_cannot_be_let_go(store: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The change is made; what is left of the lock goes with the descriptor."""

    def fail(descriptor: int) -> NoReturn:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("django.core.files.locks.unlock", fail)
    tag = store.write(b"one", ABSENT)
    assert store.read() == Content(b"one", tag)
    store.write(b"two", tag)


@pytest.mark.parametrize("place", ["/proc/queue", "/dev/null/queue", "/dev/null"])
def test_folder_that_cannot_be_made(place: str) -> None:
    store = FileStore(FileSystemStorage(location=place), "queue.json", "objq")
    with pytest.raises(Denied, match=r"The folder .* cannot be made .*'objq' another location"):
        store.write(b"one", ABSENT)


def test_path_that_is_a_folder(store: FileStore, folder: Path) -> None:
    (folder / "queue.json").mkdir(parents=True)
    with pytest.raises(Unavailable, match=r"queue\.json"):
        store.read()


def test_an_object_behind_a_link_stays_one(store: FileStore, folder: Path, tmp_path: Path) -> None:
    tag = store.write(b"one", ABSENT)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "queue.json").symlink_to(folder / "queue.json")
    linked = FileStore(FileSystemStorage(location=str(elsewhere)), "queue.json")
    linked.write(b"two", tag)
    assert store.read() == linked.read()
    assert (folder / "queue.json").read_bytes() == b"two"
    assert (elsewhere / "queue.json").is_symlink()
    with pytest.raises(Conflict):
        store.write(b"three", tag)
    assert [path.name for path in elsewhere.iterdir()] == ["queue.json"], "the lock is one, too"


def test_link_in_place_of_the_temporary_file(store: FileStore, folder: Path) -> None:
    """Nobody who may write to the folder can have us write elsewhere."""
    folder.mkdir()
    (folder / "elsewhere").write_bytes(b"precious")
    (folder / "queue.json.tmp").symlink_to(folder / "elsewhere")
    with pytest.raises(Denied):
        store.write(b"one", ABSENT)
    assert (folder / "elsewhere").read_bytes() == b"precious"


@pytest.mark.parametrize(
    ("kind", "warned"),
    [("ext4", False), ("nfs4", True), ("cifs", True), ("fuse.sshfs", True), ("tmpfs", False)],
)
def test_warns_of_network_file_systems(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str, warned: bool
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"none / overlay rw 0 0\nserver:/x /mnt/our\\040files {kind} rw 0 0\n")
    warn_if_shared(Path("/mnt/our files/queue.json"), mounts)
    assert (f"is on a {kind} file system" in caplog.text) is warned
    caplog.clear()
    warn_if_shared(Path("/mnt/elsewhere/queue.json"), mounts)
    warn_if_shared(Path("/mnt/elsewhere/queue.json"), tmp_path / "no such file")
    assert not caplog.records
