"""All checks in their order; what rests on something that has failed is left out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import closing

from django.core.files.storage import storages

from objq import conf
from objq.client.reading import DocumentReader, Reading
from objq.client.registry import connect
from objq.clock import SYSTEM_CLOCK, Clock
from objq.core.ops import AllWorkers, Statistics
from objq.doctor.broker import check_broker
from objq.doctor.clocks import check_clock
from objq.doctor.configuration import check_settings
from objq.doctor.contents import check_document, check_shared_settings, check_totals
from objq.doctor.findings import Finding, ok, problem
from objq.doctor.storage import (
    check_file_system,
    check_old_versions,
    check_probe,
    check_reachable,
)
from objq.doctor.workers import check_workers, unknown_workers
from objq.errors import ConfigurationError, NoDocument, ObjqError
from objq.options import Options
from objq.store.base import Store
from objq.store.bucket import endpoint
from objq.store.open import open_store

logger = logging.getLogger("objq.doctor")

ASK_TIMEOUT_S = 5.0


def examine(alias: str, clock: Clock = SYSTEM_CLOCK) -> Iterator[Finding]:
    """Yield what each check finds, as soon as it has; never raises."""
    try:
        options = conf.options_for(alias)
        store = open_store(options.storage, options.name)
    except ConfigurationError as error:
        yield problem("settings", error.message)
        return
    with closing(store):
        yield from _guarded("settings", lambda: check_settings(alias, options))
        reached = list(_guarded("store", lambda: check_reachable(store)))
        yield from reached
        if any(finding.level == "problem" for finding in reached):
            return
        yield from _examine_store(options, store, clock)
        yield from _examine_document(alias, options, store, clock)


def _examine_store(options: Options, store: Store, clock: Clock) -> Iterator[Finding]:
    storage = storages[options.storage]
    scheme = store.name.partition("://")[0]
    yield from _guarded("probe", lambda: check_probe(store))
    yield from _guarded("folder", lambda: check_file_system(storage, options.name))
    yield from _guarded("versions", lambda: check_old_versions(storage, store))
    yield from _guarded(
        "clock",
        lambda: check_clock("clock", "The store", endpoint(storage, scheme), "/", clock),
    )


def _examine_document(
    alias: str, options: Options, store: Store, clock: Clock
) -> Iterator[Finding]:
    try:
        reading = DocumentReader(store, clock).read()
    except NoDocument as error:
        if options.mode == "direct":
            yield ok("document", f"There is no {store.name} yet; the first push creates it.")
        else:
            yield problem("document", error.message)
        return
    except ObjqError as error:
        yield problem("document", error.message)
        return
    yield from _guarded("document", lambda: check_document(reading))
    yield from _guarded("totals", lambda: check_totals(reading))
    yield from _guarded("shared", lambda: check_shared_settings(options, reading.document))
    yield from _examine_broker(alias, options, reading, clock)


def _examine_broker(
    alias: str, options: Options, reading: Reading, clock: Clock
) -> Iterator[Finding]:
    header = reading.document.header()

    def ask() -> Statistics:
        return connect(alias).stats(timeout_s=ASK_TIMEOUT_S)

    def ask_both() -> tuple[Statistics, AllWorkers]:
        return ask(), connect(alias).workers(timeout_s=ASK_TIMEOUT_S)

    found = list(_guarded("broker", lambda: check_broker(alias, options, header, ask)))
    yield from found
    if header.broker is None or any(finding.level == "problem" for finding in found):
        yield unknown_workers()
        return
    yield from _guarded("workers", lambda: check_workers(alias, ask_both))
    url = header.broker.url
    yield from _guarded("clock", lambda: check_clock("clock", "The broker", url, "/healthz", clock))


def _guarded(check: str, run: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """Yield what a check finds; one that fails itself must not hide what the others find."""
    try:
        yield from run()
    except Exception as error:
        logger.debug("check %s failed", check, exc_info=error)
        yield problem(check, f"The check itself has failed: {type(error).__name__}: {error}.")
