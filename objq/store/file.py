"""A folder of this machine (`FileSystemStorage`).

A write takes an exclusive lock on a lock file that is never deleted, compares, writes a temporary
file of a fixed name, makes it durable, and renames it over the object. A crash at any instant
leaves the old or the new object, whole, and at most the one temporary file, which the next write
reuses. Readers need no lock: an open file keeps its version.

The tag is a digest of the content. Times and inode numbers repeat, and a digest does not.
"""

from __future__ import annotations

import errno
import logging
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Final

from django.core.files import locks
from django.core.files.storage import FileSystemStorage

from objq.core.codec import HEAD_BYTES
from objq.store.base import (
    ABSENT,
    NOT_MODIFIED,
    Ambiguous,
    Conflict,
    Content,
    Denied,
    Expect,
    Sentinel,
    StoreError,
    Tag,
    TooLarge,
    Unavailable,
)

logger = logging.getLogger("objq.store")

LOCK_TIMEOUT_S: Final = 10.0
"""A holder that was stopped in the middle of a write must not stop everybody else for good."""
LOCK_RETRY_S: Final = 0.005

REFUSED: Final = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP)
NO_FOLDER: Final = (*REFUSED, errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG)

UNSAFE_FILE_SYSTEMS: Final = ("nfs", "cifs", "smb", "fuse", "9p", "ceph", "gluster")


class FileStore:
    pace_s = 0.0

    def __init__(
        self,
        storage: FileSystemStorage,
        name: str,
        alias: str = "",
        lock_path: Path | None = None,
    ) -> None:
        self._storage = storage
        self._key = name
        self._alias = alias
        # Through links: the object would else take the place of a link, and be another one.
        self._path = Path(os.path.realpath(storage.path(name)))
        self._temporary_path = self._path.with_name(self._path.name + ".tmp")
        self._lock_path = lock_path or self._path.with_name(self._path.name + ".lock")
        self.name = self._path.as_uri()
        if lock_path is None:
            warn_if_shared(self._path)

    def read(self, unless: Tag | None = None) -> Content | Sentinel | None:
        content = self._read()
        if content is not None and content.tag == unless:
            return NOT_MODIFIED
        return content

    def read_head(self) -> Content | None:
        # The tag is of the whole content, so the whole content is read.
        content = self._read()
        return content and content._replace(data=content.data[:HEAD_BYTES])

    def write(self, data: bytes, expect: Expect) -> Tag:
        if expect is ABSENT:
            self._make_folder()
        with self._locked():
            content = self._read()
            found = ABSENT if content is None else content.tag
            if found != expect:
                raise Conflict(f"{self.name} has changed since it was read.")
            self._replace(data)
        return tag_of(data)

    def sibling(self, suffix: str) -> FileStore:
        # With the same lock file: a probe must not leave one behind for each of its names.
        return FileStore(self._storage, self._key + suffix, self._alias, self._lock_path)

    def delete(self) -> None:
        with self._locked():
            for path in (self._temporary_path, self._path):
                try:
                    path.unlink(missing_ok=True)
                except OSError as exc:
                    raise self._refused(exc) from exc

    def close(self) -> None:
        pass

    def _read(self) -> Content | None:
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise self._refused(exc) from exc
        return Content(data, tag_of(data))

    def _replace(self, data: bytes) -> None:
        """Make `data` the content; the caller holds the lock.

        Until the rename nothing is visible, so a failure there is certain. A failure after it is
        not: the new name may or may not survive a crash of the machine.
        """
        try:
            self._write_temporary(data)
            os.replace(self._temporary_path, self._path)
        except OSError as exc:
            raise self._refused(exc) from exc
        try:
            sync_folder(self._path.parent)
        except OSError as exc:
            raise Ambiguous(f"{self.name} was written, but not surely to disk: {exc}") from exc

    def _write_temporary(self, data: bytes) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
        descriptor = os.open(self._temporary_path, flags, 0o666)
        with os.fdopen(descriptor, "wb") as temporary:
            mode = self._storage.file_permissions_mode
            if mode is not None:
                os.fchmod(descriptor, mode)
            temporary.write(data)
            temporary.flush()
            os.fsync(descriptor)

    def _make_folder(self) -> None:
        mode = self._storage.directory_permissions_mode
        try:
            self._path.parent.mkdir(0o777 if mode is None else mode, parents=True, exist_ok=True)
        except OSError as exc:
            if exc.errno not in NO_FOLDER:
                raise self._refused(exc) from exc
            raise Denied(
                f"The folder {self._path.parent} cannot be made ({exc.strerror}). Make it, "
                f"writable for this user, or give the storage {self._alias!r} another location."
            ) from exc

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock against other threads and processes.

        Each call opens the file anew: the lock belongs to the open file, so threads exclude each
        other, and it goes with the process. Raises Conflict if there is no folder.
        """
        try:
            descriptor = os.open(self._lock_path, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError as exc:
            raise Conflict(f"{self.name}: its folder is not there.") from exc
        except OSError as exc:
            raise self._refused(exc) from exc
        try:
            self._acquire(descriptor)
            try:
                yield
            finally:
                # Not left to close(): a child forked meanwhile may hold a copy of the descriptor.
                # Where it fails, what was done under the lock is done all the same.
                with suppress(OSError):
                    locks.unlock(descriptor)
        finally:
            with suppress(OSError):
                os.close(descriptor)

    def _acquire(self, descriptor: int) -> None:
        deadline = time.monotonic() + LOCK_TIMEOUT_S
        while not self._try_lock(descriptor):
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"{self._lock_path} has been locked for {LOCK_TIMEOUT_S:.0f} s. Is a process "
                    "that uses it stopped, or does the file system not support locks?"
                )
            time.sleep(random.uniform(0.1, 1.0) * LOCK_RETRY_S)

    def _try_lock(self, descriptor: int) -> bool:
        try:
            return locks.lock(descriptor, locks.LOCK_EX | locks.LOCK_NB)
        except OSError as exc:
            raise self._refused(exc) from exc

    def _refused(self, exc: OSError) -> StoreError:
        message = f"{self.name}: {exc}"
        if exc.errno in REFUSED:
            return Denied(f"{message}. Give this user write permission to the folder.")
        if exc.errno == errno.EFBIG:
            return TooLarge(message)
        return Unavailable(message)


def tag_of(data: bytes) -> Tag:
    return Tag(blake2b(data, digest_size=20).hexdigest())


def sync_folder(path: Path) -> None:
    """Make the names in the folder durable, where the system lets a folder be opened at all."""
    if os.name != "posix":
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def warn_if_shared(path: Path, mounts: Path = Path("/proc/self/mounts")) -> None:
    """Log a warning if the file lies on a file system whose locks or renames may not hold."""
    kind = file_system(path, mounts)
    if kind.startswith(UNSAFE_FILE_SYSTEMS):
        logger.warning(
            "%s is on a %s file system. Its locks and renames may not hold between machines, and "
            "jobs could be lost; use a local disk or an object store.",
            path,
            kind,
        )


def file_system(path: Path, mounts: Path) -> str:
    """Return the type of the file system that holds `path`, or "" where nobody says."""
    try:
        lines = mounts.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    best, kind = -1, ""
    resolved = Path(os.path.realpath(path))
    for line in lines:
        fields = line.split(" ")
        mount_point = fields[1].replace("\\040", " ")
        if len(mount_point) >= best and resolved.is_relative_to(mount_point):
            best, kind = len(mount_point), fields[2]
    return kind
