"""One client for all threads of a process, and another one after a fork."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from objq.store.perprocess import PerProcess

FORK = """
import os
from objq.store.perprocess import PerProcess
client = PerProcess(lambda: os.getpid())
other = PerProcess(lambda: os.getpid())
assert client.get() == os.getpid() and other.built() is None
client._lock.acquire()  # as by another thread that is building
pid = os.fork()
if pid == 0:
    os._exit(0 if client.built() is None and client.get() == os.getpid() else 1)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
client._lock.release()
assert client.get() == os.getpid()
"""


def test_threads_that_ask_at_once_get_the_same() -> None:
    barrier = threading.Barrier(8)
    value: PerProcess[object] = PerProcess(object)

    def ask(_: int) -> object:
        barrier.wait()
        return value.get()

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(ask, range(8)))) == 1
    assert value.built() is value.get()


def test_forked_child_builds_its_own() -> None:
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=60)
