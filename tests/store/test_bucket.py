"""What a bucket does with overwritten versions: asked of real servers where they know it."""

from __future__ import annotations

import secrets
from typing import Any

import pytest
from django.core.files.storage import Storage, storages

from objq.store.bucket import CannotTell, _covers, _removes_old, endpoint, old_versions
from tests.objectservers import Entry

KEY = "queues/queue.json"
NONCURRENT = {"NoncurrentVersionExpiration": {"NoncurrentDays": 1}}


def opened(entry: Entry, settings: Any) -> Any:
    settings.STORAGES = {**settings.STORAGES, "objq": entry}
    return storages["objq"]


@pytest.fixture
def s3(ministack_storage: Entry, settings: Any) -> Any:
    """The storage of a bucket of its own, whose configuration a test may change."""
    options = {**ministack_storage["OPTIONS"], "bucket_name": f"own-{secrets.token_hex(6)}"}
    storage = opened({**ministack_storage, "OPTIONS": options}, settings)
    storage.connection.meta.client.create_bucket(Bucket=storage.bucket_name)
    return storage


def make_versioned(storage: Any) -> None:
    storage.connection.meta.client.put_bucket_versioning(
        Bucket=storage.bucket_name, VersioningConfiguration={"Status": "Enabled"}
    )


def set_rule(storage: Any, **rule: Any) -> None:
    rule = {"ID": "old", "Status": "Enabled", "Filter": {"Prefix": ""}} | rule
    storage.connection.meta.client.put_bucket_lifecycle_configuration(
        Bucket=storage.bucket_name, LifecycleConfiguration={"Rules": [rule]}
    )


def test_a_bucket_without_versions_keeps_nothing(s3: Any) -> None:
    assert old_versions(s3, "s3", KEY) is None


def test_a_versioned_bucket_without_a_rule_is_told_of(s3: Any) -> None:
    make_versioned(s3)
    kept = old_versions(s3, "s3", KEY)
    assert kept is not None
    assert not kept.bounded
    assert "NoncurrentVersionExpiration" in kept.advice


def test_a_rule_for_old_versions_is_enough(s3: Any) -> None:
    make_versioned(s3)
    set_rule(s3, Filter={"Prefix": "queues/"}, **NONCURRENT)
    kept = old_versions(s3, "s3", KEY)
    assert kept is not None
    assert kept.bounded
    assert "1 days" in kept.message


@pytest.mark.parametrize(
    "rule",
    [
        {"Filter": {"Prefix": "media/"}, **NONCURRENT},
        {"Status": "Disabled", **NONCURRENT},
        {"Expiration": {"Days": 30}},
    ],
    ids=["another prefix", "disabled", "only for current versions"],
)
def test_another_rule_is_not_enough(s3: Any, rule: dict[str, Any]) -> None:
    make_versioned(s3)
    set_rule(s3, **rule)
    kept = old_versions(s3, "s3", KEY)
    assert kept is not None
    assert not kept.bounded


def test_a_bucket_that_must_not_be_asked_is_no_reason_for_alarm(
    s3: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from botocore.exceptions import ClientError

    def denied(**_: Any) -> None:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "Get")

    client = s3.connection.meta.client
    monkeypatch.setattr(client, "get_bucket_versioning", denied)
    with pytest.raises(CannotTell, match=r"s3:GetBucketVersioning.*AccessDenied"):
        old_versions(s3, "s3", KEY)
    monkeypatch.undo()
    make_versioned(s3)
    monkeypatch.setattr(client, "get_bucket_lifecycle_configuration", denied)
    with pytest.raises(CannotTell, match=r"s3:GetLifecycleConfiguration.*AccessDenied"):
        old_versions(s3, "s3", KEY)


@pytest.mark.parametrize(
    ("rule", "covers"),
    [
        ({}, True),
        ({"Prefix": ""}, True),
        ({"Prefix": "queues/"}, True),
        ({"Prefix": "other/"}, False),
        ({"Filter": {}}, True),
        ({"Filter": {"And": {"Prefix": "queues/"}}}, True),
        ({"Filter": {"Tag": {"Key": "a", "Value": "b"}}}, False),
        ({"Filter": {"And": {"Prefix": "queues/", "ObjectSizeGreaterThan": 1}}}, False),
    ],
)
def test_a_rule_covers_what_its_filter_says(rule: dict[str, Any], covers: bool) -> None:
    assert _covers(rule, KEY) is covers


