"""Bearer tokens: roles, documents, brokers, times."""

from __future__ import annotations

import pytest
from django.core import signing
from django.test import override_settings

from objq.core import ops
from objq.errors import NotBroker, Unauthorized
from objq.tokens import ROLES, SALT, Role, make_token, read_token, role_allows

WORK = {"claim", "heartbeat", "complete", "fail", "release"}
OPERATE = {"cancel", "retry", "delete", "run_now", "pause", "resume"}


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic(self) -> float:
        raise AssertionError("tokens know wall time only")


@pytest.mark.parametrize("role", ROLES)
def test_a_token_gives_back_its_role(role: Role) -> None:
    assert read_token(make_token(role, "d", "b"), "d", "b") == role


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        ("push", {"hello", "push", "get"}),
        ("work", {"hello", "push", "get"} | WORK),
        ("read", {"hello", "get", "list", "stats", "watch", "workers", "history"}),
        ("manage", set(ops.REQUESTS)),
    ],
)
def test_what_each_role_may_do(role: Role, allowed: set[str]) -> None:
    assert {name for name in ops.REQUESTS if role_allows(role, name)} == allowed
    assert set(ops.REQUESTS) >= OPERATE


@pytest.mark.parametrize(
    "text",
    ["", "x", "a:b", "é", "x" * 5_000, signing.dumps("x", salt="other")],
    ids=["empty", "x", "a:b", "not ASCII", "long", "signed for another purpose"],
)
def test_what_was_not_signed_here_is_refused(text: str) -> None:
    with pytest.raises(Unauthorized):
        read_token(text, "d", "b")


@pytest.mark.parametrize("payload", [{}, {"role": "king", "document": "d"}, {"role": "push"}, []])
def test_a_signed_payload_of_another_shape_is_refused(payload: object) -> None:
    with pytest.raises(Unauthorized):
        read_token(signing.Signer(salt=SALT).sign_object(payload), "d", "b")


def test_another_site_s_token_is_refused_and_says_why() -> None:
    with override_settings(SECRET_KEY="another"):
        token = make_token("push", "d", "b")
    with pytest.raises(Unauthorized, match="SECRET_KEY"):
        read_token(token, "d", "b")


def test_a_retired_key_is_still_honoured() -> None:
    token = make_token("push", "d", "b")
    with override_settings(SECRET_KEY="new", SECRET_KEY_FALLBACKS=["tests-only"]):
        assert read_token(token, "d", "b") == "push"


def test_a_token_for_another_broker_sends_its_maker_back_to_the_document() -> None:
    with pytest.raises(NotBroker, match=r"read queue\.json again"):
        read_token(make_token("push", "d", "old"), "d", "new")


def test_a_token_for_another_document_is_refused() -> None:
    with pytest.raises(Unauthorized, match="document other"):
        read_token(make_token("push", "other", ttl_s=60), "d", "b")


def test_a_broker_that_has_not_read_its_document_compares_none() -> None:
    assert read_token(make_token("push", "d", "b"), None, "b") == "push"


def test_a_token_with_a_time_to_live_ends() -> None:
    clock = Clock()
    token = make_token("read", "d", ttl_s=60, clock=clock)
    clock.now_ms += 59_999
    assert read_token(token, "d", "any", clock=clock) == "read"
    clock.now_ms += 1
    with pytest.raises(Unauthorized, match="objq_token"):
        read_token(token, "d", "any", clock=clock)


def test_a_token_for_a_broker_needs_no_clock() -> None:
    clock = Clock()
    token = make_token("push", "d", "b", clock=clock)
    clock.now_ms = 0
    assert read_token(token, "d", "b", clock=clock) == "push"


def test_a_token_that_would_last_for_ever_is_not_made() -> None:
    with pytest.raises(ValueError, match="time to live"):
        make_token("push", "d")


def test_a_role_that_is_none_is_not_made() -> None:
    with pytest.raises(ValueError, match="push, work, read, manage"):
        make_token("king", "d", "b")  # type: ignore[arg-type]
