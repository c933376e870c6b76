"""What an HTTP exchange says, whichever client made it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from urllib3.exceptions import ConnectTimeoutError, NewConnectionError

from objq.store.base import Ambiguous, Tag, Unavailable

LONGEST_RETRY_AFTER_S: Final = 60.0
"""A store that asks for more than this is asked again all the same."""

_DEEPEST: Final = 10


def read_tag(name: str, text: str | None) -> Tag:
    """Return the tag that came with what was read. Raises Unavailable if none did.

    Whoever answers without one is no store: it is a proxy that serves a page of its own, say.
    """
    if not text:
        raise Unavailable(f"{name} could not be read: an answer without a tag is none of a store.")
    return Tag(text)


def written_tag(name: str, text: str | None) -> Tag:
    """Return the tag of what was written. Raises Ambiguous if the answer has none.

    The identical retry will find its own bytes, and with them the tag.
    """
    if not text:
        raise Ambiguous(f"{name} may have been written: the answer has no tag.")
    return Tag(text)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of the header `retry-after`, within reason, or None.

    Its form with a date is ignored: that would compare two machines' clocks.
    """
    value = next((text for name, text in headers.items() if name.lower() == "retry-after"), "")
    try:
        seconds = float(value)
    except ValueError:
        return None
    return min(seconds, LONGEST_RETRY_AFTER_S) if seconds >= 0 else None


def never_connected(exc: BaseException) -> bool:
    """Say whether the request surely never left: no connection, or no address for the name."""
    return any(
        isinstance(cause, (NewConnectionError, ConnectTimeoutError)) for cause in _causes(exc)
    )


def _causes(exc: BaseException, depth: int = 0) -> Iterator[BaseException]:
    """Yield the exception and all that it wraps: clients do so in every way there is."""
    yield exc
    if depth == _DEEPEST:
        return
    named = (getattr(exc, name, None) for name in ("__cause__", "reason", "inner_exception"))
    for inner in (*named, *exc.args):
        if isinstance(inner, BaseException):
            yield from _causes(inner, depth + 1)
