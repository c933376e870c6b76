"""The standard streams of a worker, which its jobs and its log share."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def shared_streams() -> Iterator[None]:
    """Keep stdout and stderr open, whatever jobs do, and put them back at the end.

    A log line that meets a closed stream raises in whoever logs, and so would end the worker; and
    the jobs that print after the one that closed it would fail. So closing one only flushes it.
    """
    streams = sys.stdout, sys.stderr
    for stream in streams:
        with contextlib.suppress(AttributeError):  # there may be none, or one of another kind
            stream.close = stream.flush  # type: ignore[method-assign]  # of this object alone
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams
        for stream in streams:
            with contextlib.suppress(AttributeError):
                del stream.close  # which uncovers the class's
