"""A tab of the browser that keeps what no page of the dashboard may cause."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page

    from tests.browser.place import Site

TIMEOUT_MS: Final = 60_000.0
"""How long a test waits for what should come at once; nothing is measured by it."""

CUT: Final = [r"WebSocket connection to", r"ERR_CONNECTION_REFUSED", r"Failed to load resource"]
"""What Chromium itself writes to the console while a site is away."""

DEFAULTS: Final = {"reduced_motion": "reduce", "locale": "en-GB", "timezone_id": "Europe/Berlin"}

REPORT_VIOLATIONS: Final = """
document.addEventListener("securitypolicyviolation", (event) => window.objqViolation(
  `${event.effectiveDirective}: ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));
"""


@dataclass
class Tab:
    """`site` is where its paths lead. `tolerated` are complaints that the test provokes."""

    site: Site
    context: BrowserContext
    page: Page
    complaints: list[str] = field(default_factory=list)
    requested: list[str] = field(default_factory=list)
    sockets: list[str] = field(default_factory=list)
    frames: int = 0
    tolerated: list[str] = field(default_factory=list)

    def open(self, path: str) -> Page:
        self.page.goto(self.site.url + path)
        return self.page

    def until(self, condition: Callable[[], bool], what: str = "it") -> None:
        """Wait for what no event of the page tells, while its events arrive."""
        deadline = time.monotonic() + TIMEOUT_MS / 1000
        while not condition():
            assert time.monotonic() < deadline, f"{what} did not happen"
            self.page.wait_for_timeout(20)

    def open_live(self, path: str) -> Page:
        """Open a page and wait until its socket has been sent the first snapshot."""
        before = self.frames
        self.open(path)
        self.until(lambda: self.frames > before, "a snapshot over the socket")
        return self.page

    def row(self, table: str, key: str) -> Locator:
        return self.page.locator(f'[data-objq-table="{table}"] tr[data-key="{key}"]')

    def cell(self, table: str, key: str, column: str) -> Locator:
        """Return the cell of a row below this heading."""
        found = self.page.locator(f'[data-objq-table="{table}"]')
        headings = [text.strip() for text in found.locator("thead th").all_inner_texts()]
        # As written: the admin shows headings in capitals.
        at = [text.lower() for text in headings].index(column.lower())
        return self.row(table, key).locator("th, td").nth(at)

    def check(self) -> None:
        """Assert that no script failed, no policy was violated and no other host was asked."""
        found = [
            complaint
            for complaint in self.complaints
            if not any(re.search(pattern, complaint) for pattern in self.tolerated)
        ]
        assert not found, found
        here = f"127.0.0.1:{self.site.port}"
        hosts = {urlsplit(url).netloc for url in (*self.requested, *self.sockets)}
        assert hosts <= {here}, hosts

    # --- what the browser reports ---

    def watch(self) -> None:
        self.context.expose_binding(
            "objqViolation", lambda _source, text: self.complaints.append(f"policy: {text}")
        )
        self.context.add_init_script(REPORT_VIOLATIONS)
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("request", lambda request: self.requested.append(request.url))
        self.page.on("websocket", self._connected)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            where = message.location.get("url", "")
            self.complaints.append(f"console: {message.text} ({where})")

    def _connected(self, socket: Any) -> None:
        self.sockets.append(socket.url)
        socket.on("framereceived", self._received)

    def _received(self, _frame: object) -> None:
        self.frames += 1


def a_tab(browser: Browser, site: Site, session: str | None, **options: Any) -> Tab:
    """Open a tab in a window of its own: signed in by `session`, with options of Playwright."""
    context = browser.new_context(**{**DEFAULTS, **options})
    context.set_default_timeout(TIMEOUT_MS)
    if session is not None:
        context.add_cookies([{"name": "sessionid", "value": session, "url": site.url}])
    tab = Tab(site, context, context.new_page())
    tab.watch()
    return tab
