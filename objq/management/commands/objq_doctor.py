"""`manage.py objq_doctor`: what is wrong, and what to do."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from objq.client.reading import document_reader
from objq.doctor.examination import examine
from objq.doctor.findings import as_json, as_line
from objq.doctor.treatment import adopt_document, confirm, explain, upgrade_notice
from objq.errors import ObjqError


class Command(BaseCommand):
    help = "Check settings, store, document, broker, workers, clocks. Exit status 1 on a problem."
    requires_system_checks = ()  # the doctor runs them itself and reports them with the rest

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--backend", default="default", metavar="ALIAS", help="alias in TASKS")
        parser.add_argument("--json", action="store_true", help="the findings as JSON")
        instead = parser.add_mutually_exclusive_group()
        instead.add_argument("--adopt", action="store_true", help="go on with a restored document")
        instead.add_argument("--upgrade", action="store_true", help="write the newest schema")
        parser.add_argument("--yes", action="store_true", help="adopt without asking")

    def handle(
        self, *, backend: str, json: bool, adopt: bool, upgrade: bool, yes: bool, **_: Any
    ) -> None:
        try:
            if adopt:
                self.adopt(backend, yes)
            elif upgrade:
                self.stdout.write(upgrade_notice(backend))
            else:
                self.examine(backend, json)
        except ObjqError as error:
            raise CommandError(error.message) from error

    def examine(self, backend: str, json: bool) -> None:
        findings = []
        for finding in examine(backend):
            findings.append(finding)
            if not json:
                self.stdout.write(as_line(finding))
        if json:
            self.stdout.write(as_json(findings))
        if any(finding.level == "problem" for finding in findings):
            sys.exit(1)

    def adopt(self, backend: str, yes: bool) -> None:
        with document_reader(backend) as reader:
            reading = reader.read()
            self.stdout.write(explain(reading, reader.store.name))
            if not yes:
                confirm()
            document = adopt_document(reader.store, reading.document)
        self.stdout.write(f"Adopted as document {document.id}, epoch {document.epoch}.")
