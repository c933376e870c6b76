"""Tokens for clients in other languages: what `objq_token` makes (design §7)."""

from __future__ import annotations

from typing import Final, NamedTuple

from objq.client.reading import document_reader
from objq.core.ops import BrokerInfo
from objq.errors import ConfigurationError
from objq.tokens import ALLOWED, ROLES, Role, make_token

LONGEST_TTL_S: Final = 3_650 * 86_400.0


def allowed_to(role: Role) -> str:
    """Return what a role may do, in words."""
    allowed = ALLOWED[role]
    if allowed is None:
        return "everything"
    *names, last = allowed
    return f"{', '.join(names)} and {last}"


class Issued(NamedTuple):
    """A token, the document it is for, and the broker that leads at the moment, if one does."""

    token: str
    document: str
    broker: BrokerInfo | None


def issue_token(alias: str, role: str | None, ttl_s: float | None) -> Issued:
    """Return a token for the document of `TASKS[alias]`, of which it reads the header.

    Raises ConfigurationError with what there is to choose from, NoDocument, and the other errors of
    reading the document.
    """
    if role not in ROLES:
        there = "\n".join(f"  {name:<7} {allowed_to(name)}" for name in ROLES)
        said = "Give the token a role" if role is None else f"There is no role {role!r}"
        raise ConfigurationError(f"{said}, with --role:\n{there}")
    if ttl_s is None:
        raise ConfigurationError(
            "Give the token a time to live, with --ttl: 12h, say, or 30d. A token cannot be taken "
            "back before it ends, other than by changing SECRET_KEY, so make it short."
        )
    if not 0 < ttl_s <= LONGEST_TTL_S:
        raise ConfigurationError(f"--ttl is from 1 s to {LONGEST_TTL_S / 86_400:,.0f}d.")
    with document_reader(alias) as reader:
        header = reader.header()
    return Issued(make_token(role, header.document, ttl_s=ttl_s), header.document, header.broker)
