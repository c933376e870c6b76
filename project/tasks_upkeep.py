"""What else a library does in the background: jobs that fail, take long or wait for their time.

`make demo` pushes them after its report, so that its dashboard has something to show and to try.
"""

from __future__ import annotations

import asyncio
import smtplib
from typing import TYPE_CHECKING, Final

from objq import task
from project.models import Page

if TYPE_CHECKING:
    from objq.compat import TaskResult

NO_MAIL_PORT: Final = 1
"""Where no machine has a mail server."""

AGAIN_AFTER_S: Final = 2.0
VOLUME_S: Final = 30
"""How long one volume takes."""


def soon(_error: BaseException, _result: TaskResult[..., None]) -> float:
    return AGAIN_AFTER_S


@task(max_attempts=2, backoff=soon)
def mail_digest(reader: str) -> None:
    """Fail: the demo has no mail server."""
    with smtplib.SMTP("127.0.0.1", NO_MAIL_PORT, timeout=5) as server:
        server.sendmail("library@example.com", reader, "What is new")


@task(max_attempts=1)
def count_words(path: str) -> int:
    """Return the words of a page; fail if there is none."""
    return len(Page.objects.get(path=path).body.split())


@task
async def bind_volume(number: int) -> int:
    """Take long, and let go at once when it is cancelled: it is async and awaits."""
    for _ in range(VOLUME_S):
        await asyncio.sleep(1)
    return number
