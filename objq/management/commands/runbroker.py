"""`manage.py runbroker`: lead the queue of one document, or stand by to lead it."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from objq import binding
from objq.broker.broker import Broker
from objq.broker.probe_http import probe_http
from objq.clock import SYSTEM_CLOCK
from objq.conf import options_for
from objq.errors import ObjqError
from objq.ids import Ids
from objq.server import serve
from objq.store import InThread, open_store
from objq.store.base import StoreError
from objq.store.patience import probe_patiently


class Command(BaseCommand):
    help = "Run a broker: it leads the queue, or stands by to take over from the one that does."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--bind", default="127.0.0.1:3000", metavar="HOST:PORT", help="where to listen"
        )
        parser.add_argument("--advertise", metavar="URL", help="how others reach this broker")
        parser.add_argument("--backend", default="default", metavar="ALIAS", help="alias in TASKS")

    def handle(self, *, bind: str, advertise: str | None, backend: str, **_: Any) -> None:
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
                    self.stderr.write(self.style.WARNING(warning))
                return Broker(
                    InThread(store), options, clock=SYSTEM_CLOCK, ids=Ids(),
                    advertise=url, bound=bound, probe=probe_http,
                )  # fmt: skip

            def announce(line: str) -> None:
                self.say(f"{line} [{store.name}]")

            serve(make, address, announce, prepare=lambda: probe_patiently(store))
        except (ObjqError, StoreError) as error:
            raise CommandError(str(error)) from error

    def say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()  # a log file gets it now, too
