"""`manage.py objq_cat`: print the document as JSON, compressed or not."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from objq.conf import options_for
from objq.errors import ObjqError
from objq.showing import show_document, show_header
from objq.store import open_store
from objq.store.base import StoreError


class Command(BaseCommand):
    help = (
        "Print queue.json as JSON text, compressed or not. What is corrupt is printed as it is, "
        "with the reason on stderr and exit status 1."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--backend", default="default", metavar="ALIAS", help="alias in TASKS")
        parser.add_argument(
            "--header", action="store_true", help="only the header, by one read of 4 KiB"
        )

    def handle(self, *, backend: str, header: bool, **_: Any) -> None:
        try:
            options = options_for(backend)
            with closing(open_store(options.storage, options.name)) as store:
                shown = show_header(store) if header else show_document(store)
        except (ObjqError, StoreError) as error:
            raise CommandError(str(error)) from error
        self.put(shown.text)
        if shown.error is not None:
            self.stderr.write(self.style.ERROR(shown.error.message))
            sys.exit(1)

    def put(self, text: bytes) -> None:
        """Write the bytes as they are, where the output takes bytes; a corrupt object has any."""
        raw = getattr(self.stdout, "buffer", None)
        if raw is None:
            self.stdout.write(text.decode(errors="replace"), ending="")
            return
        self.stdout.flush()
        raw.write(text)
        raw.flush()
