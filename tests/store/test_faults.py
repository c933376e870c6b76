"""What a caller is told when something goes wrong, over real HTTP through a proxy."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from typing import Any, NoReturn

import pytest

from objq.errors import ConfigurationError
from objq.store.base import (
    ABSENT,
    Ambiguous,
    Conflict,
    Content,
    Denied,
    Missing,
    Store,
    StoreError,
    Tag,
    Throttled,
    TooLarge,
    Unavailable,
    Unsupported,
)
from objq.store.http import LONGEST_RETRY_AFTER_S
from tests.http1 import Message
from tests.objectservers import ACCESS_KEY, AZURE_KEY, SECRET_KEY, connection_string
from tests.proxy import (
    Action,
    Answer,
    CutReply,
    Drop,
    Forward,
    Proxy,
    always,
    next_write,
    s3_error,
)
from tests.servers import ObjectServer
from tests.store.conftest import OpenStore
from tests.supervise import free_ports

s3_only = pytest.mark.parametrize("server", ["ministack"], indirect=True)
azure_only = pytest.mark.parametrize("server", ["azurite"], indirect=True)

TAG = Tag("12345")


def writes(proxy: Proxy) -> int:
    return proxy.count(lambda exchange: exchange.request.is_write)


# --- replies that are lost -----------------------------------------------------------------------


def test_lost_reply_to_a_creation(proxied: Store, proxy: Proxy) -> None:
    proxy.rule = next_write(CutReply())
    with pytest.raises(Ambiguous):
        proxied.write(b"mine", ABSENT)
    assert writes(proxy) == 1, "the client has repeated the write by itself"
    with pytest.raises(Conflict):
        proxied.write(b"mine", ABSENT)
    content = proxied.read()
    assert isinstance(content, Content)
    assert content.data == b"mine"
    proxied.write(b"next", content.tag)


def test_lost_reply_to_a_change(proxied: Store, proxy: Proxy) -> None:
    tag = proxied.write(b"old", ABSENT)
    proxy.rule = next_write(CutReply())
    with pytest.raises(Ambiguous):
        proxied.write(b"mine", tag)
    assert writes(proxy) == 2, "the client has repeated the write by itself"
    with pytest.raises(Conflict):
        proxied.write(b"mine", tag)
    content = proxied.read()
    assert isinstance(content, Content)
    assert content.data == b"mine"


def test_request_that_never_arrives(proxied: Store, proxy: Proxy) -> None:
    proxy.rule = next_write(Drop())
    with pytest.raises(Ambiguous):
        proxied.write(b"mine", ABSENT)
    tag = proxied.write(b"mine", ABSENT)
    assert proxied.read() == Content(b"mine", tag)


@s3_only
def test_write_that_lands_after_the_client_gave_up(
    server: ObjectServer, proxy: Proxy, opened: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("objq.store.s3.REPLY_TIMEOUT_S", 0.2)
    store = opened(server.entry(proxy.url))
    tag = store.write(b"old", ABSENT)
    release = threading.Event()
    proxy.rule = next_write(Forward(until=release))
    with pytest.raises(Ambiguous):
        store.write(b"mine", tag)
    assert store.read() == Content(b"old", tag)
    release.set()
    proxy.wait_for(lambda exchange: exchange.request.is_write and exchange.status == 200, count=2)
    with pytest.raises(Conflict):
        store.write(b"mine", tag)


@s3_only
def test_late_write_does_not_land_on_a_newer_one(
    server: ObjectServer, proxy: Proxy, opened: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("objq.store.s3.REPLY_TIMEOUT_S", 0.2)
    store = opened(server.entry(proxy.url))
    tag = store.write(b"old", ABSENT)
    release = threading.Event()
    proxy.rule = next_write(Forward(until=release))
    with pytest.raises(Ambiguous):
        store.write(b"late", tag)
    newer = store.write(b"newer", tag)
    release.set()
    proxy.wait_for(lambda exchange: exchange.request.is_write and exchange.status == 412)
    assert store.read() == Content(b"newer", newer)


@pytest.mark.parametrize("action", [CutReply(), Drop()], ids=["reply", "request"])
def test_lost_read(proxied: Store, proxy: Proxy, action: Action) -> None:
    proxied.write(b"one", ABSENT)
    proxy.rule = always(action)
    with pytest.raises(Unavailable):
        proxied.read()
    with pytest.raises(Unavailable):
        proxied.read_head()


# --- answers that no store gives ----------------------------------------------------------------

PAGE = Answer(200, b"<html>Please log in</html>", (("Content-Type", "text/html"),))


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(PAGE, id="a proxy's page"),
        pytest.param(Answer(200), id="nothing"),
        pytest.param(Answer(200, b"[1]"), id="JSON of another kind"),
        pytest.param(
            Answer(200, b'{"generation": null}', (("ETag", '""'), ("x-goog-generation", "new"))),
            id="tags that are none",
        ),
        pytest.param(
            Answer(200, b"one", (("Last-Modified", "soon"), ("Content-Range", "bytes some"))),
            id="headers that cannot be parsed",
        ),
    ],
)
def test_an_answer_that_no_store_gives_tells_nothing(
    proxied: Store, proxy: Proxy, answer: Answer
) -> None:
    """Whoever answers so may be gone in a moment, and what is stored is not known meanwhile."""
    proxy.rule = always(answer)
    expect_nothing_known(proxied)


def test_a_record_that_was_damaged_on_its_way(
    proxied: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TLS finds it in the middle of a body, when the head has long been understood."""
    tag = proxied.write(b"one", ABSENT)

    def damaged(*_: Any, **__: Any) -> NoReturn:
        raise ssl.SSLError(ssl.SSL_ERROR_SSL, "[SSL: DECRYPTION_FAILED_OR_BAD_RECORD_MAC]")

    with monkeypatch.context() as patched:
        patched.setattr(http.client.HTTPResponse, "read", damaged)
        expect_nothing_known(proxied)
    assert proxied.read() == Content(b"one", tag)


