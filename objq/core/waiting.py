"""Claims that wait for a job (design §7): in memory only, first come, first served.

When jobs become ready in a commit, `serve` grants them to waiting claims in the same commit. It
wakes only as many as there are jobs for, and costs nothing for those that it does not wake.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from objq.core import ops
from objq.core.claiming import Context, take
from objq.core.document import Document
from objq.errors import Rejected

Key = TypeVar("Key", bound=Hashable)


class WaitingClaims(Generic[Key]):
    """Waiting claims by arrival; `Key` is what the caller knows each by."""

    def __init__(self) -> None:
        self._claims: dict[Key, tuple[int, ops.TakeClaim]] = {}
        self._by_queue: dict[str, dict[Key, int]] = {}
        self._by_id: dict[str, Key] = {}
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self._claims)

    def queues(self) -> set[str]:
        """Return the queues that somebody waits for."""
        return set(self._by_queue)

    def add(self, key: Key, op: ops.TakeClaim) -> Key | None:
        """Let a claim wait; return the key of the same claim if it waited already.

        That one waits no longer: a claim is sent again when the socket of the first has gone, and
        whoever asked first is to be told that it got nothing.
        """
        replaced = self._by_id.get(op.claim)
        if replaced is not None:
            self.discard(replaced)
        self._arrivals += 1
        self._claims[key] = (self._arrivals, op)
        self._by_id[op.claim] = key
        for queue in op.queues:
            self._by_queue.setdefault(queue, {})[key] = self._arrivals
        return replaced

    def discard(self, key: Key) -> None:
        """Forget a claim; one that is not (or no longer) waiting is no error."""
        _, op = self._claims.pop(key, (0, None))
        if op is None:
            return
        del self._by_id[op.claim]
        for queue in op.queues:
            waiting = self._by_queue.get(queue)
            if waiting is not None:
                waiting.pop(key, None)
                if not waiting:
                    del self._by_queue[queue]

    def serve(
        self,
        document: Document,
        now: int,
        *,
        mint: Callable[[], str],
        epoch: int | None,
    ) -> list[tuple[Key, ops.Granted | Rejected]]:
        """Grant ready jobs to those who wait; return who got what. They wait no longer."""
        served: list[tuple[Key, ops.Granted | Rejected]] = []
        while (key := self._next(document)) is not None:
            _, op = self._claims[key]
            answer: ops.Granted | Rejected
            try:
                answer = take(document, op, Context(now, mint, epoch))
            except Rejected as error:
                answer = error
            self.discard(key)
            served.append((key, answer))
        return served

    def _next(self, document: Document) -> Key | None:
        first: tuple[int, Key] | None = None
        for queue, waiting in self._by_queue.items():
            if document.next_ready((queue,)) is None:
                continue
            key, arrival = next(iter(waiting.items()))
            if first is None or arrival < first[0]:
                first = (arrival, key)
        return first[1] if first else None
