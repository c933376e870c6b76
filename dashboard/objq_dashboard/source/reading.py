"""Reading the document where no broker answers: by one thread, however many look on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, TypeVar

from objq.client.reading import document_reader
from objq.errors import Unavailable

if TYPE_CHECKING:
    from objq.client.reading import DocumentReader, Reading

T = TypeVar("T")

KEPT_S: Final = 30.0
"""A document that nobody has looked at for so long is not kept in memory."""


class ReadDocument:
    """The document of a backend. `reading`: as it was last read as a whole."""

    def __init__(self, alias: str) -> None:
        self.reading: Reading | None = None
        self._alias = alias
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="objq dashboard read")
        self._reader: DocumentReader | None = None
        self._looked_at = 0.0
        self._timer: threading.Timer | None = None

    def look(self, look: Callable[[DocumentReader], T], timeout_s: float) -> T:
        """Return what `look` finds; raise what reading raises, and Unavailable in time."""
        looking = self._thread.submit(self._look, look)
        try:
            return looking.result(timeout_s)
        except TimeoutError:
            looking.cancel()  # what has not begun is not read for nobody, once the store answers
            raise Unavailable(f"The document was not read within {timeout_s:g} s.") from None

    def close(self) -> None:
        self._thread.submit(self._let_go)
        self._thread.shutdown(wait=False)

    def _look(self, look: Callable[[DocumentReader], T]) -> T:
        if self._reader is None:
            self._reader = document_reader(self._alias)
        self._looked_at = time.monotonic()
        if self._timer is None:
            self._tidy_later(KEPT_S)
        found = look(self._reader)
        self.reading = self._reader.newest
        return found

    def _tidy_later(self, delay_s: float) -> None:
        self._timer = threading.Timer(delay_s, self._thread.submit, [self._tidy])
        self._timer.daemon = True
        self._timer.start()

    def _tidy(self) -> None:
        left_s = self._looked_at + KEPT_S - time.monotonic()
        if left_s > 0:
            self._tidy_later(left_s)
        else:
            self._let_go()

    def _let_go(self) -> None:
        reader, self._reader, self.reading = self._reader, None, None
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        if reader is not None:
            reader.close()
