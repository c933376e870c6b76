"""The run itself. Django's settings must be in the environment before `run` is called."""

from __future__ import annotations

import json
import logging
import os
import random
import secrets
import sqlite3
import sys
import time
import webbrowser
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import django

from project.demo import DemoError, Stop
from project.demo.browser import Browser, Saved
from project.demo.corpus import Corpus, read
from project.demo.crowd import Crowd
from project.demo.report import Progress, Stage, spread
from project.demo.services import Addresses, start
from project.demo.stack import Stack

if TYPE_CHECKING:
    from pathlib import Path

CLIENTS: Final = 20
WORKERS: Final = 2

STALLED_S: Final = 60.0
POLL_S: Final = 0.5
LISTED: Final = 5

GOES_ON: Final = """\
A little work goes on: pages are indexed again, and some jobs fail, take long or wait for their
time. Cancel, retry and delete them, or pause a queue, as you like."""

DASHBOARD: Final = "/admin/objq_dashboard/queue/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    saves: tuple[Saved, ...]
    took_s: float


def run(folder: Path, source: Path, *, once: bool) -> None:
    """Do it all in `folder`; raises DemoError if anything is not as it should be."""
    corpus = read(source)
    if not corpus.modules:
        raise DemoError(f"There is no Python file in {source}.")
    print(
        f"{len(corpus.modules):,} modules in {corpus.folder}\n"
        f"Starting a broker, {WORKERS if once else WORKERS + 1} workers and a site; "
        f"their logs are in {folder}"
    )
    password = prepare()
    stack = Stack(folder, os.environ)
    try:
        addresses = start(stack, folder, workers=WORKERS, archivist=not once)
        if not once:
            open_dashboard(addresses)
        filled = fill(stack, addresses, corpus)
        report(corpus, filled)
        look_up(stack, addresses, corpus)
        if not once:
            print_addresses(addresses, password)
            print(f"\n{GOES_ON}\n\nCtrl-C stops everything.")
            stay(stack, addresses, corpus)
    except Stop:
        print(
            "\nStopping: the workers end their jobs or hand them back, which may take some "
            "seconds. Ctrl-C again does not wait …",
            flush=True,
        )
        raise
    finally:
        stack.stop()


def prepare() -> str:
    """Make the database and a user for the admin; return the password."""
    with closing(sqlite3.connect(":memory:")) as database:
        try:
            database.execute("CREATE VIRTUAL TABLE probe USING fts5(body)")
        except sqlite3.OperationalError as error:
            raise DemoError(
                f"This Python's SQLite {sqlite3.sqlite_version} has no full-text search ({error}). "
                "Use a Python whose sqlite3 is built with FTS5, such as Debian's python3."
            ) from error

    django.setup()
    logging.getLogger().setLevel(logging.WARNING)  # the demo's own output is what counts here
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from django.db import connections

    from project.entrance import USER

    call_command("migrate", verbosity=0)
    password = secrets.token_urlsafe(9)
    User.objects.create_superuser(USER, password=password)
    connections.close_all()
    return password


def fill(stack: Stack, addresses: Addresses, corpus: Corpus) -> Filled:
    """Save all modules through the site and wait until all are indexed."""
    total = len(corpus.modules)
    crowd = Crowd(addresses.site_port, CLIENTS, Browser.save, corpus.modules)
    progress = Progress()
    began = moved = time.monotonic()
    before: Stage | None = None
    crowd.start()
    try:
        with closing(Browser(addresses.site_port)) as watcher:
            while True:
                stack.check()
                saved = crowd.check()
                stage = look(watcher, total)
                progress.show(stage)
                if saved and stage.indexed >= total:
                    break
                if stage != before:
                    before, moved = stage, time.monotonic()
                if saved and stage.indexed + stage.failed >= total:
                    raise DemoError(failures())
                if time.monotonic() - moved > STALLED_S:
                    raise DemoError(f"Nothing has moved for {STALLED_S:.0f} s: {stage}")
                time.sleep(POLL_S)
    finally:
        progress.end()
    saves = tuple(saved for _, saved in crowd.results)
    return Filled(saves=saves, took_s=time.monotonic() - began)


