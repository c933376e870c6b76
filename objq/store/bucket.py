"""Facts of a bucket beyond its one object, for `objq_doctor`; the queue itself never asks.

They are asked through the storage's own client. Whoever may not ask gets `CannotTell`, which is no
reason to doubt the queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from django.core.files.storage import Storage

REPORT: Final = "docs/operating.md, 'Buckets', has the rule to copy."


class CannotTell(Exception):
    """The bucket's configuration could not be read; the message says why."""


class OldVersions(NamedTuple):
    """What becomes of overwritten versions. `bounded`: a rule of the bucket removes them."""

    message: str
    bounded: bool
    advice: str = ""


def endpoint(storage: Storage, scheme: str) -> str | None:
    """Return the URL of the store's HTTP interface, or None where there is none."""
    client = _client(storage, scheme)
    if scheme == "s3":
        return str(client.meta.endpoint_url)
    if scheme == "gs":
        return str(client.api_endpoint)
    return str(client.url) if scheme == "azure" else None


def old_versions(storage: Storage, scheme: str, key: str) -> OldVersions | None:
    """Return what the bucket does with overwritten versions of `key`; None if it keeps none.

    Raises CannotTell.
    """
    ask = {"s3": _s3_versions, "gs": _gcs_versions}.get(scheme)
    if ask is None:
        raise CannotTell("of this kind of store only its own console tells")
    return ask(storage, key)


def _client(storage: Any, scheme: str) -> Any:
    if scheme == "s3":
        return storage.connection.meta.client
    return storage.client if scheme in ("gs", "azure") else None


# --- S3 ------------------------------------------------------------------------------------------


def _s3_versions(storage: Any, key: str) -> OldVersions | None:
    from botocore.exceptions import BotoCoreError, ClientError

    client, bucket = _client(storage, "s3"), storage.bucket_name
    try:
        if client.get_bucket_versioning(Bucket=bucket).get("Status") != "Enabled":
            return None
    except (ClientError, BotoCoreError) as error:
        raise CannotTell(f"s3:GetBucketVersioning: {error}") from error
    try:
        rules = client.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
    except BotoCoreError as error:
        raise CannotTell(f"s3:GetLifecycleConfiguration: {error}") from error
    except ClientError as error:
        if error.response["Error"]["Code"] != "NoSuchLifecycleConfiguration":
            raise CannotTell(f"s3:GetLifecycleConfiguration: {error}") from error
        rules = []
    days = _noncurrent_days(rules, key)
    if days is not None:
        return OldVersions(f"versioned; old versions go after {days} days", bounded=True)
    return OldVersions(
        "the bucket is versioned and no lifecycle rule removes old versions: every commit leaves "
        "one of the whole object behind, for ever",
        bounded=False,
        advice=f"Add a rule with NoncurrentVersionExpiration for {key!r}. {REPORT}",
    )


def _noncurrent_days(rules: Iterable[Mapping[str, Any]], key: str) -> int | None:
    """Return after how many days an enabled rule for all of `key` ends old versions, or None."""
    found: list[int] = []
    for rule in rules:
        days = rule.get("NoncurrentVersionExpiration", {}).get("NoncurrentDays")
        if rule.get("Status") == "Enabled" and days is not None and _covers(rule, key):
            found.append(int(days))
    return min(found, default=None)


def _covers(rule: Mapping[str, Any], key: str) -> bool:
    chosen = rule.get("Filter", {})
    chosen = chosen.get("And", chosen)
    if chosen.keys() - {"Prefix"}:
        return False  # by tag or size, which one version may have and the next may not
    return key.startswith(chosen.get("Prefix", rule.get("Prefix", "")))


# --- Google Cloud Storage ------------------------------------------------------------------------


def _gcs_versions(storage: Any, key: str) -> OldVersions | None:
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.exceptions import GoogleAuthError

    try:
        bucket = _client(storage, "gs").get_bucket(storage.bucket_name, timeout=10.0)
    except (GoogleAPIError, GoogleAuthError, OSError) as error:
        raise CannotTell(f"storage.buckets.get: {error}") from error
    if bucket.versioning_enabled:
        if any(_removes_old(rule, key) for rule in bucket.lifecycle_rules):
            return OldVersions("versioned; a lifecycle rule removes old versions", bounded=True)
        return OldVersions(
            "the bucket is versioned and no lifecycle rule removes old versions: every commit "
            "leaves one of the whole object behind, for ever",
            bounded=False,
            advice=f"Add a rule that deletes noncurrent versions. {REPORT}",
        )
    kept_s = getattr(bucket.soft_delete_policy, "retention_duration_seconds", None) or 0
    if kept_s:
        return OldVersions(
            f"soft delete keeps, and bills, every overwritten object for {kept_s / 86_400:g} days, "
            "and every commit overwrites the whole object",
            bounded=False,
            advice="Turn it off for this bucket: gcloud storage buckets update "
            f"gs://{storage.bucket_name} --clear-soft-delete.",
        )
    return None


def _removes_old(rule: Mapping[str, Any], key: str) -> bool:
    condition = rule.get("condition", {})
    prefixes, suffixes = condition.get("matchesPrefix"), condition.get("matchesSuffix")
    if prefixes and not key.startswith(tuple(prefixes)):
        return False
    if suffixes and not key.endswith(tuple(suffixes)):
        return False
    old = {"numNewerVersions", "daysSinceNoncurrentTime", "noncurrentTimeBefore"}
    is_old = condition.get("isLive") is False or bool(old & condition.keys())
    return rule.get("action", {}).get("type") == "Delete" and is_old
