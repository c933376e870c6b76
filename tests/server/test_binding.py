"""Where a broker listens, and what it tells others."""

from __future__ import annotations

import socket

import pytest

from objq.errors import ConfigurationError
from objq.server.binding import (
    Address,
    Advertised,
    advertised_url,
    bind_socket,
    own_address,
    parse_bind,
)


def advertised(
    asked: str | None, bound: Address, found: str | None = "10.0.0.42", local: bool = False
) -> Advertised:
    return advertised_url(asked, bound, host_address=lambda: found, local=local)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:3000", ("127.0.0.1", 3000)),
        ("10.0.0.42", ("10.0.0.42", 3000)),
        (":4000", ("0.0.0.0", 4000)),
        ("localhost:0", ("localhost", 0)),
        ("[::1]:3000", ("::1", 3000)),
        ("[::]", ("::", 3000)),
    ],
)
def test_bind(text: str, address: Address) -> None:
    assert parse_bind(text) == address


@pytest.mark.parametrize("text", ["x:", "x:http", "x:65536", "x:-1", "::1", "fe80::1:80", "x:٣"])
def test_a_bind_that_is_none(text: str) -> None:
    with pytest.raises(ConfigurationError, match="HOST:PORT"):
        parse_bind(text)


def test_a_port_alone_is_told_what_to_write() -> None:
    with pytest.raises(ConfigurationError, match=r"127\.0\.0\.1:3001 .* 0\.0\.0\.0:3001"):
        parse_bind("3001")


@pytest.mark.parametrize(
    ("asked", "bound", "url"),
    [
        (None, ("10.0.0.42", 3000), "ws://10.0.0.42:3000/objq/v1/"),
        (None, ("fd00::1", 3000), "ws://[fd00::1]:3000/objq/v1/"),
        (None, ("0.0.0.0", 3000), "ws://10.0.0.42:3000/objq/v1/"),
        (None, ("::", 3000), "ws://10.0.0.42:3000/objq/v1/"),
        ("wss://queue.example.com/objq/v1/", ("127.0.0.1", 1), "wss://queue.example.com/objq/v1/"),
        ("ws://broker:3000", ("0.0.0.0", 3000), "ws://broker:3000/objq/v1/"),
        ("wss://proxy/queue/", ("0.0.0.0", 3000), "wss://proxy/queue/"),
    ],
)
def test_what_is_advertised(asked: str | None, bound: Address, url: str) -> None:
    assert advertised(asked, bound) == Advertised(url)


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
@pytest.mark.parametrize("found", [None, "127.0.0.1", "0.0.0.0"])
def test_a_wildcard_is_never_advertised(host: str, found: str | None) -> None:
    with pytest.raises(ConfigurationError, match="--advertise ws://HOST:3000/objq/v1/"):
        advertised(None, (host, 3000), found)


@pytest.mark.parametrize("url", ["ws://0.0.0.0:3000/", "ws://[::]:3000/objq/v1/"])
def test_a_wildcard_is_not_advertised_on_request_either(url: str) -> None:
    with pytest.raises(ConfigurationError, match="anybody can connect"):
        advertised(url, ("10.0.0.42", 3000))


@pytest.mark.parametrize(
    "url", ["", "broker:3000", "http://broker/", "ws://", "ws://x:y/", "ws://[/"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="--advertise"):
        advertised(url, ("10.0.0.42", 3000))


@pytest.mark.parametrize(
    ("asked", "bound"),
    [
        (None, ("127.0.0.1", 3000)),
        (None, ("::1", 3000)),
        ("ws://localhost:3000/", ("0.0.0.0", 3000)),
    ],
)
def test_a_loopback_address_is_advertised_with_a_warning(asked: str | None, bound: Address) -> None:
    warning = advertised(asked, bound).warning
    assert warning is not None
    assert "only this machine" in warning
    assert advertised(asked, bound, local=True).warning is None


@pytest.mark.parametrize(
    ("host", "found", "url"),
    [
        ("0.0.0.0", "10.0.0.42", "ws://10.0.0.42:3000/objq/v1/"),
        ("0.0.0.0", None, "ws://127.0.0.1:3000/objq/v1/"),
        ("::", "127.0.0.1", "ws://[::1]:3000/objq/v1/"),
    ],
)
def test_a_wildcard_on_a_machine_of_its_own_means_loopback_only_if_nothing_else_is_there(
    host: str, found: str | None, url: str
) -> None:
    assert advertised(None, (host, 3000), found, local=True) == Advertised(url)


def test_a_port_that_is_bound_listens_at_once() -> None:
    with bind_socket(("localhost", 0)) as bound:
        socket.create_connection(bound.getsockname()[:2], timeout=10).close()


@pytest.mark.parametrize(
    ("address", "says"),
    [
        (("no-such-host.invalid", 0), "no such host"),
        (("192.0.2.1", 0), "does not have that address"),
    ],
)
def test_a_port_that_cannot_be_bound(address: Address, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        bind_socket(address)


def test_the_own_address_is_one_or_none() -> None:
    found = own_address()
    assert found is None or socket.getaddrinfo(found, None)
