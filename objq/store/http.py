"""What an HTTP exchange says, whichever client made it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from urllib3.exceptions import ConnectTimeoutError, NewConnectionError

_DEEPEST: Final = 10


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of the header `retry-after`, or None.

    Its form with a date is ignored: that would compare two machines' clocks.
    """
    value = next((text for name, text in headers.items() if name.lower() == "retry-after"), "")
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if seconds >= 0 else None


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
