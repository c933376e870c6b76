"""The proxy and the supervisor are tools of many tests, so they are tested themselves."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.proxy import Answer, CutReply, Drop, Forward, Proxy, always, every_nth_write
from tests.supervise import CannotStart, Launch, locked, start_once, stop_all


class Echo(BaseHTTPRequestHandler):
    """Answers with what it was sent; `/chunked` in chunks, `/until-close` without a length."""

    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        answer = f"{self.path} {self.headers.get('X-Test')} ".encode() + body
        self.send_response(200)
        if self.path == "/chunked":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for at in range(0, len(answer), 1000):
                part = answer[at : at + 1000]
                self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
            self.wfile.write(b"0\r\n\r\n")
            return
        if self.path == "/until-close":
            self.close_connection = True
        else:
            self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def echo() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture
def proxy(echo: str) -> Iterator[Proxy]:
    with Proxy(echo) as proxy:
        yield proxy


@pytest.fixture
def client(proxy: Proxy) -> Iterator[http.client.HTTPConnection]:
    client = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=10)
    yield client
    client.close()


def put(client: http.client.HTTPConnection, path: str, body: bytes = b"") -> tuple[int, bytes]:
    client.request("PUT", path, body, {"X-Test": "yes"})
    with client.getresponse() as reply:
        return reply.status, reply.read()


@pytest.mark.parametrize("path", ["/plain", "/chunked", "/until-close"])
def test_passes_on(client: http.client.HTTPConnection, path: str) -> None:
    body = os.urandom(100_000)
    for _ in range(3):
        assert put(client, path, body) == (200, f"{path} yes ".encode() + body)


def test_passes_on_a_request_in_chunks(client: http.client.HTTPConnection) -> None:
    client.request(
        "PUT", "/", iter([b"one", b"two"]), {"Transfer-Encoding": "chunked"}, encode_chunked=True
    )
    assert client.getresponse().read() == b"/ None onetwo"


def test_asks_for_the_body_that_a_client_holds_back(client: http.client.HTTPConnection) -> None:
    client.putrequest("PUT", "/")
    client.putheader("Expect", "100-continue")
    client.putheader("Content-Length", "4")
    client.endheaders()
    assert client.sock is not None
    assert client.sock.recv(100).startswith(b"HTTP/1.1 100 ")
    client.send(b"body")
    assert client.getresponse().read() == b"/ None body"


def test_cuts_the_reply_of_every_third_write(
    proxy: Proxy, client: http.client.HTTPConnection
) -> None:
    proxy.rule = every_nth_write(3, CutReply(), containing="count")
    outcomes = []
    for number in range(9):
        put(client, "/other")
        try:
            outcomes.append(put(client, f"/count/{number}")[0])
        except (http.client.RemoteDisconnected, ConnectionResetError):
            outcomes.append(0)
    assert outcomes == [200, 200, 0] * 3
    assert proxy.count(lambda each: each.action == CutReply() and each.status == 200) == 3


def test_drops_answers_and_strips(proxy: Proxy, client: http.client.HTTPConnection) -> None:
    proxy.rule = always(Forward(strip=("x-test",), delay_s=0.001))
    assert put(client, "/") == (200, b"/ None ")
    proxy.rule = always(Answer(418, b"teapot", (("X-Why", "test"),)))
    assert put(client, "/") == (418, b"teapot")
    proxy.rule = always(Drop())
    with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
        put(client, "/")
    assert [each.status for each in proxy.exchanges] == [200, 418, 0]


def test_holds_until_told(proxy: Proxy, client: http.client.HTTPConnection) -> None:
    release = threading.Event()
    proxy.rule = always(Forward(until=release))
    client.request("PUT", "/")
    assert proxy.count(lambda each: True) == 0
    release.set()
    assert client.getresponse().status == 200
    proxy.wait_for(lambda each: each.status == 200)


def test_many_clients_at_once(proxy: Proxy) -> None:
    def run(number: int) -> None:
        client = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=30)
        for _ in range(20):
            body = str(number).encode() * 1000
            assert put(client, "/", body) == (200, b"/ yes " + body)
        client.close()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert proxy.count(lambda each: each.status == 200) == 400


def test_server_that_is_not_there() -> None:
    with Proxy("http://127.0.0.1:9") as proxy:
        client = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=10)
        with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
            put(client, "/")
        client.close()


def test_in_a_process_of_its_own(echo: str) -> None:
    command = [sys.executable, "-m", "tests.proxy", echo, "--cut-every", "2", "--strip", "X-Test"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        port = urlsplit(process.stdout.readline()).port
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        assert put(client, "/") == (200, b"/ None ")
        with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
            put(client, "/")
        client.close()
        process.stdin.close()
        assert process.wait(10) == 0


# --- servers for a whole run ---------------------------------------------------------------------

OWNER = """
import os, signal, sys
from pathlib import Path
from tests.supervise import Launch, start_once
sleep = Launch([sys.executable, "-c", "import time; time.sleep(600)"], {}, "url", lambda: None)
print(start_once(Path(sys.argv[1]) / "server", os.getpid(), lambda folder: sleep), flush=True)
sys.stdin.read()
"""


def sleeping(folder: Path) -> Launch:
    return Launch([sys.executable, "-c", "import time; time.sleep(600)"], {}, "url", lambda: None)


def wait_until_gone(folder: Path) -> None:
    """Wait for the supervisor's lock, which lasts as long as it does."""
    with locked(folder / "alive.lock"):
        pass


def test_server_is_started_once_and_stopped(tmp_path: Path) -> None:
    assert start_once(tmp_path / "server", os.getpid(), sleeping) == "url"
    pid = (tmp_path / "server/supervisor.pid").read_text()
    assert start_once(tmp_path / "server", os.getpid(), sleeping) == "url"
    assert (tmp_path / "server/supervisor.pid").read_text() == pid
    stop_all(tmp_path)
    wait_until_gone(tmp_path / "server")
    stop_all(tmp_path)


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_server_ends_with_its_owner(tmp_path: Path, end: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "url\n"
        owner.send_signal(end)
    wait_until_gone(tmp_path / "server")


def test_server_that_ends_at_once_is_reported_to_all_who_ask(tmp_path: Path) -> None:
    def broken(folder: Path) -> Launch:
        def never() -> None:
            raise OSError("not ready")

        return Launch([sys.executable, "-c", "raise SystemExit('out of order')"], {}, "url", never)

    for _ in range(2):
        with pytest.raises(CannotStart, match="out of order"):
            start_once(tmp_path / "server", os.getpid(), broken)
