"""The demo's parts, without its processes."""

from __future__ import annotations

import http.server
import io
import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from project.demo import ROOT, corpus
from project.demo.browser import Browser, SiteError
from project.demo.crowd import Crowd
from project.demo.report import Progress, Stage, percentile, spread
from project.demo.run import has_screen
from project.demo.stack import Ended, Stack

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


# --- the input ------------------------------------------------------------------------------------


def test_every_file_is_a_module_or_is_named(tmp_path: Path) -> None:
    for name, data in {
        "plain.py": b"word = 'short'\nlonger_identifier_here = 'considerably'\n",
        "package/__init__.py": b"",
        "package/latin.py": b"# coding: latin-1\n# \xe9t\xe9\n",
        "bad.py": b"# \xff\n",
        "nul.py": b"a\x00b",
        "site-packages/other.py": b"not of it",
        "package/__pycache__/old.py": b"not of it",
        "notes.txt": b"no module",
    }.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    found = corpus.read(tmp_path)
    assert [(module.path, module.title) for module in found.modules] == [
        ("package/__init__.py", "package"),
        ("package/latin.py", "package.latin"),
        ("plain.py", "plain"),
    ]
    assert found.unreadable == ("bad.py", "nul.py")
    assert "été" in found.modules[1].source
    empty, _, plain = found.modules
    assert empty.query == empty.token
    assert plain.query == f"considerably {plain.token}"
    assert len({module.token for module in found.modules}) == 3


def test_the_standard_library_is_there() -> None:
    found = corpus.read(corpus.library())
    assert len(found.modules) > 400
    assert "json/decoder.py" in {module.path for module in found.modules}


# --- the figures ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        ([7], 0.5, 7),
        ([1, 2], 0.5, 1),
        ([3, 1, 2], 0.5, 2),
        (range(1, 101), 0.99, 99),
        ([1, 9], 0.99, 9),
    ],
)
def test_percentile(values: list[float], share: float, expected: float) -> None:
    assert percentile(values, share) == expected


def test_spread() -> None:
    assert spread([]) == "not measured"
    assert spread([10.0, 12_345.0]) == "p50 10 ms   p99 12.3 s"


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


STAGE = Stage(pushed=50, running=4, indexed=25, failed=0, total=100)


def test_progress_is_one_line_of_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    out = Terminal()
    progress = Progress(out)
    progress.show(STAGE)
    progress.show(Stage(pushed=100, running=0, indexed=100, failed=0, total=100))
    progress.end()
    first, second = out.getvalue().strip("\r\n").split("\r")
    assert len(first) == len(second) == 79
    assert first.startswith("  █")
    assert "pushed 50  running 4  indexed 25 of 100" in first
    assert "░" not in second
    assert out.getvalue().endswith("\n")


def test_bar_has_three_parts() -> None:
    assert Progress(Terminal()).bar(STAGE, 20) == "█" * 5 + "▒" * 5 + "░" * 10


def test_progress_elsewhere_is_a_line_now_and_then() -> None:
    out = io.StringIO()
    progress = Progress(out)
    for _ in range(3):
        progress.show(STAGE)
    progress.end()
    assert out.getvalue() == "  pushed 50  running 4  indexed 25 of 100\n"


# --- the browsers ---------------------------------------------------------------------------------


