"""A browser's part in the dashboard's socket, without a browser."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import Request, urlopen

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

TIMEOUT_S: Final = 60.0
"""No test comes near this."""

OVERVIEW: Final = "/admin/objq_dashboard/queue/"
LIVE: Final = f"{OVERVIEW}live/"

Json = dict[str, Any]


class Onlooker:
    """Holds the page as the messages make it."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.page: Json = {}
        self.messages: list[Json] = []

    def next(self, *, answer: bool = True) -> Json:
        """Return the next message, after it is applied to the page and, mostly, answered."""
        message: Json = json.loads(self.connection.recv(TIMEOUT_S))
        self.messages.append(message)
        self.page = message.get("snapshot") or applied(self.page, message.get("delta", {}))
        if answer and "closing" not in message:
            self.answer()
        return message

    def answer(self) -> None:
        with contextlib.suppress(ConnectionClosed):  # what came before the close is yet to be read
            self.connection.send('{"got":true}')

    def until(self, condition: Callable[[Json], object]) -> Json:
        """Wait until the page is like that; return it."""
        while not (self.page and condition(self.page)):
            assert "closing" not in self.next()
        return self.page

    def until_closed(self) -> tuple[int, Json]:
        """Return the code of the close and the message before it."""
        with contextlib.suppress(ConnectionClosed):
            while True:
                self.next()
        assert self.connection.close_code is not None
        return self.connection.close_code, self.messages[-1]


@contextlib.contextmanager
def looking_on(
    site: str,
    session: str | None,
    page: str = "overview",
    *,
    path: str = LIVE,
    origin: str | None = None,
    given_pass: str | None = None,
    **query: str,
) -> Iterator[Onlooker]:
    """Open the socket of a page as a browser does that is signed in with this session."""
    parts = urlsplit(site)
    headers = {"Cookie": f"sessionid={session}"} if session else {}
    if given_pass is None:
        given_pass = the_pass(site + OVERVIEW, headers)
    url = f"ws://{parts.netloc}{parts.path}{path}?{urlencode({'page': page, **query})}"
    if origin != "":
        headers["Origin"] = origin or f"http://{parts.netloc}"
    with connect(
        url,
        additional_headers=headers,
        subprotocols=[Subprotocol(name) for name in ("objq", given_pass) if name],
        proxy=None,
        compression=None,
        open_timeout=TIMEOUT_S,
    ) as connection:
        yield Onlooker(connection)


def the_pass(url: str, headers: dict[str, str]) -> str:
    """Return the pass that a page holds; empty if it is not shown."""
    try:
        with urlopen(Request(url, headers=headers), timeout=TIMEOUT_S) as response:
            found = re.search(r'data-objq-pass="(\w+)"', response.read().decode())
    except HTTPError as refused:
        refused.close()
        return ""
    return found[1] if found else ""


def applied(page: Json, patch: Json) -> Json:
    """Return the page that a patch makes of another, as the script in the browser does it."""
    new: Json = {**page}
    new.update((name, patch[name]) for name in ("health", "known", "note") if name in patch)
    for name in ("texts", "charts"):
        merged: Json = {**page.get(name, {}), **patch.get(name, {})}
        new[name] = {key: value for key, value in merged.items() if value is not None}
    tables = dict(page.get("tables", {}))
    for name, table in patch.get("tables", {}).items():
        if table is None:
            del tables[name]
        else:
            old = {row["key"]: row for row in tables.get(name, ())}
            order = table.get("order", list(old))
            tables[name] = [{**old, **table["rows"]}[key] for key in order]
    return {**new, "tables": tables}