def expect_nothing_known(store: Store) -> None:
    for unless in (None, TAG):
        with pytest.raises(Unavailable):
            store.read(unless)
    with pytest.raises(Unavailable):
        store.read_head()
    for expect in (ABSENT, TAG):
        with pytest.raises((Ambiguous, Conflict)):
            store.write(b"mine", expect)


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "on_write", "on_read"),
    [
        (202, Ambiguous, Unavailable),
        (401, Denied, Denied),
        (403, Denied, Denied),
        (409, Ambiguous, Unavailable),
        (412, Conflict, Unavailable),
        (413, TooLarge, TooLarge),
        (429, Throttled, Throttled),
        (500, Ambiguous, Unavailable),
        (501, Unsupported, Unsupported),
        (502, Ambiguous, Unavailable),
        (503, Ambiguous, Unavailable),
        (504, Ambiguous, Unavailable),
    ],
)
def test_status(
    proxied: Store,
    proxy: Proxy,
    status: int,
    on_write: type[StoreError],
    on_read: type[StoreError],
) -> None:
    proxy.rule = always(Answer(status))
    for call in (proxied.read, proxied.read_head):
        with pytest.raises(StoreError) as caught:
            call()
        assert type(caught.value) is on_read
        assert proxied.name in str(caught.value)
    for expect in (ABSENT, TAG):
        with pytest.raises(StoreError) as caught:
            proxied.write(b"mine", expect)
        assert type(caught.value) is on_write
        assert proxied.name in str(caught.value)
    assert writes(proxy) == 2, "the client has repeated a write by itself"


def test_throttled_says_for_how_long(proxied: Store, proxy: Proxy) -> None:
    proxy.rule = always(Answer(429, headers=(("Retry-After", "7"),)))
    with pytest.raises(Throttled) as caught:
        proxied.write(b"mine", ABSENT)
    assert caught.value.retry_after_s == 7.0
    for unusable in ((), (("Retry-After", "soon"),), (("Retry-After", "nan"),)):
        proxy.rule = always(Answer(429, headers=unusable))
        with pytest.raises(Throttled) as caught:
            proxied.read()
        assert caught.value.retry_after_s is None
    proxy.rule = always(Answer(429, headers=(("Retry-After", "1e999"),)))
    with pytest.raises(Throttled) as caught:
        proxied.read()
    assert caught.value.retry_after_s == LONGEST_RETRY_AFTER_S


@s3_only
@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (503, "SlowDown", Throttled),
        (503, "RequestLimitExceeded", Throttled),
        (503, "ServiceUnavailable", Ambiguous),
        (409, "ConditionalRequestConflict", Ambiguous),
        (400, "RequestTimeout", Ambiguous),
        (400, "EntityTooLarge", TooLarge),
        (400, "ExpiredToken", Denied),
        (400, "InvalidRequest", Denied),
        (404, "NoSuchKey", Conflict),
        (404, "NoSuchBucket", Missing),
        (501, "NotImplemented", Unsupported),
    ],
)
def test_s3_code(
    proxied: Store, proxy: Proxy, status: int, code: str, error: type[StoreError]
) -> None:
    proxy.rule = always(s3_error(status, code))
    with pytest.raises(StoreError) as caught:
        proxied.write(b"mine", TAG)
    assert type(caught.value) is error


