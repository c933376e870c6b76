"""Is the store there, does it keep its word, and what does it do with what is overwritten?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from django.core.files.storage import FileSystemStorage, Storage

from objq.doctor.findings import Finding, ok, problem, skipped, warning
from objq.errors import ConfigurationError
from objq.store.base import Denied, Missing, Store, StoreError
from objq.store.bucket import CannotTell, old_versions
from objq.store.file import UNSAFE_FILE_SYSTEMS, file_system
from objq.store.probe import probe

MOUNTS = Path("/proc/self/mounts")


def check_reachable(store: Store) -> Iterator[Finding]:
    """Read the head, as every client does to find the broker."""
    began = time.monotonic()
    try:
        store.read_head()
    except StoreError as error:
        yield _not_reached(error)
    else:
        yield ok("store", f"{store.name} answers within {time.monotonic() - began:.3f} s.")


def check_probe(store: Store) -> Iterator[Finding]:
    """Let the probe find out whether conditions are honoured, and with it what is permitted."""
    names = f"{store.name}.probe-*"
    try:
        probe(store)
    except ConfigurationError as error:
        yield problem("probe", error.message)
    except Denied as error:
        yield problem("permissions", str(error), f"They are needed for {store.name} and {names}.")
    except StoreError as error:
        yield problem("probe", f"The store could not be tested: {_told(error)}", _advice(error))
    else:
        yield ok("probe", "Stale writes, second creations and all but one of 8 racers are refused.")
        yield ok(
            "permissions",
            f"May read {store.name}, and create, replace and delete {names}. That it may be "
            "replaced itself shows at the next commit.",
        )


def check_old_versions(storage: Storage, store: Store) -> Iterator[Finding]:
    scheme, _, rest = store.name.partition("://")
    if scheme in ("file", "memory"):
        yield ok("versions", "Nothing that is overwritten is kept.")
        return
    try:
        kept = old_versions(storage, scheme, rest.partition("/")[2])
    except CannotTell as error:
        yield skipped("versions", f"Whether the bucket keeps old versions is not known: {error}.")
        return
    if kept is None:
        yield ok("versions", "The bucket keeps nothing that is overwritten.")
    elif kept.bounded:
        yield ok("versions", f"The bucket is {kept.message}.")
    else:
        yield warning("versions", f"{kept.message}.", kept.advice)


def check_file_system(storage: Storage, name: str, mounts: Path = MOUNTS) -> Iterator[Finding]:
    if not isinstance(storage, FileSystemStorage):
        return
    kind = file_system(Path(storage.path(name)), mounts)
    if kind.startswith(UNSAFE_FILE_SYSTEMS):
        yield warning(
            "folder",
            f"The folder is on a {kind} file system, whose locks and renames may not hold between "
            "machines: jobs could be lost.",
            "Use a local disk or an object store.",
        )
    else:
        yield ok("folder", f"The folder is on a local file system ({kind or 'kind not known'}).")


def _not_reached(error: StoreError) -> Finding:
    cause = error.__cause__
    if not isinstance(cause, NotADirectoryError):
        return problem("store", _told(error), _advice(error))
    return problem(
        "store",
        f"The folder {Path(cause.filename).parent} cannot be made ({cause.strerror}): a file is in "
        "its place, or above it.",
        "Move the file away, or give the storage another location.",
    )


def _told(error: StoreError) -> str:
    return f"{str(error).rstrip('.')}."


def _advice(error: StoreError) -> str:
    if isinstance(error, Missing):
        return "objq never creates it."
    if isinstance(error, Denied):
        return ""
    return "Look at the endpoint and at the network between here and the store."
