"""Where Debian's Chromium is, and what the tests put into its pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES: Final = ("chromium", "chromium-browser", "google-chrome")


def missing() -> str:
    """Say what this machine lacks for a browser; empty if nothing."""
    if program() is not None:
        return ""
    return (
        "There is no Chromium, so the dashboard is not tested in a browser: "
        "apt-get install chromium, or name one in OBJQ_CHROMIUM"
    )


def program() -> str | None:
    """Return Chromium's path: as the environment names it, or what is on the PATH."""
    named = os.environ.get("OBJQ_CHROMIUM")
    return shutil.which(named) if named else next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def a_browser() -> Iterator[Browser]:
    """Run Chromium without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program())
        try:
            yield browser
        finally:
            browser.close()


def axe() -> str:
    """Return the source of axe-core, which finds what hinders people with disabilities."""
    return files("axe_playwright_python").joinpath("axe.min.js").read_text()
