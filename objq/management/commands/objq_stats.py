"""`manage.py objq_stats`: how many jobs there are, and where."""

from __future__ import annotations

import time
from contextlib import closing, suppress
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from objq.clock import SYSTEM_CLOCK
from objq.errors import ObjqError
from objq.lines import while_somebody_reads
from objq.overview import Source, as_json, as_text

CLEAR = "\x1b[H\x1b[2J"
LONGEST_S = 86_400


class Command(BaseCommand):
    help = (
        "Show the queues: how many jobs are ready, scheduled, running, dead and finished. Asks "
        "the broker; when none answers, reads queue.json itself and says so."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--backend", default="default", metavar="ALIAS", help="alias in TASKS")
        parser.add_argument("--json", action="store_true", help="one line of JSON")
        parser.add_argument(
            "--watch", nargs="?", type=float, const=2.0, metavar="SECONDS",
            help="again and again, every so many seconds (default: 2), until Ctrl-C",
        )  # fmt: skip

    def handle(self, *, backend: str, json: bool, watch: float | None, **_: Any) -> None:
        if watch is not None and not 0 < watch <= LONGEST_S:  # also for NaN
            raise CommandError(f"--watch takes seconds: above 0, and at most {LONGEST_S:,}.")
        try:
            with while_somebody_reads(), closing(Source(backend, SYSTEM_CLOCK.wall_ms)) as source:
                if watch is None:
                    self.show(source, json)
                    return
                with suppress(KeyboardInterrupt):
                    self.watch(source, json, watch)
        except ObjqError as error:
            raise CommandError(error.message) from error

    def show(self, source: Source, json: bool) -> None:
        overview = source.look()
        self.stdout.write(as_json(overview) if json else as_text(overview))
        self.stdout.flush()

    def watch(self, source: Source, json: bool, every_s: float) -> None:
        while True:
            if not json:
                self.stdout.write(CLEAR if self.stdout.isatty() else "")
            try:
                self.show(source, json)
            except ObjqError as error:  # it may pass, and somebody watches for that
                self.stderr.write(error.message)
            time.sleep(every_s)
