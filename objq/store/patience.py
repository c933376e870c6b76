"""Probe a store before it is trusted, and wait for it while it cannot be asked.

A store that has trouble of its own is no reason to end a broker: it may be started, or started
again, in the middle of an outage, and has to be there when that is over. What ends it is a store
that was asked and does not keep its word, and what only another configuration can change.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from typing import Final

from objq.ids import Ids
from objq.store.aio import DaemonThreads
from objq.store.base import Ambiguous, Denied, Store, Throttled, Unavailable
from objq.store.probe import probe
from objq.store.trials import Litter

logger = logging.getLogger("objq.store")

FIRST_WAIT_S: Final = 0.2
MAX_WAIT_S: Final = 5.0
TIDY_S: Final = 2.0
"""What a probe under way has to remove what it wrote, when the process is to end."""

WAITED_OUT: Final[dict[type[Exception], str]] = {
    Unavailable: "it cannot be reached",
    Ambiguous: "it does not say whether it has written",
    Throttled: "it asks to be written to less often",
    Denied: "it denies access, so credentials or permissions have to be put right",
}
"""The troubles that may pass by themselves, or in the store's own settings."""


async def probe_patiently(store: Store, ids: Ids | None = None) -> None:
    """Return when the store was probed. Each new kind of trouble is logged in a line.

    Raises what `probe` raises for a store that does not keep its word or is not there (ProbeFailed,
    Missing, TooLarge). Removes what was written, as far as the store lets it.
    """
    ids = ids or Ids()
    litter = Litter()
    threads = DaemonThreads(1, "objq-store")
    said: type[Exception] | None = None
    try:
        for attempt in itertools.count():
            try:
                await _in(threads, store, ids, litter)
            except tuple(WAITED_OUT) as error:
                if type(error) is not said:
                    said = type(error)
                    _say(store, error)
                await asyncio.sleep(_wait_s(error, attempt, ids))
            else:
                break
    finally:
        threads.close()
        litter.complain()
    if said is not None:
        logger.warning("%s can be used now.", store.name, extra={"event": "store_back"})


async def _in(threads: DaemonThreads, store: Store, ids: Ids, litter: Litter) -> None:
    probing = asyncio.wrap_future(threads.submit(lambda: probe(store, ids, litter)))
    try:
        await asyncio.shield(probing)
    except asyncio.CancelledError:
        await asyncio.wait({probing}, timeout=TIDY_S)
        if probing.done():
            probing.exception()  # of no interest any more
        raise


def _say(store: Store, error: Exception) -> None:
    logger.log(
        logging.ERROR if isinstance(error, Denied) else logging.WARNING,
        "Waiting for %s before anything is served: %s (%s)",
        store.name,
        WAITED_OUT[type(error)],
        error,
        extra={"event": "store_awaited"},
    )


def _wait_s(error: Exception, attempt: int, ids: Ids) -> float:
    asked_s = error.retry_after_s if isinstance(error, Throttled) else None
    return max(asked_s or 0.0, ids.jitter(min(MAX_WAIT_S, FIRST_WAIT_S * 2 ** min(attempt, 10))))
