"""Who gets to the socket: from which pages, under which paths, and with which session."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client

from objq_dashboard import routing
from objq_dashboard.live.origins import is_own
from objq_dashboard.live.signedin import pass_for, refusal
from tests.dashboard.peer import Peer

if TYPE_CHECKING:
    from pytest_django.fixtures import Settings

# --- origins -------------------------------------------------------------------------------------


def asked(origin: str | None, host: str = "example.com", **more: str) -> bool:
    named = {"host": host, **more} | ({} if origin is None else {"origin": origin})
    return is_own([(name.replace("_", "-").encode(), it.encode()) for name, it in named.items()])


@pytest.mark.parametrize(
    ("origin", "host", "own"),
    [
        ("https://example.com", "example.com", True),
        ("http://EXAMPLE.com:8000", "example.com:8000", True),
        ("https://example.com", "example.com:8000", False),
        ("https://sub.example.com", "example.com", False),
        ("https://evil.org", "example.com", False),
        ("https://evil.org", "evil.org", False),  # allowed is not whatever name one gives the site
        ("https://example.com.evil.org", "example.com", False),
        ("https://trusted.org", "example.com", True),
        ("http://trusted.org", "example.com", False),
        ("https://a.wide.org", "example.com", True),
        ("https://awide.org", "example.com", False),
        ("null", "example.com", False),
        ("", "example.com", False),
        ("https://[", "example.com", False),
        (None, "example.com", False),
        ("https://example.com", "", False),
    ],
)
def test_only_pages_from_where_forms_are_taken(
    settings: Settings, origin: str | None, host: str, own: bool
) -> None:
    settings.ALLOWED_HOSTS = ["example.com"]
    settings.CSRF_TRUSTED_ORIGINS = ["https://trusted.org", "https://*.wide.org"]
    assert asked(origin, host) is own


def test_hosts_that_are_all_allowed_open_no_door_to_others(settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    assert asked("https://example.com")
    assert not asked("https://evil.org")


def test_behind_a_proxy_the_forwarded_host_counts_if_the_site_says_so(settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["example.com", "app"]
    assert not asked("https://example.com", "app", x_forwarded_host="example.com")
    settings.USE_X_FORWARDED_HOST = True
    assert asked("https://example.com", "app", x_forwarded_host="example.com")


# --- paths ---------------------------------------------------------------------------------------


def a_scope(path: str, **changes: Any) -> dict[str, Any]:
    return {"type": "websocket", "path": path, "headers": [], **changes}


@pytest.mark.parametrize(
    ("path", "served"),
    [
        ("/admin/objq_dashboard/queue/live/", True),
        ("/below/a/prefix/staff/objq_dashboard/queue/live/", True),
        ("/admin/objq_dashboard/queue/live/more/", False),
        ("/live/", False),
        ("/", False),
    ],
)
async def test_the_socket_is_wherever_the_admin_is(
    monkeypatch: pytest.MonkeyPatch, path: str, served: bool
) -> None:
    met: list[str] = []

    async def guarded(scope: dict[str, Any], receive: Any, send: Any) -> None:
        met.append("the dashboard")

    async def others(scope: dict[str, Any], receive: Any, send: Any) -> None:
        met.append("others")

    monkeypatch.setattr(routing, "_guarded", guarded)
    peer = Peer(routing.dashboard_sockets(others), a_scope(path))
    await peer.ended()
    assert met == ["the dashboard" if served else "others"]


async def test_a_path_of_nobody_and_a_page_of_others_are_refused() -> None:
    headers = [(b"host", b"testserver"), (b"origin", b"http://evil.org")]
    for scope in (a_scope("/nowhere/"), a_scope(routing.PATH, headers=headers)):
        peer = Peer(routing.dashboard_sockets(), scope)
        peer.put({"type": "websocket.connect"})
        assert await peer.event() == {"type": "websocket.close"}
        await peer.ended()


async def test_it_serves_nothing_but_sockets() -> None:
    peer = Peer(routing.dashboard_sockets(), a_scope("/", type="http"))
    with pytest.raises(ValueError, match="http"):
        await peer.ended()


async def test_the_site_of_the_demo_serves_it() -> None:
    from project.asgi import application

    for path in ("/nowhere/", "/admin/objq_dashboard/queue/live/"):
        peer = Peer(application, a_scope(path))  # without an origin
        peer.put({"type": "websocket.connect"})
        assert await peer.event() == {"type": "websocket.close"}
        await peer.ended()


def test_the_routing_can_be_imported_before_django_is_set_up() -> None:
    command = [sys.executable, "-c", "import objq_dashboard.routing"]
    environment = {"PYTHONPATH": ":".join(sys.path)}
    subprocess.run(command, check=True, timeout=60, env=environment)


# --- sessions ------------------------------------------------------------------------------------


@pytest.fixture
def session(signed_in: Callable[..., Client]) -> str:
    """Return the key of the session of somebody who may see the queue."""
    key = signed_in("view_queue").session.session_key
    assert key is not None
    return key


def may_look_on(session: str | None) -> bool:
    """Tell whether somebody with a good pass of "someone" may look on with this session."""
    user = User.objects.filter(username="someone").first()
    found = refusal(session, pass_for(user) if user else "")
    assert found in (None, "denied")
    return found is None


def test_a_session_of_who_may_see(session: str) -> None:
    assert may_look_on(session)
    assert not may_look_on(None)
    assert not may_look_on("nonsense")


def test_a_session_without_the_permission(signed_in: Callable[..., Client]) -> None:
    assert not may_look_on(signed_in().session.session_key)


def other_password() -> None:
    user = User.objects.get(username="someone")
    user.set_password("another")
    user.save()


ENDS: dict[str, Callable[[], object]] = {
    "inactive": lambda: User.objects.update(is_active=False),
    "no staff": lambda: User.objects.update(is_staff=False),
    "no permission": lambda: User.objects.get().user_permissions.clear(),
    "another password": other_password,
    "signed out": lambda: Session.objects.all().delete(),
    "too old": lambda: Session.objects.update(expire_date=datetime(2000, 1, 1, tzinfo=UTC)),
    "deleted": lambda: User.objects.all().delete(),
}


@pytest.mark.parametrize("end", ENDS)
def test_what_ends_it(session: str, end: str) -> None:
    assert may_look_on(session)
    ENDS[end]()
    assert not may_look_on(session)


def test_a_backend_that_the_site_has_no_more(session: str, settings: Settings) -> None:
    settings.AUTHENTICATION_BACKENDS = []
    assert not may_look_on(session)


def test_a_rotated_key_signs_nobody_out(session: str, settings: Settings) -> None:
    """Django's own reading makes a new session then, which a socket cannot hand to the browser."""
    before = Session.objects.get().session_data
    settings.SECRET_KEY, old = "another", settings.SECRET_KEY
    settings.SECRET_KEY_FALLBACKS = [old]
    assert may_look_on(session)
    settings.SECRET_KEY_FALLBACKS = []
    assert not may_look_on(session)
    assert Session.objects.get().session_data == before


def test_a_pass_is_of_its_user_and_password(session: str, settings: Settings) -> None:
    user, other = User.objects.get(), User.objects.create_user("another", is_staff=True)
    given = pass_for(user)
    assert refusal(session, given) is None
    assert refusal(session, "") == "unknown"
    assert refusal(session, pass_for(other)) == "unknown"
    assert refusal("nonsense", given) == "denied"
    settings.SECRET_KEY, old = "another", settings.SECRET_KEY
    settings.SECRET_KEY_FALLBACKS = [old]
    assert refusal(session, given) is None
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = old, []
    other_password()
    assert refusal(session, given) == "denied"  # that ends the session as well
    browser = Client()
    browser.force_login(User.objects.get(username="someone"))
    assert refusal(browser.session.session_key, given) == "unknown"


def test_a_check_reads_session_and_user_once(
    session: str, django_assert_max_num_queries: Callable[..., Any]
) -> None:
    given = pass_for(User.objects.get())
    with django_assert_max_num_queries(4) as found:
        assert refusal(session, given) is None
    for table in ("django_session", "auth_user"):
        assert sum(f'FROM "{table}"' in each["sql"] for each in found.captured_queries) == 1