def look(watcher: Browser, total: int) -> Stage:
    counts = json.loads(watcher.get("/status.json").text)["counts"]
    return Stage(
        pushed=counts["pushed"] or 0,
        running=counts["running"],
        indexed=counts["indexed"],
        failed=counts["failed"] or 0,
        total=total,
    )


def failures() -> str:
    from project.demo import figures

    failed = figures.ask().failures
    return "\n".join([f"{len(failed)} jobs failed:", *failed[:LISTED]])


def look_up(stack: Stack, addresses: Addresses, corpus: Corpus) -> None:
    """Search for every page through the site; raise DemoError with those that are not found."""
    crowd = Crowd(addresses.site_port, CLIENTS, Browser.finds, corpus.modules)
    crowd.start()
    while not crowd.check():
        stack.check()
        time.sleep(POLL_S)
    missed = sorted(module.path for module, found in crowd.results if not found)
    if missed:
        listed = ", ".join(missed[:LISTED])
        raise DemoError(f"{len(missed)} of {len(crowd.results)} pages are not found, as {listed}")
    print(f"  found by search       {len(crowd.results):,} of {len(corpus.modules):,} pages")


def stay(stack: Stack, addresses: Addresses, corpus: Corpus) -> None:
    from project.demo.trickle import Trickle

    with closing(Browser(addresses.site_port)) as browser:
        trickle = Trickle(browser, corpus.modules, random.Random())
        trickle.begin()
        while True:
            stack.check()
            trickle.step()
            time.sleep(POLL_S)


# --- what is printed ------------------------------------------------------------------------------


def open_dashboard(addresses: Addresses) -> None:
    """Open the dashboard, signed in, where there is a screen; anywhere else say where it is."""
    address = f"{site_url(addresses)}/enter/{os.environ['OBJQ_DEMO_ENTRANCE']}/"
    opened = has_screen() and webbrowser.open(address)
    print(
        f"\n  {'The dashboard opens' if opened else 'Watch it on the dashboard'}: {address}\n"
        "  Now is a good time: what follows is live there.\n"
    )


def has_screen() -> bool:
    """Say whether somebody looks on, and a browser would not take over this terminal instead."""
    if not sys.stdout.isatty():
        return False
    return sys.platform == "darwin" or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )


def site_url(addresses: Addresses) -> str:
    return f"http://127.0.0.1:{addresses.site_port}"


def report(corpus: Corpus, filled: Filled) -> None:
    from project.demo import figures

    asked = figures.ask()
    total = len(corpus.modules)
    posts = [saved.post_ms for saved in filled.saves]
    enqueues = [saved.enqueue_ms for saved in filled.saves if saved.enqueue_ms is not None]
    megabytes = sum(len(module.source) for module in corpus.modules) / 1e6
    print(
        f"\n  saved and indexed     {total:,} pages ({megabytes:.1f} million characters)"
        f" in {filled.took_s:.1f} s, {total / filled.took_s:.0f} a second\n"
        f"  push, as the browser  {spread(posts)}   (the whole POST, {CLIENTS} at a time)\n"
        f"  push, in the view     {spread(enqueues)}   (.enqueue() alone)\n"
        f"  enqueue to start      {spread(asked.starts_ms)}   (to the task's first line)\n"
        f"  of that, in the queue {spread(asked.waits_ms)}   (from its commit to its grant)\n"
        f"  commits               {asked.commits:,} for {asked.jobs:,} jobs, each pushed, claimed"
        " and completed"
    )
    if corpus.unreadable:
        listed = ", ".join(corpus.unreadable[:LISTED])
        count = len(corpus.unreadable)
        files = "1 file that is" if count == 1 else f"{count} files that are"
        print(f"  left out              {files} no readable text, as {listed}")


def print_addresses(addresses: Addresses, password: str) -> None:
    from project.entrance import USER

    site = site_url(addresses)
    print(
        f"\n  Dashboard  {site}{DASHBOARD}   (user {USER}, password {password})\n"
        f"  Site       {site}/\n"
        f"  Status     {site}/status/\n"
        f"  Broker     http://{addresses.broker}/readyz"
    )
