"""Pushes without a broker: a group commit by this process itself (design §1, steps 1 and 2).

One write is in flight; whatever is asked meanwhile goes into the next. `DirectLink.call` has the
shape of `Link.call`, so that a session treats both alike. It is safe beside a broker: both write by
compare-and-set, and a request that lands twice has one effect, by its request id and job ids (S7).
Nothing here creates a document.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

import msgspec

from objq.broker.commit import Closed, Committer
from objq.client.link import LinkLost
from objq.clock import Clock
from objq.core import ops
from objq.core.document import Document
from objq.core.rules import apply
from objq.errors import Invalid, ObjqError, Overloaded, QueueFull, Rejected
from objq.ids import Ids
from objq.store.base import AsyncStore, TooLarge

logger = logging.getLogger("objq.client")

MAX_WAITING: Final = 10_000
RETRY_AFTER_S: Final = 1.0

SPREAD_S: Final = 0.1
"""Processes that lost the same broker do not all write in the same instant."""


class _Waiting:
    __slots__ = ("future", "mark_sent", "op", "outcome")

    def __init__(self, op: ops.Push, mark_sent: Callable[[], None]) -> None:
        self.op = op
        self.mark_sent = mark_sent
        self.future: asyncio.Future[ops.Answer] = asyncio.get_running_loop().create_future()
        self.outcome: ops.Answer | Rejected | None = None


class _Poisoned(Exception):
    """A request broke the rules' code, which is a bug; it must not take its neighbours along."""

    def __init__(self, waiting: _Waiting) -> None:
        super().__init__()
        self.waiting = waiting


class DirectLink:
    def __init__(self, store: AsyncStore, clock: Clock, ids: Ids) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._committer = Committer(store, clock, ids)
        self._waiting: list[_Waiting] = []
        self._batch: list[_Waiting] = []
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def trouble(self) -> str | None:
        """Return why the document must not be written (S14), if that is so."""
        return self._committer.trouble

    async def call(self, op: ops.Push, mark_sent: Callable[[], None]) -> ops.Answer:
        """Return the answer once the write that holds it is durable (S2).

        `mark_sent` is called when the request becomes part of a version to be written. Raises
        Rejected, DocumentError, and LinkLost if this was closed meanwhile.
        """
        if self._closed:
            raise LinkLost("this client is closed")
        if len(self._waiting) + len(self._batch) >= MAX_WAITING:
            raise Overloaded(
                f"{MAX_WAITING} requests of this process wait to be written.",
                retry_after_s=RETRY_AFTER_S,
            )
        waiting = _Waiting(op, mark_sent)
        self._waiting.append(waiting)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._commit_all(), name="objq direct push")
        try:
            return await waiting.future
        except asyncio.CancelledError:
            self._stop_if_unwanted()
            raise

    async def close(self) -> None:
        """Stop; what still waits gets LinkLost, since a write under way may yet be applied."""
        self._closed = True
        self._committer.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._fail(LinkLost("this client was closed"))

    async def _commit_all(self) -> None:
        try:
            while self._waiting:
                await asyncio.sleep(SPREAD_S - self._ids.jitter(SPREAD_S))
                await self._commit()
        except BaseException as error:
            self._fail(LinkLost(f"direct writing has ended: {error!r}"))
            raise
        finally:
            # A process that rarely writes should not keep the queue in memory.
            self._committer.drop()

    async def _commit(self) -> None:
        if self._committer.reader.closed:
            seen = self._committer.seen
            self._committer = Committer(self._store, self._clock, self._ids)
            self._committer.reader.seen = seen  # nothing older is ever built upon (S14)
        # What is in memory is as old as the last write; others have written since.
        self._committer.drop()
        try:
            document = await self._committer.transact(self._apply, leading=False)
        except Closed:
            # All its callers had gone when it was stopped, and know that the outcome is in doubt.
            self._batch = []
        except _Poisoned as poisoned:
            self._set_aside(poisoned)
        except TooLarge as error:
            self._fail(QueueFull(f"The store takes no object of this size: {error}"))
        except ObjqError as error:
            self._fail(error)
        else:
            self._deliver(document)

    def _apply(self, document: Document) -> bool:
        """Apply all that wait; runs again, with what has come since, on a version that won."""
        self._batch = [*self._batch, *self._waiting]
        self._waiting = []
        now = self._clock.wall_ms()
        window_ms = int(document.settings.dedupe_window_s * 1000)
        document.requests.prune(document.stamp(now) - window_ms)
        changed = False
        for waiting in self._batch:
            if waiting.future.done():
                continue
            waiting.mark_sent()
            try:
                applied = apply(document, waiting.op, now, mint=self._ids.token, epoch=None)
            except Rejected as refusal:
                waiting.outcome = refusal
            except Exception as bug:
                raise _Poisoned(waiting) from bug
            else:
                changed = changed or applied.changed
                waiting.outcome = applied.answer
        return changed

    def _deliver(self, document: Document) -> None:
        batch, self._batch = self._batch, []
        for index, waiting in enumerate(batch):
            if waiting.future.done():
                continue
            if isinstance(waiting.outcome, Rejected):
                waiting.future.set_exception(waiting.outcome)
            elif waiting.outcome is not None:
                position = (document.epoch, document.seq, index)
                answer = msgspec.structs.replace(waiting.outcome, position=position)
                waiting.future.set_result(answer)

    def _set_aside(self, poisoned: _Poisoned) -> None:
        """Refuse the one request; the others go into the next write, on a document read anew."""
        logger.error("A push cannot be applied, which is a bug", exc_info=poisoned.__cause__)
        culprit = poisoned.waiting
        self._waiting = [w for w in self._batch if w is not culprit] + self._waiting
        self._batch = []
        if not culprit.future.done():
            error = Invalid(f"This push cannot be applied: {poisoned.__cause__!r}")
            culprit.future.set_exception(error)

    def _fail(self, error: Exception) -> None:
        failed = [*self._batch, *self._waiting]
        self._batch, self._waiting = [], []
        for waiting in failed:
            if not waiting.future.done():
                waiting.future.set_exception(error)

    def _stop_if_unwanted(self) -> None:
        """Stop trying once all callers have gone. A write under way is waited for."""
        self._waiting = [waiting for waiting in self._waiting if not waiting.future.done()]
        if not self._waiting and all(waiting.future.done() for waiting in self._batch):
            self._committer.close()
