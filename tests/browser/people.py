"""Who signs in, as commands that run beside the site.

python -m tests.browser.people prepare            tables, users; prints {name: session key}
python -m tests.browser.people grant NAME PERM …  these permissions and no others
python -m tests.browser.people sign-out NAME      end the user's sessions
"""

from __future__ import annotations

import json
import sys
from typing import Final, NamedTuple

import django


class Person(NamedTuple):
    staff: bool = True
    superuser: bool = False
    permissions: tuple[str, ...] = ()


PEOPLE: Final = {
    "boss": Person(superuser=True),
    "looker": Person(permissions=("view_queue",)),
    "manager": Person(permissions=("manage_queue",)),
    "clerk": Person(),
    "visitor": Person(staff=False),
}
"""A superuser, a staff user for each permission and for none, and one who is not staff."""


def prepare() -> None:
    from django.contrib.auth.models import User
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    keys = {}
    for name, person in PEOPLE.items():
        user = User.objects.create_user(
            name, password=name, is_staff=person.staff, is_superuser=person.superuser
        )
        grant(name, *person.permissions)
        keys[name] = sign_in(user.pk)
    print(json.dumps(keys))


def sign_in(pk: int) -> str:
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
    from django.contrib.auth.models import User
    from django.contrib.sessions.backends.db import SessionStore

    session = SessionStore()
    session[SESSION_KEY] = str(pk)
    session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session[HASH_SESSION_KEY] = User.objects.get(pk=pk).get_session_auth_hash()
    session.save()
    return str(session.session_key)


def grant(name: str, *permissions: str) -> None:
    from django.contrib.auth.models import Permission, User

    user = User.objects.get(username=name)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))


def sign_out(name: str) -> None:
    from django.contrib.auth.models import User
    from django.contrib.sessions.models import Session

    pk = str(User.objects.get(username=name).pk)
    for session in Session.objects.all():
        if session.get_decoded().get("_auth_user_id") == pk:
            session.delete()


def main() -> None:
    django.setup()
    command, *arguments = sys.argv[1:]
    match command:
        case "prepare":
            prepare()
        case "grant":
            grant(*arguments)
        case "sign-out":
            sign_out(*arguments)


if __name__ == "__main__":
    main()
