from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _


class Queue(models.Model):
    """The dashboard's place in the admin: no table, only a name, a link and two permissions."""

    class Meta:
        managed = False
        default_permissions = ()
        permissions: ClassVar = [
            ("view_queue", _("Can see the job queue")),
            ("manage_queue", _("Can steer the job queue")),
        ]
        verbose_name = _("queue")
        verbose_name_plural = _("queues")

    def __str__(self) -> str:
        return str(self._meta.verbose_name)