class Site(http.server.BaseHTTPRequestHandler):
    """Answers POSTs with the statuses in `answers`, and keeps what was asked."""

    protocol_version = "HTTP/1.1"
    answers: list[int]
    asked: list[str]

    def do_GET(self) -> None:
        self.reply(200, 'name="csrfmiddlewaretoken" value="secret"')

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        assert "csrfmiddlewaretoken=secret" in body
        assert self.headers["Cookie"] == "csrftoken=biscuit"
        type(self).asked.append(self.path)
        self.reply(type(self).answers.pop(0), '<p role="alert">Too busy.</p>')

    def reply(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.send_header("Set-Cookie", "csrftoken=biscuit; Path=/")
        self.send_header("Retry-After", "0")
        self.send_header("Server-Timing", "save;dur=1.00, enqueue;dur=12.50")
        self.end_headers()
        self.wfile.write(text.encode())

    def log_request(self, code: object = "-", size: object = "-") -> None:
        pass


@pytest.fixture
def site_port() -> Iterator[int]:
    Site.answers, Site.asked = [], []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


MODULE = corpus.Module(path="a/b.py", title="a.b", source="x", token="t")


def test_a_busy_site_is_tried_again_at_the_page_that_it_has_saved(site_port: int) -> None:
    Site.answers = [503, 429, 302]
    browser = Browser(site_port)
    assert browser.save(MODULE).enqueue_ms == 12.5
    assert Site.asked == ["/new/", "/edit/a/b.py/", "/edit/a/b.py/"]
    browser.close()


def test_a_refusal_is_an_error_with_what_the_site_says(site_port: int) -> None:
    Site.answers = [422]
    browser = Browser(site_port)
    with pytest.raises(SiteError, match=r"a/b\.py: the site answered 422\. Too busy\."):
        browser.save(MODULE)
    browser.close()


def test_the_first_error_ends_a_crowd(site_port: int) -> None:
    Site.answers = [302, 422, 302, 302]
    crowd = Crowd(site_port, 1, Browser.save, [MODULE] * 4)
    crowd.start()
    for thread in crowd.threads:
        thread.join()
    with pytest.raises(SiteError):
        crowd.check()
    assert len(crowd.results) == 1


# --- the dashboard --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tty", "display", "opens"), [(True, ":0", True), (True, "", False), (False, ":0", False)]
)
def test_a_browser_is_opened_only_where_somebody_sees_it(
    tty: bool, display: str, opens: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("sys.stdout", Terminal() if tty else io.StringIO())
    monkeypatch.setenv("DISPLAY", display)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert has_screen() is opens


# --- the processes --------------------------------------------------------------------------------


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    stack = Stack(tmp_path, os.environ)
    yield stack
    stack.stop()


def test_a_process_that_ends_is_said_with_its_log(stack: Stack) -> None:
    code = "import sys; print('there is no broker'); sys.exit(3)"
    worker = stack.start("worker", ["-c", code])
    worker.popen.wait()
    with pytest.raises(Ended, match=r"worker ended by itself \(exit code 3\)(.|\n)*no broker"):
        stack.check()


def test_a_process_that_is_not_ready_in_time(stack: Stack) -> None:
    sleeper = stack.start("site", ["-c", "import signal; signal.pause()"])
    with pytest.raises(Ended, match="site is not ready after 0 s"):
        stack.wait_for(sleeper, lambda: False, 0.0)


STUBBORN = """
import signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
while True: signal.pause()
"""


def test_stopping_ends_also_who_does_not_want_to(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("project.demo.stack.GRACE_S", 0.2)
    good = stack.start("broker", ["-c", "import signal; signal.pause()"])
    bad = stack.start("worker", ["-c", STUBBORN])
    stack.wait_for(bad, lambda: "ready" in bad.tail(), 30.0)
    stack.stop()
    assert good.popen.returncode is not None
    assert bad.popen.returncode == -9
    stack.stop()


# --- being stopped --------------------------------------------------------------------------------

STOPPED = """
import os, sys
from project.demo import __main__, run

run.run = lambda *_, **__: exec("os.kill(os.getpid(), int(os.environ['NUMBER']))")
sys.exit(__main__.main())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_ends_well_also_where_python_runs_code_made_of_a_string(
    tmp_path: Path, number: signal.Signals
) -> None:
    """As for every dataclass at import. See `Stop`."""
    (tmp_path / "stopped.py").write_text(STOPPED)
    data = tmp_path / "data"
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)]),
        "OBJQ_DEMO_DATA": str(data),
        "NUMBER": str(int(number)),
    }
    # With -m, as people start it: only then does CPython end itself so.
    ended = subprocess.run([sys.executable, "-m", "stopped"], env=environ, check=False)
    assert ended.returncode == 0
    assert list(data.iterdir()) == []
