"""`manage.py objq_worker`: take jobs and run them."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from objq.compat import DEFAULT_TASK_BACKEND_ALIAS
from objq.errors import ConfigurationError
from objq.lines import log_to_stderr
from objq.worker.process import ProcessOptions, WorkerProcess
from objq.worker.setup import DEFAULT_CONCURRENCY, queues_of


class Command(BaseCommand):
    help = "Take jobs from the queue and run them. Ends gracefully on SIGTERM and Ctrl-C."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--queue",
            action="append",
            default=[],
            metavar="NAME",
            help="a queue to take jobs from; may be given several times (default: all in QUEUES)",
        )
        parser.add_argument(
            "--concurrency",
            type=int,
            default=DEFAULT_CONCURRENCY,
            metavar="N",
            help="jobs to run at a time, each in a thread of its own (default: %(default)s)",
        )
        parser.add_argument(
            "--backend",
            default=DEFAULT_TASK_BACKEND_ALIAS,
            metavar="ALIAS",
            help="the alias in TASKS (default: %(default)s)",
        )
        parser.add_argument(
            "--burst", action="store_true", help="run what there is to do now, then exit"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if not 1 <= options["concurrency"] <= 1000:
            raise CommandError("--concurrency must be from 1 to 1000.")
        log_to_stderr(options["verbosity"])
        try:
            wanted = ProcessOptions(
                alias=options["backend"],
                queues=queues_of(options["backend"], options["queue"]),
                concurrency=options["concurrency"],
                burst=options["burst"],
            )
            process = WorkerProcess(wanted)
        except ConfigurationError as error:
            raise CommandError(error.message) from error
        sys.exit(process.run())
