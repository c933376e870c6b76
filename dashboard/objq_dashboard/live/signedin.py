"""Who a session belongs to, as it is in the database just now; for sockets, which outlive requests.

It decides as `django.contrib.auth.get_user` does, but changes nothing: a socket cannot give the
browser the new session that Django makes when the secret key was rotated, so making one would sign
the user out.

What it cannot ask are the rules of an AdminSite (`has_permission`, such as a second factor) and of
middleware: these look at requests. So a page, which has met them all, holds a pass, and a socket
without the pass of its user is not served, nor any longer when it is not one any more.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal

from django.conf import settings
from django.contrib.auth import (
    BACKEND_SESSION_KEY,
    HASH_SESSION_KEY,
    SESSION_KEY,
    get_user_model,
    load_backend,
)
from django.utils.crypto import constant_time_compare, salted_hmac

from objq_dashboard.access import may_view

if TYPE_CHECKING:
    from objq_dashboard.access import User


SALT: Final = "objq_dashboard.live"

Refusal = Literal["denied", "unknown"]


def refusal(session_key: str | None, given_pass: str) -> Refusal | None:
    """Read session, user and permissions, once; return None if they and the pass let look on.

    `denied`: they do not allow to see the queue. A session that has ended (by logging out, by its
    age, by another password) belongs to nobody. `unknown`: it is no pass of this user.
    """
    user = None if session_key is None else _user(session_key)
    if user is None or not may_view(user):
        return "denied"
    return None if _is_pass(user, given_pass) else "unknown"


def pass_for(user: Any) -> str:
    """Return what a page shows the socket to prove that the site has let its user in.

    It is good for this user until the password changes, together with a session.
    """
    return _pass_for(user, settings.SECRET_KEY)


def _is_pass(user: User, given: str) -> bool:
    keys = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    return any(constant_time_compare(given, _pass_for(user, key)) for key in keys)


def _pass_for(user: Any, secret: str | bytes) -> str:
    # Of the password itself, since the session's hash of it is another after a rotation of keys.
    value = f"{user.pk}:{getattr(user, 'password', '')}"
    return salted_hmac(SALT, value, secret=secret, algorithm="sha256").hexdigest()


def _user(session_key: str) -> User | None:
    session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    backend_path = session.get(BACKEND_SESSION_KEY)
    if SESSION_KEY not in session or backend_path not in settings.AUTHENTICATION_BACKENDS:
        return None
    user_id = get_user_model()._meta.pk.to_python(session[SESSION_KEY])
    # What it returns is of the site's own user model.
    user: Any = load_backend(backend_path).get_user(user_id)
    if user is None or not _is_of(user, session.get(HASH_SESSION_KEY) or ""):
        return None
    return user  # type: ignore[no-any-return]  # as above


def _is_of(user: Any, session_hash: str) -> bool:
    if not hasattr(user, "get_session_auth_hash"):
        return True
    good = [user.get_session_auth_hash(), *user.get_session_auth_fallback_hash()]
    return any(constant_time_compare(session_hash, each) for each in good)
