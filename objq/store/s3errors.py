"""What the errors of an S3 client mean for the caller, apart for reads and writes.

Where an answer does not say for certain that nothing was applied, a write is `Ambiguous`.
"""

from __future__ import annotations

from typing import Final

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    LoginError,
    NoAuthTokenError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
    ProxyConnectionError,
    SSOError,
    TokenRetrievalError,
)
from urllib3.exceptions import HTTPError

from objq.store.base import (
    Ambiguous,
    Conflict,
    Denied,
    Missing,
    StoreError,
    Throttled,
    TooLarge,
    Unavailable,
    Unsupported,
)
from objq.store.http import retry_after_s

THROTTLED: Final = frozenset(
    {
        "SlowDown",
        "SlowDownWrite",
        "SlowDownRead",
        "RequestLimitExceeded",
        "BandwidthLimitExceeded",
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "RequestThrottled",
        "RequestThrottledException",
        "TooManyRequests",
        "TooManyRequestsException",
    }
)
DENIED: Final = frozenset(
    {
        # With status 400, where 403 would be expected:
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidToken",
        "TokenRefreshRequired",
        "AuthorizationHeaderMalformed",
    }
)
DENIED_FIX: Final = (
    "Check the credentials, and that they may get, put and list objects of this bucket."
)
DENIED_FIXES: Final = {
    "RequestTimeTooSkewed": "The clock of this machine is wrong: set it, with NTP.",
}
TOO_LARGE: Final = frozenset({"EntityTooLarge", "MaxMessageLengthExceeded"})

NOT_CONNECTED: Final = (EndpointConnectionError, ConnectTimeoutError, ProxyConnectionError)
NO_CREDENTIALS: Final = (
    CredentialRetrievalError,
    LoginError,
    NoAuthTokenError,
    NoCredentialsError,
    PartialCredentialsError,
    SSOError,
    TokenRetrievalError,
)

Failure = ClientError | BotoCoreError | HTTPError | OSError | ValueError
FAILURES: Final = (ClientError, BotoCoreError, HTTPError, OSError, ValueError)
"""The client wraps most of what goes wrong, but neither all that can while a body is being read
(urllib3's errors) nor a header that it cannot parse (ValueError)."""


def status_of(exc: Failure) -> int:
    """Return the HTTP status, or 0 if there was no reply."""
    if not isinstance(exc, ClientError):
        return 0
    return exc.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)


def code_of(exc: ClientError) -> str:
    """Return the store's own word for the error, such as `NoSuchKey`."""
    return exc.response.get("Error", {}).get("Code", "")


def is_absent(exc: Failure) -> bool:
    return (
        isinstance(exc, ClientError)
        and status_of(exc) == 404
        and code_of(exc) in ("NoSuchKey", "404")
    )


def write_error(name: str, exc: Failure, creating: bool) -> StoreError:
    """Return what a failed write means; `creating` if it expected no object."""
    known = _certain(name, exc)
    if known is not None:
        return known
    if not isinstance(exc, ClientError):
        return Ambiguous(f"{name}: the outcome of a write is not known: {exc}")
    status = status_of(exc)
    if status == 412:
        return Conflict(f"{name} has changed since it was read.")
    if status == 404 and not creating:
        return Conflict(f"{name} is no longer there.")
    # 409 means that another conditional write was under way, and that nobody says who won.
    if status == 409 or status >= 500 or status == 0 or code_of(exc) == "RequestTimeout":
        return Ambiguous(f"{name}: the outcome of a write is not known: {exc}")
    return Denied(f"{name}: the store refuses the write: {exc}")


def read_error(name: str, exc: Failure) -> StoreError:
    return _certain(name, exc) or Unavailable(f"{name} could not be read: {exc}")


def _certain(name: str, exc: Failure) -> StoreError | None:
    """Return the error if it says, for reads and writes alike, that nothing was done."""
    if isinstance(exc, NOT_CONNECTED):
        return Unavailable(f"{name}: the store cannot be reached: {exc}")
    if isinstance(exc, NO_CREDENTIALS):
        return Denied(
            f"{name}: no usable credentials ({exc}). Put access_key and secret_key into the "
            "OPTIONS of the storage, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY into the "
            "environment of every process, or give the machine a role."
        )
    if isinstance(exc, ParamValidationError):
        return Denied(f"{name}: the storage's options are refused: {exc}")
    if not isinstance(exc, ClientError):
        return None
    status, code = status_of(exc), code_of(exc)
    if status == 429 or code in THROTTLED:
        headers = exc.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
        return Throttled(f"{name}: the store asks to slow down: {exc}", retry_after_s(headers))
    if status in (401, 403) or code in DENIED:
        return Denied(f"{name}: access denied: {exc} {DENIED_FIXES.get(code, DENIED_FIX)}")
    if status == 413 or code in TOO_LARGE:
        return TooLarge(f"{name}: the store does not take so large an object: {exc}")
    if code == "NoSuchBucket":
        return Missing(f"{name}: there is no such bucket; create it first.")
    if status == 501:
        return Unsupported(f"{name}: the store does not know conditional requests: {exc}")
    return None
