"""A broker, workers and sites over one folder, for a browser to look at."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.error import URLError
from urllib.request import urlopen

from django.test import override_settings

import objq
from objq.client.shared import shared
from objq.client.sync import SyncClient
from tests.e2e.stack import ROOT, Stack, free_port

OVERVIEW: Final = "/admin/objq_dashboard/queue/"
DATABASE: Final = "site.sqlite3"


@dataclass(frozen=True)
class Site:
    """A site that is served: its process's name, its port, and the path that it is below."""

    name: str
    port: int
    prefix: str = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.prefix}"


class Place:
    """Everything that one browser meets. `client` is the test's own door to the queue."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.storage = {
            "BACKEND": "django.core.files.storage.FileSystemStorage",
            "OPTIONS": {"location": str(folder / "store")},
        }
        # A place of its own, as a site's code has: its paths are in the tracebacks.
        shutil.copytree(ROOT / "tests/browser/shop", folder / "shop")
        path = (ROOT, ROOT / "dashboard", folder)
        self.stack = Stack(
            folder,
            self.storage,
            {},
            {
                "DJANGO_SETTINGS_MODULE": "tests.browser.settings",
                "OBJQ_TEST_FOLDER": str(folder),
                "PYTHONPATH": ":".join(map(str, path)),
                "PYTHONUNBUFFERED": "1",
            },
        )
        self.sessions: dict[str, str] = {}

    # --- processes -------------------------------------------------------------------------------

    def prepare(self, like: Place | None = None) -> None:
        """Make the database, with everybody of `people` signed in; or copy that of another."""
        if like is None:
            self.sessions = json.loads(self._people("prepare"))
            return
        shutil.copy(like.folder / DATABASE, self.folder)
        self.sessions = like.sessions

    def broker(self, name: str = "broker", *command: str) -> int:
        """Start a broker, or what `command` names instead; return its port when it is ready."""
        port = free_port()
        arguments = command or ("-m", "django")
        self.stack.start(name, *arguments, "runbroker", "--bind", f"127.0.0.1:{port}")
        self.stack.wait_ready(name, port)
        return port

    def serve(
        self,
        name: str = "site",
        *,
        prefix: str = "",
        wsgi: bool = False,
        dashboard: Mapping[str, Any] | None = None,
    ) -> Site:
        """Start a site on a port of its own and return when it answers."""
        site = Site(name, free_port(), prefix)
        self.serve_again(site, wsgi=wsgi, dashboard=dashboard)
        return site

    def serve_again(
        self, site: Site, *, wsgi: bool = False, dashboard: Mapping[str, Any] | None = None
    ) -> None:
        """Start a site where it was, or is to be, and return when it answers."""
        with socket.socket() as listening:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(("127.0.0.1", site.port))
            listening.listen(128)
            number = listening.fileno()
            daphne = (
                "-m",
                "daphne",
                "-v",
                "0",
                "--fd",
                str(number),
                "tests.browser.asgi:application",
            )
            below = ("--root-path", site.prefix) if site.prefix else ()
            self.stack.start(
                site.name,
                *(("-m", "tests.browser.wsgi", str(number)) if wsgi else (*daphne, *below)),
                env={
                    "OBJQ_TEST_PREFIX": site.prefix,
                    "OBJQ_TEST_DASHBOARD": json.dumps(dict(dashboard or {})),
                },
                inherit=(number,),
            )
        self.stack.until(lambda: self._answers(site))

    def _answers(self, site: Site) -> bool:
        assert self.stack.processes[site.name].poll() is None, self.stack.logs()
        with contextlib.suppress(URLError, ConnectionError, TimeoutError):
            urlopen(f"{site.url}/admin/login/", timeout=30).close()
            return True
        return False

    def pause(self, name: str) -> None:
        """Stop a process without ending it, as a laptop that is shut."""
        self.stack.processes[name].send_signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        self.stack.processes[name].send_signal(signal.SIGCONT)

    # --- people and jobs -------------------------------------------------------------------------

    def grant(self, name: str, *permissions: str) -> None:
        """Give a user these permissions and no others."""
        self._people("grant", name, *permissions)

    def sign_out(self, name: str) -> None:
        self._people("sign-out", name)

    def open_gate(self, name: str) -> None:
        """Let the tasks `export_orders` that wait for this gate end."""
        (self.folder / name).touch()

    def wait_for(self, client: SyncClient, job_id: str, state: str) -> None:
        """Wait until a job is in this state."""

        def is_there() -> bool:
            (job,) = client.get([job_id]).jobs
            return job is not None and job.state == state

        self.stack.until(is_there)

    def _people(self, *arguments: str) -> str:
        done = subprocess.run(  # our own commands
            [sys.executable, "-m", "tests.browser.people", *arguments],
            env=self.stack.environment(),
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextlib.contextmanager
    def client(self) -> Iterator[SyncClient]:
        """Have this process's settings name the place's queue, and yield a client of it."""
        backend = {
            "BACKEND": "objq.backend.ObjqBackend",
            "QUEUES": [],
            "OPTIONS": {"STORAGE": "objq"},
        }
        with override_settings(STORAGES={"objq": self.storage}, TASKS={"default": backend}):
            try:
                yield objq.connect()
            finally:
                shared.reset()


@contextlib.contextmanager
def a_place(folder: Path, like: Place | None = None) -> Iterator[Place]:
    """Yield a place; of one like another only the database has to be copied."""
    place = Place(folder)
    try:
        place.prepare(like)
        yield place
    finally:
        place.stack.close()
