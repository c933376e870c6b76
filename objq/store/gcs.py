"""Google Cloud Storage, as `storages.backends.gcloud.GoogleCloudStorage` configures it.

Requests go through the storage's authorised session to the JSON API, one for each call. The blob
methods of the library would upload more than 8 MiB in several, of which only the first is sure to
carry the precondition, and read bytes and generation in two.

The tag is the object's generation, which never repeats. One object takes one write a second.
"""

from __future__ import annotations

import copy
import json
import secrets
from typing import Any, Final
from urllib.parse import quote

from google.auth.exceptions import GoogleAuthError, TransportError
from requests import RequestException, Response
from storages.backends.gcloud import GoogleCloudStorage
from storages.utils import clean_name
from urllib3.exceptions import HTTPError

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

FAILURES: Final = (RequestException, HTTPError, GoogleAuthError, OSError)

# The JSON names of those object parameters that django-storages documents.
METADATA: Final = {
    "cache_control": "cacheControl",
    "content_disposition": "contentDisposition",
    "content_language": "contentLanguage",
    "custom_time": "customTime",
    "metadata": "metadata",
    "storage_class": "storageClass",
}


class GcsStore:
    pace_s = 1.0

    def __init__(
        self,
        storage: GoogleCloudStorage,
        name: str,
        alias: str = "",
        client: PerProcess[Any] | None = None,
    ) -> None:
        if not storage.bucket_name:
            raise ConfigurationError(f"STORAGES[{alias!r}] names no bucket: set bucket_name.")
        self._storage = storage
        self._alias = alias
        self._relative_name = name
        self._key = storage._normalize_name(clean_name(name))
        self._client = client or PerProcess(lambda: own_client(storage))
        self._bucket_path = f"/storage/v1/b/{quote(storage.bucket_name, safe='')}/o"
        self._object_path = f"{self._bucket_path}/{quote(self._key, safe='')}"
        self.name = f"gs://{storage.bucket_name}/{self._key}"

    def read(self, unless: Tag | None = None) -> Content | Sentinel | None:
        parameters: dict[str, str] = {} if unless is None else {"ifGenerationNotMatch": unless}
        status, content = self._get(parameters, {})
        if status == 304:
            return NOT_MODIFIED
        # A store may ignore the condition and send everything.
        return NOT_MODIFIED if content is not None and content.tag == unless else content

    def read_head(self) -> Content | None:
        status, content = self._get({}, {"Range": f"bytes=0-{HEAD_BYTES - 1}"})
        if status == 416:
            # No range lies within an empty object, and the refusal need not carry its tag.
            _, content = self._get({}, {})
        return content and content._replace(data=content.data[:HEAD_BYTES])

    def write(self, data: bytes, expect: Expect) -> Tag:
        boundary = secrets.token_hex(16)
        parameters = {
            "uploadType": "multipart",
            "ifGenerationMatch": "0" if isinstance(expect, Sentinel) else expect,
        }
        if self._storage.default_acl:
            parameters["predefinedAcl"] = self._storage.default_acl
        try:
            response = self._request(
                "POST",
                f"/upload{self._bucket_path}",
                parameters,
                {"Content-Type": f"multipart/related; boundary={boundary}"},
                multipart(self._metadata(), data, boundary),
            )
            if response.status_code != 200:
                raise self._write_error(response)
            return written_tag(self.name, generation(response.json()["generation"]))
        except FAILURES as exc:
            raise self._failure(exc, Ambiguous) from exc
        except (ValueError, KeyError, TypeError) as exc:
            raise Ambiguous(f"{self.name} was written, but the reply is not understood.") from exc

    def sibling(self, suffix: str) -> GcsStore:
        return GcsStore(self._storage, self._relative_name + suffix, self._alias, self._client)

    def delete(self) -> None:
        try:
            response = self._request("DELETE", self._object_path, {}, {})
        except FAILURES as exc:
            raise self._failure(exc, Ambiguous) from exc
        if response.status_code not in (200, 204, 404):
            raise self._write_error(response)

    def close(self) -> None:
        client = self._client.built()
        if client is not None:
            client._http.close()

    def _metadata(self) -> dict[str, Any]:
        configured = self._storage.get_object_parameters(self._key)
        metadata = {METADATA[key]: value for key, value in configured.items() if key in METADATA}
        # Without this a public object would be served from caches for an hour.
        return {"name": self._key, "cacheControl": "no-store"} | metadata

    def _get(
        self, parameters: dict[str, str], headers: dict[str, str]
    ) -> tuple[int, Content | None]:
        # Accepting gzip, and not decoding it, is how to get the bytes as they are stored.
        headers = {"Accept-Encoding": "gzip", "Cache-Control": "no-cache"} | headers
        try:
            response = self._request(
                "GET", self._object_path, {"alt": "media"} | parameters, headers
            )
            status = response.status_code
            data = response.raw.read(decode_content=False)
        except FAILURES as exc:
            raise self._failure(exc, Unavailable) from exc
        if status in (200, 206):
            found = generation(response.headers.get("x-goog-generation"))
            return status, Content(data, read_tag(self.name, found))
        if status in (304, 416):
            return status, None
        if status == 404 and b"bucket does not exist" not in data:
            return status, None
        raise self._certain(response, data) or Unavailable(
            f"{self.name} could not be read: HTTP {status}."
        )

    def _request(
        self,
        method: str,
        path: str,
        parameters: dict[str, str],
        headers: dict[str, str],
        body: bytes | None = None,
    ) -> Response:
        client = self._client.get()
        response: Response = client._http.request(
            method,
            client.api_endpoint + path,
            params=parameters,
            headers=headers,
            data=body,
            timeout=(CONNECT_TIMEOUT_S, REPLY_TIMEOUT_S),
            allow_redirects=False,
            stream=method == "GET",
        )
        return response

    def _write_error(self, response: Response) -> StoreError:
        status = response.status_code
        known = self._certain(response, response.content)
        if known is not None:
            return known
        if status == 412:
            return Conflict(f"{self.name} has changed since it was read.")
        # Below 300: a success that is none of this store's for a write.
        if status < 300 or status in (408, 409) or status >= 500:
            return Ambiguous(f"{self.name}: the outcome of a write is not known: HTTP {status}.")
        return Denied(f"{self.name}: the store refuses the write: HTTP {status} {response.text}")

    def _certain(self, response: Response, body: bytes) -> StoreError | None:
        """Return the error if it says, for reads and writes alike, that nothing was done."""
        status, text = response.status_code, body.decode(errors="replace")[:500]
        if status == 429:
            return Throttled(
                f"{self.name}: the store asks to slow down.", retry_after_s(response.headers)
            )
        if status in (401, 403):
            return Denied(
                f"{self.name}: access denied: {text} Check the credentials, and that they may get, "
                "create and delete objects of this bucket."
            )
        if status == 413:
            return TooLarge(f"{self.name}: the store does not take so large an object.")
        if status == 404:
            return Missing(f"{self.name}: there is no such bucket; create it first.")
        if status == 501:
            return Unsupported(f"{self.name}: the store does not know conditional requests.")
        return None

    def _failure(self, exc: Exception, otherwise: type[StoreError]) -> StoreError:
        if isinstance(exc, GoogleAuthError):
            # Tokens are fetched before anything is sent.
            if isinstance(exc, TransportError) or exc.retryable:
                return Unavailable(f"{self.name}: no token could be fetched: {exc}")
            return Denied(f"{self.name}: no usable credentials: {exc}")
        if never_connected(exc):
            return Unavailable(f"{self.name}: the store cannot be reached: {exc}")
        return otherwise(f"{self.name}: {exc}")


def own_client(storage: GoogleCloudStorage) -> Any:
    """Return a client made as the storage makes its own, and shared with nobody.

    Raises DefaultCredentialsError, as every call may, if there are no credentials.
    """
    own = copy.copy(storage)
    own._client = own._bucket = None
    return own.client


def generation(said: object) -> str | None:
    """Return a generation as text; None if this is none, which a write would be refused for."""
    text = str(said)
    return text if text.isascii() and text.isdigit() else None


def multipart(metadata: dict[str, Any], data: bytes, boundary: str) -> bytes:
    """Return the body of an upload that carries metadata and content in one request."""
    return b"".join(
        (
            f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n".encode(),
            json.dumps(metadata, default=str).encode(),
            f"\r\n--{boundary}\r\nContent-Type: application/octet-stream\r\n\r\n".encode(),
            data,
            f"\r\n--{boundary}--\r\n".encode(),
        )
    )
