"""Azure Blob Storage, as `storages.backends.azure_storage.AzureStorage` configures it."""

from __future__ import annotations

import copy
from typing import Any, Final

from azure.core import MatchConditions
from azure.core.exceptions import AzureError, ClientAuthenticationError, HttpResponseError
from azure.storage.blob import BlobClient, ContainerClient, ContentSettings
from storages.backends.azure_storage import AzureStorage

from objq.core.codec import HEAD_BYTES
from objq.errors import ConfigurationError
from objq.store.base import (
    CONNECT_TIMEOUT_S,
    NOT_MODIFIED,
    REPLY_TIMEOUT_S,
    Ambiguous,
    Conflict,
    Content,
    Denied,
    Expect,
    Missing,
    Sentinel,
    StoreError,
    Tag,
    Throttled,
    TooLarge,
    Unavailable,
    Unsupported,
)
from objq.store.http import never_connected, read_tag, retry_after_s, written_tag
from objq.store.perprocess import PerProcess

ONE_TRY: Final[dict[str, Any]] = {
    "retry_total": 0,
    "connection_timeout": CONNECT_TIMEOUT_S,
    "read_timeout": REPLY_TIMEOUT_S,
}
"""The library would answer a write that landed with the refusal of its own second attempt."""

SINGLE_REQUEST_BYTES: Final = 1 << 30
"""Up to this size bytes and tag come from one response."""

EMPTY_READS: Final = 5
"""How often an empty blob is read again that has grown meanwhile."""

REFUSED: Final = ("BlobImmutableDueToPolicy", "BlobArchived", "SnapshotsPresent")
MISSING: Final = ("ContainerNotFound", "ContainerBeingDeleted", "AccountIsDisabled")
THROTTLED: Final = ("ServerBusy", "IngressOverAccountLimit", "OperationsPerSecondOverAccountLimit")
FAILURES: Final = (AzureError, OSError, ValueError, LookupError)
"""The last two are what the library raises for headers that are missing or cannot be parsed."""


