"""`make screenshots`: every page of the dashboard, in light and dark, as docs/screenshots/*.png.

A broker, a standby, workers and a site run a shop's jobs for a minute, so that there is something
to see. A program `pngquant`, where there is one, makes the files smaller.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import django

from tests.browser import chromium
from tests.browser.jobs import job
from tests.browser.place import OVERVIEW, Place, Site, a_place
from tests.browser.tab import Tab, a_tab
from tests.e2e.stack import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from objq.client.sync import SyncClient

FOLDER: Final = ROOT / "docs" / "screenshots"
SIZE: Final[Any] = {"width": 1280, "height": 800}
PHONE: Final[Any] = {"width": 390, "height": 844}
TALLEST: Final = 1600
"""Longer pages are cut off below."""

SECONDS: Final = 62
"""Of business; the charts show each as a minute."""

PAGES: Final = {
    "overview": "",
    "jobs": "jobs/",
    "workers": "workers/",
    "dead": "dead/",
    "broker": "broker/",
}


def main() -> int:
    if reason := chromium.missing():
        print(reason, file=sys.stderr)
        return 1
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    django.setup()
    with tempfile.TemporaryDirectory(prefix="site-") as folder, a_place(Path(folder)) as place:
        start(place)
        site = place.serve()
        with (
            place.client() as client,
            Business(client) as business,
            chromium.a_browser() as browser,
        ):
            business.until_all_is_there()
            FOLDER.mkdir(exist_ok=True)
            for theme in ("light", "dark"):
                take(browser, place, site, theme, business.dead)
    shrink()
    return 0


def start(place: Place) -> None:
    """Start what a shop has; its broker has taken over from one that died."""
    for name in ("first", "second"):
        place.broker(name, "-m", "tests.browser.minutes")
    place.stack.kill("first")
    place.broker("standby", "-m", "tests.browser.minutes")
    place.stack.worker("worker-1", "--queue", "default", "--queue", "photos")
    place.stack.worker("worker-2", "--queue", "photos")
    place.stack.worker("worker-3", "--queue", "reports")


# --- what the shop does --------------------------------------------------------------------------


class Business(threading.Thread):
    """Pushes what a shop pushes in an hour, and goes on till it is left. `dead`: one that died."""

    def __init__(self, client: SyncClient) -> None:
        super().__init__(name="business")
        self.client = client
        self.dead = ""
        self._hour = threading.Event()
        self._over = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()

    def until_all_is_there(self) -> None:
        assert self._hour.wait(2 * SECONDS)

    def run(self) -> None:
        self._open_the_shop()
        for second in count():
            self._do_a_second(second)
            if second == SECONDS:
                self._hour.set()
            if self._over.wait(1.0):
                return

    def _open_the_shop(self) -> None:
        months = (9, 10, 11)
        push = self.client.push
        push([job("export_orders", f"2025-{n:02}.csv", queue="reports") for n in months])
        push([job("send_newsletter", n, queue="newsletter") for n in range(1, 41)])
        self.client.pause("newsletter")
        tomorrow = 1000 * int(time.time() + 86_400)
        push([job("send_receipt", n, run_after=tomorrow) for n in range(5)])

    def _do_a_second(self, second: int) -> None:
        orders = int(14 + 10 * math.sin(second / 6) + 12 * (second % 20 == 19))
        photos = int(11 + 7 * math.sin(second / 9))
        jobs = [job("send_receipt", 1000 + 50 * second + n) for n in range(orders)]
        jobs += [job("resize_photo", f"{second}-{n}.jpg", queue="photos") for n in range(photos)]
        if second % 7 == 3:
            key = {"api_key": "sk_live_1"}
            jobs.append(job("charge_card", 700 + second, kwargs=key, max_attempts=1))
        if second < SECONDS - 5 and second % 7 == 3:
            self.dead = jobs[-1].id
        if second in (30, 31, 45):
            jobs.append(job("fetch_rates", "2025-11-29", max_attempts=1))
        self.client.push(jobs)


# --- the pictures --------------------------------------------------------------------------------


def take(browser: Browser, place: Place, site: Site, theme: str, dead: str) -> None:
    tab = a_tab(browser, site, place.sessions["boss"], color_scheme=theme, viewport=SIZE)
    # The rates of each queue are known when somebody has looked on for a while.
    tab.open_live(OVERVIEW)
    pushed = tab.cell("queues", "photos", "Pushed")
    tab.until(lambda: "/s" in pushed.inner_text(), "a rate")
    for name, path in {**PAGES, "job": f"jobs/{dead}/"}.items():
        shoot(tab, OVERVIEW + path, f"{name}-{theme}")
    tab.open(f"{OVERVIEW}dead/?task=shop.tasks.fetch_rates")
    tab.page.locator("[data-objq-all]").check()
    tab.page.locator("button[value=retry]").click()
    picture(tab, f"confirm-{theme}")
    tab.context.close()
    tab.check()
    phone = a_tab(
        browser, site, place.sessions["boss"], color_scheme=theme, viewport=PHONE,
        device_scale_factor=2,
    )  # fmt: skip
    shoot(phone, OVERVIEW, f"phone-{theme}")
    phone.context.close()
    phone.check()


def shoot(tab: Tab, path: str, name: str) -> None:
    tab.open_live(path)
    picture(tab, name)


def picture(tab: Tab, name: str) -> None:
    """Take the page that is open, as far down as it goes; of a phone, what is on its screen."""
    page, size = tab.page, tab.page.viewport_size or SIZE
    if size["width"] == SIZE["width"]:
        height = page.evaluate("document.documentElement.scrollHeight")
        page.set_viewport_size({"width": size["width"], "height": min(TALLEST, height)})
    page.screenshot(path=FOLDER / f"{name}.png", animations="disabled")
    page.set_viewport_size(size)
    print(f"  {name}.png")


def shrink() -> None:
    program = shutil.which("pngquant")
    if program is None:
        print("Without pngquant the files stay as large as they are.")
        return
    files = sorted(FOLDER.glob("*.png"))
    subprocess.run(
        [program, "--force", "--strip", "--skip-if-larger", "--ext", ".png", "--", *files],
        check=False,  # it fails when a file would not get smaller
    )


if __name__ == "__main__":
    sys.exit(main())
