"""S3 and compatible stores, as `storages.backends.s3.S3Storage` configures them for boto3.

The client is our own. The storage's retries would answer a write that landed, and whose reply was
lost, with the refusal of its second attempt; and by default boto3 wraps bodies into checksummed
chunks over https, which several compatible stores refuse or, worse, store as they come.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any, Final
from urllib.parse import urlsplit

from botocore.config import Config
from botocore.exceptions import BotoCoreError
from storages.backends.s3 import S3Storage
from storages.utils import clean_name

from objq.core.codec import HEAD_BYTES
from objq.errors import ConfigurationError
from objq.store.base import (
    CONNECT_TIMEOUT_S,
    NOT_MODIFIED,
    REPLY_TIMEOUT_S,
    Content,
    Expect,
    Sentinel,
    Tag,
)
from objq.store.http import read_tag, written_tag
from objq.store.perprocess import PerProcess
from objq.store.s3errors import FAILURES, is_absent, read_error, status_of, write_error

# Those of the storage's object parameters without which a read or a deletion would be refused.
OWNER: Final = ("RequestPayer", "ExpectedBucketOwner")
CUSTOMER_KEY: Final = ("SSECustomerAlgorithm", "SSECustomerKey", "SSECustomerKeyMD5")

ONE_WRITE_A_SECOND: Final = ("r2.cloudflarestorage.com",)
STRONG_READS_ON_REQUEST: Final = ("tigris.dev", "storage.dev")


class Connection:
    """A storage's own client in this process, and how its store wants tags to be quoted."""

    def __init__(self, storage: S3Storage) -> None:
        self._storage = storage
        self._client: PerProcess[Any] = PerProcess(self._build)
        self.quoted = True

    @property
    def client(self) -> Any:
        return self._client.get()

    def close(self) -> None:
        client = self._client.built()
        if client is not None:
            client.close()

    def _build(self) -> Any:
        storage = self._storage
        try:
            client = storage._create_session().client(
                "s3",
                region_name=storage.region_name,
                use_ssl=storage.use_ssl,
                endpoint_url=storage.endpoint_url,
                config=client_config(storage),
                verify=storage.verify,
            )
        except (BotoCoreError, ValueError) as exc:
            raise ConfigurationError(
                f"The S3 storage of bucket {storage.bucket_name!r} cannot be used: {exc}"
            ) from exc
        if _hosted_by(client.meta.endpoint_url, STRONG_READS_ON_REQUEST):
            client.meta.events.register("before-sign.s3", _ask_for_strong_reads)
        return client


class S3Store:
    def __init__(
        self, storage: S3Storage, name: str, alias: str = "", connection: Connection | None = None
    ) -> None:
        if not storage.bucket_name:
            raise ConfigurationError(f"STORAGES[{alias!r}] names no bucket: set bucket_name.")
        self._storage = storage
        self._alias = alias
        self._relative_name = name
        self._key = storage._normalize_name(clean_name(name))
        self._connection = connection or Connection(storage)
        self.name = f"s3://{storage.bucket_name}/{self._key}"
        self.pace_s = 1.0 if _hosted_by(storage.endpoint_url, ONE_WRITE_A_SECOND) else 0.0

    def read(self, unless: Tag | None = None) -> Content | Sentinel | None:
        condition = {} if unless is None else {"IfNoneMatch": self._quote(unless)}
        try:
            content = self._get(condition)
        except FAILURES as exc:
            if status_of(exc) == 304:
                return NOT_MODIFIED
            if is_absent(exc):
                return None
            raise read_error(self.name, exc) from exc
        # A store may ignore the condition and send everything.
        return NOT_MODIFIED if content.tag == unless else content

    def read_head(self) -> Content | None:
        try:
            return self._get({"Range": f"bytes=0-{HEAD_BYTES - 1}"}, HEAD_BYTES)
        except FAILURES as exc:
            if is_absent(exc):
                return None
            if status_of(exc) != 416:
                raise read_error(self.name, exc) from exc
        # No range lies within an empty object, and the refusal need not carry its tag.
        content = self.read()
        if not isinstance(content, Content):
            return None
        return content._replace(data=content.data[:HEAD_BYTES])

    def write(self, data: bytes, expect: Expect) -> Tag:
        creating = isinstance(expect, Sentinel)
        condition = {"IfNoneMatch": "*"} if creating else {"IfMatch": self._quote(expect)}
        parameters = self._storage._get_write_parameters(self._key) | condition
        try:
            response = self._connection.client.put_object(
                **parameters, Bucket=self._storage.bucket_name, Key=self._key, Body=data
            )
        except FAILURES as exc:
            raise write_error(self.name, exc, creating) from exc
        return written_tag(self.name, _bare_tag(response))

    def sibling(self, suffix: str) -> S3Store:
        name = self._relative_name + suffix
        return S3Store(self._storage, name, self._alias, self._connection)

    def delete(self) -> None:
        try:
            self._connection.client.delete_object(
                Bucket=self._storage.bucket_name, Key=self._key, **self._parameters(OWNER)
            )
        except FAILURES as exc:
            raise write_error(self.name, exc, creating=False) from exc

    def close(self) -> None:
        self._connection.close()

    def toggle_quoting(self) -> None:
        """Send tags the other way from now on, here and in every sibling: `"abc"` or `abc`."""
        self._connection.quoted = not self._connection.quoted

    def _get(self, condition: dict[str, str], limit: int | None = None) -> Content:
        response = self._connection.client.get_object(
            Bucket=self._storage.bucket_name,
            Key=self._key,
            **self._parameters(OWNER + CUSTOMER_KEY),
            **condition,
        )
        ranged = response["ResponseMetadata"]["HTTPStatusCode"] == 206
        with closing(response["Body"]) as body:
            # Only a read to the end notices that the end is missing; a store that ignores the
            # range sends everything, of which the head is enough.
            data = body.read() if ranged else body.read(limit)
        return Content(data, read_tag(self.name, _bare_tag(response)))

    def _parameters(self, names: tuple[str, ...]) -> dict[str, Any]:
        configured = self._storage.get_object_parameters(self._relative_name)
        return {name: configured[name] for name in names if name in configured}

    def _quote(self, tag: Expect) -> str:
        return f'"{tag}"' if self._connection.quoted else f"{tag}"


def client_config(storage: S3Storage) -> Config:
    """Return the storage's configuration with what a truthful conditional write needs."""
    ours = Config(
        retries={"total_max_attempts": 1},
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    timeouts = Config(connect_timeout=CONNECT_TIMEOUT_S, read_timeout=REPLY_TIMEOUT_S)
    return timeouts.merge(storage.client_config).merge(ours)


def _bare_tag(response: dict[str, Any]) -> str:
    etag: str = response.get("ETag", "")
    return etag.removeprefix("W/").strip('"')


def _hosted_by(endpoint_url: str | None, domains: tuple[str, ...]) -> bool:
    host = urlsplit(endpoint_url or "").hostname or ""
    return any(host == domain or host.endswith("." + domain) for domain in domains)


def _ask_for_strong_reads(request: Any, **_: Any) -> None:
    """Tigris answers from, and compares with, the nearest replica unless told otherwise."""
    request.headers["X-Tigris-Consistent"] = "true"
