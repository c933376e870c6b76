"""Many browsers at once, each on a thread and a kept connection of its own."""

from __future__ import annotations

import threading
from contextlib import closing
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Generic, TypeVar

from project.demo.browser import Browser

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Item = TypeVar("Item")
Result = TypeVar("Result")


class Crowd(Generic[Item, Result]):
    """Does `work` for every item; the first error ends it and is raised by `check`."""

    def __init__(
        self,
        port: int,
        clients: int,
        work: Callable[[Browser, Item], Result],
        items: Iterable[Item],
    ) -> None:
        self.port = port
        self.work = work
        self.waiting: SimpleQueue[Item] = SimpleQueue()
        for item in items:
            self.waiting.put(item)
        self.results: list[tuple[Item, Result]] = []
        self.error: Exception | None = None
        # Daemons, so that the demo can end while one of them waits for the site.
        self.threads = [threading.Thread(target=self.run, daemon=True) for _ in range(clients)]

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def run(self) -> None:
        with closing(Browser(self.port)) as browser:
            while self.error is None:
                try:
                    item = self.waiting.get_nowait()
                except Empty:
                    return
                try:
                    self.results.append((item, self.work(browser, item)))
                except Exception as error:
                    self.error = error

    def check(self) -> bool:
        """Raise the first error; return whether all is done."""
        if self.error is not None:
            raise self.error
        return not any(thread.is_alive() for thread in self.threads)
