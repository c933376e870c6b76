"""Bearer tokens of the wire: who may do what, to which document (design §7).

A token is signed with Django's `SECRET_KEY` (`SECRET_KEY_FALLBACKS` are honoured) and names a role
and a document. A client that shares the settings makes its own for the broker it is about to call:
that token names the broker's id and needs no clock. A token for a client in another language is
made with `manage.py objq_token`, names no broker and ends after its time to live, by the wall
clocks of the two machines. Tokens are read when a socket opens, and not again while it is open.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

import msgspec
from django.core import signing

from objq.clock import SYSTEM_CLOCK, Clock
from objq.errors import NotBroker, Unauthorized

Role = Literal["push", "work", "read", "manage"]

ROLES: Final[tuple[Role, ...]] = get_args(Role)

SALT: Final = "objq.tokens.v1"

MAX_TOKEN_CHARS: Final = 2_048

_PUSH: Final = ("push", "get")
_WORK: Final = (*_PUSH, "claim", "heartbeat", "complete", "fail", "release")
_READ: Final = ("get", "list", "stats", "workers", "history", "watch")

ALLOWED: Final[dict[Role, tuple[str, ...] | None]] = {
    "push": _PUSH,
    "work": _WORK,
    "read": _READ,
    "manage": None,
}
"""What each role may send beside `hello`, by the names on the wire; None: everything."""


class Payload(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    role: Role
    document: str
    broker: str | None = None
    expires_s: int | None = None


def role_allows(role: Role, op_name: str) -> bool:
    """Tell whether a role may send an operation, by its name on the wire."""
    allowed = ALLOWED[role]
    return allowed is None or op_name == "hello" or op_name in allowed


def make_token(
    role: Role,
    document: str,
    broker: str | None = None,
    ttl_s: float | None = None,
    *,
    clock: Clock = SYSTEM_CLOCK,
) -> str:
    """Return a token for one document, for one broker (`broker`) or some time (`ttl_s`, seconds).

    Raises ValueError without either of them: such a token could never be taken back.
    """
    if role not in ROLES:
        raise ValueError(f"There is no role {role!r}; the roles are {', '.join(ROLES)}.")
    if broker is None and ttl_s is None:
        raise ValueError("A token needs a broker's id or a time to live.")
    expires_s = None if ttl_s is None else int(clock.wall_ms() / 1000 + ttl_s)
    payload = Payload(role=role, document=document, broker=broker, expires_s=expires_s)
    return signing.Signer(salt=SALT).sign_object(msgspec.to_builtins(payload))


def read_token(
    text: str, document: str | None, broker: str, *, clock: Clock = SYSTEM_CLOCK
) -> Role:
    """Return the role of a token that this broker honours for this document.

    `document` is None while this process has not read it yet; then it is not compared.
    Raises Unauthorized if the token is forged, has ended or is for another document, and NotBroker
    if it is genuine but was made for another broker: the caller has read an old `queue.json`.
    """
    if len(text) > MAX_TOKEN_CHARS:
        raise Unauthorized("This is too long to be a token of objq.")
    try:
        value = signing.Signer(salt=SALT).unsign_object(text)
        payload = msgspec.convert(value, Payload)
    except (signing.BadSignature, msgspec.ValidationError, ValueError):
        raise Unauthorized(
            "The token is not signed with this site's SECRET_KEY or one of SECRET_KEY_FALLBACKS: "
            "use the same settings as the broker, or make one with `manage.py objq_token`."
        ) from None
    if payload.broker is not None and payload.broker != broker:
        raise NotBroker(
            f"The token was made for broker {payload.broker} and this is {broker}: "
            "read queue.json again for the broker's address and id."
        )
    if payload.expires_s is not None and clock.wall_ms() >= payload.expires_s * 1000:
        raise Unauthorized("The token has ended: make a new one with `manage.py objq_token`.")
    if document is not None and payload.document != document:
        raise Unauthorized(
            f"The token is for document {payload.document} and this broker serves {document}: "
            "make one with `manage.py objq_token` on this site."
        )
    return payload.role
