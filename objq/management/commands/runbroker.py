"""`manage.py runbroker`: lead the queue of one document, or stand by to lead it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from objq.broker.broker import Broker
from objq.broker.this_process import broker_of_this_process
from objq.conf import options_for
from objq.errors import ObjqError
from objq.lines import log_to_stderr, say
from objq.server import binding
from objq.server.serving import serve
from objq.store import InThread, open_store
from objq.store.base import StoreError
from objq.store.patience import probe_patiently


class Command(BaseCommand):
    help = "Run a broker: it leads the queue, or stands by to take over from the one that does."

    def add_arguments(self, parser: CommandParser) -> None:
        for option, default, metavar, text in (
            ("--bind", "127.0.0.1:3000", "HOST:PORT", "where to listen (default: %(default)s)"),
            ("--advertise", None, "URL", "how others reach this broker (default: as it is bound)"),
            ("--backend", "default", "ALIAS", "alias in TASKS (default: %(default)s)"),
        ):
            parser.add_argument(option, default=default, metavar=metavar, help=text)

    def handle(self, *, bind: str, advertise: str | None, backend: str, **rest: Any) -> None:
        log_to_stderr(max(rest["verbosity"] - 1, 0))  # `announce` tells what is normal
        try:
            address = binding.parse_bind(bind)
            options = options_for(backend)
            store = open_store(options.storage, options.name)
            local = settings.DEBUG or store.name.startswith("file:")

            def make(bound: binding.Address) -> Broker:
                url, warning = binding.advertised_url(
                    advertise, bound, host_address=binding.own_address, local=local
                )
                if warning is not None:
                    with suppress(OSError):
                        self.stderr.write(self.style.WARNING(warning))
                made = InThread(store)
                return broker_of_this_process(made, options, advertise=url, bound=bound)

            def announce(line: str) -> None:
                say(self.stdout, f"{line} [{store.name}]")

            serve(make, address, announce, lambda: probe_patiently(store))
        except (ObjqError, StoreError) as error:
            raise CommandError(str(error)) from error