class AzureStore:
    pace_s = 0.0

    def __init__(
        self,
        storage: AzureStorage,
        name: str,
        alias: str = "",
        container: PerProcess[ContainerClient] | None = None,
    ) -> None:
        if not storage.azure_container:
            raise ConfigurationError(
                f"STORAGES[{alias!r}] names no container: set azure_container."
            )
        self._storage = storage
        self._alias = alias
        self._relative_name = name
        self._key = storage._get_valid_path(name)
        self._container = container or PerProcess(lambda: own_container(storage))
        self.name = f"azure://{storage.account_name}/{storage.azure_container}/{self._key}"

    def read(self, unless: Tag | None = None) -> Content | Sentinel | None:
        if unless is None:
            return self._download()
        try:
            content = self._download(etag=unless, match_condition=MatchConditions.IfModified)
        except _NotModified:
            return NOT_MODIFIED
        # A store may ignore the condition and send everything.
        return NOT_MODIFIED if content is not None and content.tag == unless else content

    def read_head(self) -> Content | None:
        try:
            return self._download(offset=0, length=HEAD_BYTES)
        except _NoSuchRange:
            # There is none within an empty blob, and the refusal need not carry its tag.
            content = self._download()
        return content and content._replace(data=content.data[:HEAD_BYTES])

    def write(self, data: bytes, expect: Expect) -> Tag:
        condition: dict[str, Any] = {"overwrite": False}
        if not isinstance(expect, Sentinel):
            condition = {
                "overwrite": True,
                "etag": expect,
                "match_condition": MatchConditions.IfNotModified,
            }
        settings = ContentSettings(**self._storage._get_content_settings_parameters(self._key))
        try:
            response = self._blob().upload_blob(
                data, content_settings=settings, **condition, **ONE_TRY
            )
            return written_tag(self.name, response.get("etag"))
        except FAILURES as exc:
            raise self._write_error(exc) from exc

    def sibling(self, suffix: str) -> AzureStore:
        return AzureStore(self._storage, self._relative_name + suffix, self._alias, self._container)

    def delete(self) -> None:
        try:
            self._blob().delete_blob(**ONE_TRY)
        except FAILURES as exc:
            if code_of(exc) != "BlobNotFound":
                raise self._write_error(exc) from exc

    def close(self) -> None:
        container = self._container.built()
        if container is not None:
            container.close()

    def _blob(self) -> BlobClient:
        return self._container.get().get_blob_client(self._key)

    def _download(self, **options: Any) -> Content | None:
        try:
            for _ in range(EMPTY_READS):
                blob = self._blob()
                stream = blob.download_blob(max_concurrency=1, **options, **ONE_TRY)
                data = stream.readall()
                if data:
                    return Content(data, read_tag(self.name, stream.properties.etag))
                # For an empty blob the library asks twice, and takes the bytes from the first
                # reply but the tag from the second, which may be of a later version.
                properties = blob.get_blob_properties(**ONE_TRY)
                if properties.size == 0:
                    return Content(b"", read_tag(self.name, properties.etag))
            raise Unavailable(f"{self.name} changes too fast to be read.")
        except FAILURES as exc:
            status, code = status_of(exc), code_of(exc)
            if status == 304:
                raise _NotModified from exc
            if status == 416:
                raise _NoSuchRange from exc
            if status == 404 and code not in MISSING:
                return None
            raise self._certain(exc) or Unavailable(
                f"{self.name} could not be read: {exc}"
            ) from exc

    def _write_error(self, exc: Exception) -> StoreError:
        known = self._certain(exc)
        if known is not None:
            return known
        status, code = status_of(exc), code_of(exc)
        if code.startswith("Lease") or code in REFUSED:
            return Denied(f"{self.name} is protected from changes: {exc}")
        if status == 412 or code in ("BlobAlreadyExists", "BlobNotFound"):
            return Conflict(f"{self.name} has changed since it was read.")
        # Below 300: no reply, or a success that is none of this store's for a write.
        if status < 300 or status in (408, 409) or status >= 500:
            return Ambiguous(f"{self.name}: the outcome of a write is not known: {exc}")
        return Denied(f"{self.name}: the store refuses the write: {exc}")

    def _certain(self, exc: Exception) -> StoreError | None:
        """Return the error if it says, for reads and writes alike, that nothing was done."""
        if never_connected(exc):
            return Unavailable(f"{self.name}: the store cannot be reached: {exc}")
        status, code = status_of(exc), code_of(exc)
        if isinstance(exc, ClientAuthenticationError) or status in (401, 403):
            return Denied(
                f"{self.name}: access denied: {exc} Check the credentials, and that they may read, "
                "write and delete blobs of this container."
            )
        if status == 429 or code in THROTTLED:
            headers = getattr(getattr(exc, "response", None), "headers", {})
            return Throttled(f"{self.name}: the store asks to slow down.", retry_after_s(headers))
        if status == 413:
            return TooLarge(f"{self.name}: the store does not take so large a blob: {exc}")
        if code in MISSING:
            return Missing(f"{self.name}: there is no such container; create it first.")
        if status == 501:
            return Unsupported(f"{self.name}: the store does not know conditional requests.")
        return None


class _NotModified(Exception):
    """The store answered 304."""


class _NoSuchRange(Exception):
    """The store answered 416."""


def status_of(exc: Exception) -> int:
    return (exc.status_code or 0) if isinstance(exc, HttpResponseError) else 0


def code_of(exc: Exception) -> str:
    """Return the store's own word for the error, such as `BlobNotFound`, or ""."""
    code = getattr(exc, "error_code", None) or ""
    return str(getattr(code, "value", code))


def own_container(storage: AzureStorage) -> ContainerClient:
    """Return a client made as the storage makes its own, and shared with nobody.

    Raises ConfigurationError if its options cannot be used.
    """
    own = copy.copy(storage)
    own._service_client = own._client = None
    try:
        container: ContainerClient = own.client
    except ValueError as exc:
        raise ConfigurationError(
            f"The Azure storage of container {storage.azure_container!r} cannot be used: {exc}"
        ) from exc
    container._config.max_single_get_size = SINGLE_REQUEST_BYTES
    container._config.max_single_put_size = SINGLE_REQUEST_BYTES
    return container
