"""`manage.py objq_token`: make a token for a client in another language."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from objq.durations import in_words, parse_duration_s
from objq.errors import ObjqError
from objq.issuing import issue_token
from objq.tokens import ROLES


class Command(BaseCommand):
    help = (
        "Print a token for a client in another language (docs/wire.md). The token alone goes to "
        "stdout: TOKEN=$(manage.py objq_token --role push --ttl 30d)"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--role", metavar="ROLE", help=f"what it allows: {', '.join(ROLES)}")
        parser.add_argument("--ttl", metavar="TIME", help="how long: 90 (seconds), 45m, 12h, 30d")
        parser.add_argument("--backend", default="default", metavar="ALIAS", help="alias in TASKS")

    def handle(
        self, *, role: str | None, ttl: str | None, backend: str, verbosity: int, **_: Any
    ) -> None:
        try:
            ttl_s = None if ttl is None else parse_duration_s(ttl)
            issued = issue_token(backend, role, ttl_s)
        except ValueError as error:
            raise CommandError(f"--ttl: {error}") from error
        except ObjqError as error:
            raise CommandError(error.message) from error
        self.stdout.write(issued.token)
        if verbosity < 1:
            return
        where = issued.broker.url if issued.broker else "the broker (none leads at the moment)"
        self.stderr.write(
            f"Role {role}, document {issued.document}, ends in {in_words(ttl_s or 0)}.\n"
            f"Send it to {where} as the header: Authorization: Bearer TOKEN"
        )
