"""One session per backend alias and process, on one event loop in a thread of its own.

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
from collections.abc import Coroutine
from typing import Any, Final

from django.core.signals import setting_changed
from msgspec import UNSET

from objq import conf
from objq.client.client import Client, Timeout
from objq.client.loopthread import LoopThread
from objq.client.opening import open_session
from objq.client.session import Session
from objq.core import ops

CLOSE_TIMEOUT_S: Final = 3.0

RELEVANT_SETTINGS: Final = frozenset(
    {"TASKS", "STORAGES", "SECRET_KEY", "SECRET_KEY_FALLBACKS", "MEDIA_ROOT"}
)


class Registry:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: LoopThread | None = None
        self._sessions: dict[str, Session] = {}

    def submit(
        self, alias: str, op: ops.Op, timeout_s: Timeout
    ) -> concurrent.futures.Future[ops.Answer]:
        """Start a call on the shared session of `alias`.

        Raises ConfigurationError if its options or its storage cannot work.
        """
        with self._lock:
            if self._thread is None:
                self._thread = LoopThread("objq-client")
            session = self._sessions.get(alias)
            if session is None:
                session = open_session(conf.options_for(alias), role="manage")
                self._sessions[alias] = session
            return self._thread.submit(session.call(op, timeout_s))

    def may_wait(self) -> bool:
        """Return whether the calling thread may wait for an answer without waiting for itself."""
        return self._thread is None or not self._thread.is_current()

    def reset(self) -> None:
        """Close all sessions and end the thread; the next call opens anew. May be called again."""
        with self._lock:
            thread, self._thread = self._thread, None
            sessions, self._sessions = self._sessions, {}
        if thread is None:
            return
        with contextlib.suppress(TimeoutError, concurrent.futures.CancelledError, RuntimeError):
            thread.submit(_close(sessions.values())).result(CLOSE_TIMEOUT_S)
        thread.stop()

    def forget(self) -> None:
        """Drop everything untouched: in a forked child, it is the parent's."""
        _parents.append((self._thread, self._sessions))
        self.__init__()  # type: ignore[misc]
"""