# --- Google Cloud Storage ------------------------------------------------------------------------


def test_a_bucket_of_google_is_asked_over_http(fake_gcs_storage: Entry, settings: Any) -> None:
    assert old_versions(opened(fake_gcs_storage, settings), "gs", KEY) is None


def test_a_bucket_of_google_that_is_not_there_cannot_be_asked(
    fake_gcs_storage: Entry, settings: Any
) -> None:
    options = {**fake_gcs_storage["OPTIONS"], "bucket_name": "absent"}
    storage = opened({**fake_gcs_storage, "OPTIONS": options}, settings)
    with pytest.raises(CannotTell, match=r"storage\.buckets\.get"):
        old_versions(storage, "gs", KEY)


class Bucket:
    """Stands in for a bucket whose properties the test server does not know."""

    bucket_name = "b"

    def __init__(self, versioned: bool, rules: list[Any], soft_delete_s: int | None) -> None:
        self.client = self
        self.versioning_enabled = versioned
        self.lifecycle_rules = rules
        self.soft_delete_policy = self
        self.retention_duration_seconds = soft_delete_s

    def get_bucket(self, name: str, timeout: float) -> Bucket:
        assert name == self.bucket_name
        return self


REMOVES: dict[str, Any] = {
    "action": {"type": "Delete"},
    "condition": {"daysSinceNoncurrentTime": 1},
}


@pytest.mark.parametrize(
    ("bucket", "said"),
    [
        (
            Bucket(False, [], 604_800),
            "soft delete keeps, and bills, every overwritten object for 7",
        ),
        (Bucket(True, [], 0), "no lifecycle rule"),
        (Bucket(True, [{"action": {"type": "SetStorageClass"}, "condition": {}}], 0), "no lifecy"),
    ],
)
def test_what_google_keeps_without_bound_is_told_of(bucket: Any, said: str) -> None:
    kept = old_versions(bucket, "gs", KEY)
    assert kept is not None
    assert said in kept.message
    assert not kept.bounded


def test_what_google_keeps_within_bounds_is_fine() -> None:
    storage: Any = Bucket(True, [REMOVES], 0)
    kept = old_versions(storage, "gs", KEY)
    assert kept is not None
    assert kept.bounded


@pytest.mark.parametrize(
    ("condition", "removes"),
    [
        ({"isLive": False}, True),
        ({"numNewerVersions": 3}, True),
        ({"age": 3}, False),
        ({"isLive": False, "matchesPrefix": ["media/"]}, False),
        ({"isLive": False, "matchesPrefix": ["queues/"], "matchesSuffix": [".json"]}, True),
        ({"isLive": False, "matchesSuffix": [".png"]}, False),
    ],
)
def test_a_rule_of_google_is_read(condition: dict[str, Any], removes: bool) -> None:
    assert _removes_old({"action": {"type": "Delete"}, "condition": condition}, KEY) is removes


# --- the others ----------------------------------------------------------------------------------


def test_other_stores_cannot_be_asked(file_storage: Entry, settings: Any) -> None:
    storage: Storage = opened(file_storage, settings)
    with pytest.raises(CannotTell):
        old_versions(storage, "azure", KEY)


def test_each_store_with_an_http_interface_has_an_endpoint(
    ministack_storage: Entry,
    fake_gcs_storage: Entry,
    azurite_storage: Entry,
    file_storage: Entry,
    settings: Any,
) -> None:
    found = [
        endpoint(opened(entry, settings), scheme)
        for entry, scheme in (
            (ministack_storage, "s3"),
            (fake_gcs_storage, "gs"),
            (azurite_storage, "azure"),
        )
    ]
    assert all(url is not None and url.startswith("http://127.0.0.1:") for url in found)
    assert endpoint(opened(file_storage, settings), "file") is None
