"""A browser as far as the demo needs one: one kept connection, cookies, and the site's form."""

from __future__ import annotations

import http.client
import re
import time
from dataclasses import dataclass
from http.cookies import SimpleCookie
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

from project.demo import DemoError

if TYPE_CHECKING:
    from project.demo.corpus import Module

TIMEOUT_S: Final = 60.0
TRIES: Final = 8

CSRF = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')
FOUND = re.compile(r'<a class="name" href="([^"]+)"')
ENQUEUE = re.compile(r"\benqueue;dur=([\d.]+)")


class SiteError(DemoError):
    """The site answered something else than a browser's user would hope for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    status: int
    headers: http.client.HTTPMessage
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What one save took, in milliseconds: the whole POST, and the enqueueing in it."""

    post_ms: float
    enqueue_ms: float | None


class Browser:
    """Not for several threads at once."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
        self.cookies: SimpleCookie = SimpleCookie()
        self.csrf = ""

    def get(self, path: str) -> Reply:
        try:
            return self.request("GET", path)
        except (ConnectionError, http.client.HTTPException):
            # A kept connection that the server has closed meanwhile; reading again does no harm.
            self.connection.close()
            return self.request("GET", path)

    def request(self, method: str, path: str, form: dict[str, str] | None = None) -> Reply:
        headers = {"Host": f"127.0.0.1:{self.connection.port}"}
        if self.cookies:
            headers["Cookie"] = "; ".join(f"{c.key}={c.value}" for c in self.cookies.values())
        body = None
        if form is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            body = urlencode(form).encode()
        self.connection.request(method, path, body, headers)
        response = self.connection.getresponse()
        text = response.read().decode()
        for cookie in response.headers.get_all("Set-Cookie", []):
            self.cookies.load(cookie)
        return Reply(status=response.status, headers=response.headers, text=text)

    def save(self, module: Module) -> Saved:
        """Fill in the form and send it, as often as the site says that it is busy."""
        if not self.csrf:
            self.csrf = self.read_form()
        address = "/new/"
        tries = 0
        while True:
            tries += 1
            began = time.perf_counter()
            reply = self.request("POST", address, self.fill_in(module))
            post_ms = 1000 * (time.perf_counter() - began)
            if reply.status == 302:
                spent = ENQUEUE.search(reply.headers.get("Server-Timing", ""))
                return Saved(post_ms=post_ms, enqueue_ms=float(spent[1]) if spent else None)
            if reply.status not in (429, 503) or tries == TRIES:
                said = f"the site answered {reply.status}. {gist(reply)}"
                raise SiteError(f"saving {module.path}: {said}")
            # The page is saved and only its job is not queued: from now on it is to be edited.
            address = f"/edit/{quote(module.path)}/"
            time.sleep(float(reply.headers.get("Retry-After", "1")))

    def index_again(self, module: Module) -> None:
        """Press the button on the page; what the site answers is its own affair."""
        if not self.csrf:
            self.csrf = self.read_form()
        address = f"/index/{quote(module.path)}/"
        try:
            self.request("POST", address, {"csrfmiddlewaretoken": self.csrf})
        except (OSError, http.client.HTTPException):
            self.connection.close()
            raise

    def read_form(self) -> str:
        found = CSRF.search(self.get("/new/").text)
        if found is None:
            raise SiteError("the form at /new/ has no CSRF token")
        return found[1]

    def fill_in(self, module: Module) -> dict[str, str]:
        return {
            "csrfmiddlewaretoken": self.csrf,
            "title": module.title,
            "path": module.path,
            "keywords": module.token,
            # This is how browsers send line ends.
            "body": module.source.replace("\n", "\r\n"),
        }

    def finds(self, module: Module) -> bool:
        """Say whether a search for what only this page has finds it, and only it."""
        reply = self.get(f"/search/?{urlencode({'q': module.query})}")
        return FOUND.findall(reply.text) == [f"/pages/{quote(module.path)}/"]

    def close(self) -> None:
        self.connection.close()


def gist(reply: Reply) -> str:
    """Return what the site says in words, for people."""
    alerts: list[str] = re.findall(r'role="alert">([^<]*)<', reply.text)
    errors: list[str] = re.findall(r"<li>([^<]*)</li>", reply.text)
    return " ".join(part.strip() for part in [*alerts, *errors]) or reply.text[:200]
