"""Who may see and who may steer; every page, endpoint and socket asks here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from objq_dashboard.options import options

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, PermissionsMixin

    User = AbstractBaseUser | PermissionsMixin | AnonymousUser

VIEW = "objq_dashboard.view_queue"
MANAGE = "objq_dashboard.manage_queue"


def may_manage(user: User) -> bool:
    # Whoever is staff has a model with permissions; the union of types does not say so.
    return _is_staff(user) and user.has_perm(MANAGE)  # type: ignore[union-attr]


def may_act(user: User) -> bool:
    """Whoever may steer does so only where the site is not read-only."""
    return may_manage(user) and not options().read_only


def may_view(user: User) -> bool:
    """Whoever may steer may also see."""
    # As above.
    return _is_staff(user) and (user.has_perm(VIEW) or user.has_perm(MANAGE))  # type: ignore[union-attr]


def _is_staff(user: User) -> bool:
    return bool(getattr(user, "is_active", False) and getattr(user, "is_staff", False))
