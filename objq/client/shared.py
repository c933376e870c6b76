"""The sessions of this process: one per backend alias, all on one event loop in its own thread.

Handles (`SyncClient`, and the `Client` of `aconnect`) hold only the alias and look their session up
at every call: so they stay good across a fork, after which the child opens a connection and draws
request ids of its own, and across a change of settings.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, TypeVar

from django.core.signals import setting_changed

from objq import conf
from objq.client.client import Timeout
from objq.client.loopthread import LoopThread
from objq.client.opening import open_session
from objq.client.session import Session
from objq.client.versions import SEEN
from objq.core import ops

T = TypeVar("T")

CLOSE_TIMEOUT_S: Final = 3.0

RELEVANT_SETTINGS: Final = frozenset(
    {"TASKS", "STORAGES", "SECRET_KEY", "SECRET_KEY_FALLBACKS", "MEDIA_ROOT"}
)


class SharedSessions:
    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._thread: LoopThread | None = None
        self._sessions: dict[str, Session] = {}

    def is_prepared(self, alias: str) -> bool:
        return alias in self._sessions

    def prepare(self, alias: str) -> None:
        """Build the session of `alias`, without connecting it.

        Raises ConfigurationError if its options or its storage cannot work.
        """
        self._notice_fork()
        with self._lock:
            self._session(alias)

    def submit(
        self, alias: str, op: ops.Op, timeout_s: Timeout
    ) -> concurrent.futures.Future[ops.Answer]:
        """Start a call on the session of `alias`; raises as `prepare`."""
        return self.run(alias, lambda session: session.call(op, timeout_s))

    def run(
        self, alias: str, work: Callable[[Session], Coroutine[Any, Any, T]]
    ) -> concurrent.futures.Future[T]:
        """Start work on the session of `alias`, in its loop; raises as `prepare`."""
        self._notice_fork()
        with self._lock:
            session = self._session(alias)
            if self._thread is None:
                self._thread = LoopThread("objq-client")
            return self._thread.submit(work(session))

    def may_wait(self) -> bool:
        """Return whether the calling thread can wait for an answer without waiting for itself."""
        thread = self._thread
        return thread is None or not thread.is_current()

    def reset(self) -> None:
        """Close all sessions and end the thread; the next call opens anew. May be called again."""
        with self._lock:
            thread, sessions = self._thread, self._sessions
            self._thread, self._sessions = None, {}
        if thread is None:
            return
        with contextlib.suppress(TimeoutError, concurrent.futures.CancelledError, RuntimeError):
            thread.submit(_close(sessions.values())).result(CLOSE_TIMEOUT_S)
        thread.stop()

    def forget(self) -> None:
        """Start afresh in a forked child, and leave what the parent uses untouched.

        Nothing of it may even be freed: closing the copy of an event loop would take the parent's
        sockets out of the epoll that both share.
        """
        _inherited.append((self._thread, self._sessions))
        self._begin()

    def _notice_fork(self) -> None:
        # For servers that fork without telling Python; the lock may be held for ever in a child.
        if self._pid != os.getpid():
            self.forget()

    def _session(self, alias: str) -> Session:
        session = self._sessions.get(alias)
        if session is None:
            session = open_session(conf.options_for(alias), role="manage")
            self._sessions[alias] = session
        return session


async def _close(sessions: Iterable[Session]) -> None:
    await asyncio.gather(*(session.close() for session in sessions), return_exceptions=True)


_inherited: Final[list[object]] = []

shared: Final = SharedSessions()


def _on_setting_changed(*, setting: str, **_: Any) -> None:
    if setting in RELEVANT_SETTINGS:
        shared.reset()
        SEEN.clear()  # the same name may mean another, empty store now


setting_changed.connect(_on_setting_changed, dispatch_uid="objq.client.shared")
atexit.register(shared.reset)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=shared.forget)
