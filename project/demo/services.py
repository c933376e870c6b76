"""What the demo starts: a broker, workers and the site, on free ports of 127.0.0.1."""

from __future__ import annotations

import http.client
import json
import socket
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from pathlib import Path

    from project.demo.stack import Process, Stack

CONCURRENCY: Final = 4
SITE_GRACE_S: Final = 1.0
"""A daphne that is stopped in the middle of a request waits for it for ever, and nothing that a
browser still asks for is worth that."""

READY_S: Final = 60.0
ASK_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """`broker` is host and port."""

    site_port: int
    broker: str


def start(stack: Stack, folder: Path, *, workers: int, archivist: bool) -> Addresses:
    """Start all and wait until they can be used; raises Ended if one cannot.

    With `archivist` there is one more worker, for the queue `archive` and one job at a time.
    """
    broker = stack.start("broker", ["manage.py", "runbroker", "--bind", "127.0.0.1:0"])
    site_port, site = start_site(stack)
    for number in range(1, workers + 1):
        start_worker(stack, f"worker-{number}", "default", CONCURRENCY)
    if archivist:
        start_worker(stack, f"worker-{workers + 1}", "archive", 1)

    document = folder / "queue" / "queue.json"
    stack.wait_for(broker, lambda: answers(broker_address(document), "/readyz"), READY_S)
    stack.wait_for(site, lambda: answers(f"127.0.0.1:{site_port}", "/status.json"), READY_S)
    return Addresses(site_port=site_port, broker=broker_address(document))


def start_worker(stack: Stack, name: str, queue: str, concurrency: int) -> None:
    options = ["--queue", queue, "--concurrency", str(concurrency)]
    stack.start(name, ["manage.py", "objq_worker", *options])


def start_site(stack: Stack) -> tuple[int, Process]:
    """Start daphne on a port that is already bound, so that nobody can take it in between."""
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", 0))
        listening.listen(128)
        port: int = listening.getsockname()[1]
        number = listening.fileno()
        command = ["-m", "daphne", "-v", "0", "--fd", str(number), "project.asgi:application"]
        site = stack.start("site", command, inherit=number, grace_s=SITE_GRACE_S)
    return port, site


def broker_address(document: Path) -> str:
    """Return host and port of the broker as they stand in `queue.json`; empty if there is none."""
    try:
        broker = json.loads(document.read_bytes())["broker"]
    except (OSError, ValueError):
        return ""
    return urlsplit(broker["url"]).netloc if broker else ""


def answers(address: str, path: str) -> bool:
    if not address:
        return False
    connection = http.client.HTTPConnection(address, timeout=ASK_S)
    with closing(connection):
        try:
            connection.request("GET", path)
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