@s3_only
def test_a_clock_that_is_wrong_is_what_is_told(proxied: Store, proxy: Proxy) -> None:
    proxy.rule = always(s3_error(403, "RequestTimeTooSkewed"))
    with pytest.raises(Denied, match="The clock of this machine is wrong"):
        proxied.write(b"mine", TAG)


@azure_only
@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (503, "ServerBusy", Throttled),
        (500, "OperationTimedOut", Ambiguous),
        (412, "LeaseIdMissing", Denied),
        (409, "BlobAlreadyExists", Conflict),
        (409, "BlobImmutableDueToPolicy", Denied),
        (404, "ContainerNotFound", Missing),
    ],
)
def test_azure_code(
    proxied: Store, proxy: Proxy, status: int, code: str, error: type[StoreError]
) -> None:
    proxy.rule = always(Answer(status, headers=(("x-ms-error-code", code),)))
    with pytest.raises(StoreError) as caught:
        proxied.write(b"mine", TAG)
    assert type(caught.value) is error


# --- configurations that cannot work -------------------------------------------------------------


def test_nobody_listens(
    server: ObjectServer, opened: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", url)
    expect_unavailable(opened(server.entry(url)))


def test_name_of_the_server_is_not_known(
    server: ObjectServer, opened: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: Any, **__: Any) -> NoReturn:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://store.invalid")
    expect_unavailable(opened(server.entry("http://store.invalid")))


def expect_unavailable(store: Store) -> None:
    """A write is surely not applied where there was nobody to send it to."""
    with pytest.raises(Unavailable):
        store.write(b"mine", ABSENT)
    with pytest.raises(Unavailable):
        store.read()
    with pytest.raises(Unavailable):
        store.read_head()


@pytest.mark.parametrize(
    ("server", "option", "right", "wrong"),
    [
        ("seaweedfs", "secret_key", SECRET_KEY, "wrong"),
        ("seaweedfs", "access_key", ACCESS_KEY, "nobody"),
        ("azurite", "connection_string", AZURE_KEY, "d3Jvbmc="),
    ],
    indirect=["server"],
)
def test_wrong_credentials(
    server: ObjectServer, opened: OpenStore, option: str, right: str, wrong: str
) -> None:
    entry = server.entry()
    entry["OPTIONS"][option] = entry["OPTIONS"][option].replace(right, wrong)
    store = opened(entry)
    with pytest.raises(Denied, match="access denied"):
        store.write(b"mine", ABSENT)
    with pytest.raises(Denied, match="access denied"):
        store.read()


@s3_only
def test_no_credentials(
    server: ObjectServer, opened: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    entry = server.entry()
    entry["OPTIONS"] |= {"access_key": None, "secret_key": None}
    store = opened(entry)
    with pytest.raises(Denied, match=r"credentials \(.*\)\. Put access_key"):
        store.write(b"mine", ABSENT)
    with pytest.raises(Denied, match="credentials"):
        store.read()


@pytest.mark.parametrize(
    ("server", "option"),
    [("ministack", "bucket_name"), ("azurite", "azure_container"), ("fake_gcs", "bucket_name")],
    indirect=["server"],
)
def test_no_such_bucket(
    server: ObjectServer, opened: OpenStore, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
    entry = server.entry()
    entry["OPTIONS"][option] = "objq-not-there"
    store = opened(entry)
    with pytest.raises(Missing, match="create it first"):
        store.write(b"mine", ABSENT)
    if server.kind != "fake_gcs":  # whose answer does not tell a bucket from an object
        with pytest.raises(Missing, match="create it first"):
            store.read()


@azure_only
@pytest.mark.parametrize("connection", ["nonsense", "AccountKey=d3Jvbmc="])
def test_azure_connection_that_is_none(
    server: ObjectServer, opened: OpenStore, connection: str
) -> None:
    entry = server.entry()
    entry["OPTIONS"]["connection_string"] = connection
    with pytest.raises(ConfigurationError, match=r"cannot be (opened|used)"):
        opened(entry).read()


@azure_only
def test_azure_tag_of_an_empty_blob_that_grows_meanwhile(
    server: ObjectServer, proxy: Proxy, opened: OpenStore
) -> None:
    """The library asks twice for an empty blob; what is written in between is a conflict."""
    entry = server.entry()
    direct = opened(entry)
    options = entry["OPTIONS"] | {"connection_string": connection_string(proxy.url)}
    store = opened(entry | {"OPTIONS": options})
    tag = direct.write(b"", ABSENT)
    reads = 0

    def rule(request: Message) -> None:
        nonlocal reads
        if request.method == "GET":
            reads += 1
            if reads == 2:
                direct.write(b"grown", tag)

    proxy.rule = rule
    content = store.read()
    assert isinstance(content, Content)
    assert content == direct.read()
