"""What goes on after the report until Ctrl-C, so that the dashboard has something to show.

Pages are indexed again, a few a second; now and then a job fails, takes long or waits for its time.
Django must be set up before this is imported.
"""

from __future__ import annotations

import http.client
import time
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from django.utils import timezone

from objq.errors import ObjqError
from project.tasks_upkeep import bind_volume, count_words, mail_digest

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence

    from project.demo.browser import Browser
    from project.demo.corpus import Module

MOST_AT_ONCE: Final = 3
FIRST_VOLUMES: Final = 6
FIRST_DELAYS_S: Final = (45, 120, 600, 3600)
READERS: Final = ("ada@example.com", "grace@example.com", "edsger@example.com")
LOST_PATHS: Final = ("shelf/lost.py", "shelf/stolen.py")


class Trickle:
    """Call `begin` once, then `step` about twice a second.

    What the queue or the site refuses is left out: whoever looks on may pause a queue or stop the
    broker to see what happens, and whether a process has ended is for the stack to say.
    """

    def __init__(
        self,
        browser: Browser,
        modules: Sequence[Module],
        chance: random.Random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.browser = browser
        self.modules = modules
        self.chance = chance
        self.clock = clock
        # About as many volumes as one worker binds, so that some are always ready.
        self.chores: dict[Callable[[], None], float] = {
            self.mail: 45.0,
            self.bind: 30.0,
            self.schedule: 20.0,
        }
        self.due: dict[Callable[[], None], float] = {}
        self.volumes = 0

    def begin(self) -> None:
        with suppress(ObjqError):
            for reader in READERS:
                mail_digest.enqueue(reader)
            for path in LOST_PATHS:
                count_words.enqueue(path)
            for _ in range(FIRST_VOLUMES):
                self.bind()
            for delay_s in FIRST_DELAYS_S:
                self.count_later(delay_s)
        now = self.clock()
        self.due = {chore: now + every_s for chore, every_s in self.chores.items()}

    def step(self) -> None:
        with suppress(OSError, http.client.HTTPException):
            for _ in range(self.chance.randint(0, MOST_AT_ONCE)):
                self.browser.index_again(self.chance.choice(self.modules))
        now = self.clock()
        for chore, at in self.due.items():
            if at <= now:
                self.due[chore] = now + self.chores[chore]
                with suppress(ObjqError):
                    chore()

    # --- the chores -------------------------------------------------------------------------------

    def mail(self) -> None:
        mail_digest.enqueue(self.chance.choice(READERS))

    def bind(self) -> None:
        self.volumes += 1
        bind_volume.using(queue_name="archive").enqueue(self.volumes)

    def schedule(self) -> None:
        self.count_later(self.chance.randint(20, 90))

    def count_later(self, delay_s: float) -> None:
        at = timezone.now() + timedelta(seconds=delay_s)
        count_words.using(run_after=at).enqueue(self.chance.choice(self.modules).path)
