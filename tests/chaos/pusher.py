"""A web process in small: it enqueues at a steady rate, whether or not earlier calls have returned.

`python -m tests.chaos.pusher FIRST SECONDS RATE LONGEST_S` pushes the numbers from FIRST, RATE a
second, each a job of at most LONGEST_S seconds, and notes before each call that it begins and after
it what it was told: ok, refused (it will never run), unknown (it may), or another error.
"""

from __future__ import annotations

import asyncio
import random
import sys

import django

from tests.chaos.notes import PUSHES, note

LONG_JOBS = 0.01
"""The share of jobs that take as long as may be; others take up to `SHORT_S`, or no time."""

SHORT_S = 0.3


async def push(number: int, seconds: float) -> None:
    from objq.errors import AskAnother, Rejected, Unknown  # need the settings, like the tasks
    from tests.chaos.tasks import awork, work

    note(PUSHES, "begun", number)
    task = awork if number % 5 == 0 else work
    try:
        result = await task.aenqueue(number, seconds)
    except (Rejected, AskAnother) as error:
        note(PUSHES, "refused", number, type(error).__name__)
    except Unknown as error:
        note(PUSHES, "unknown", number, type(error).__name__)
    except Exception as error:  # there is no fourth answer, and this tells of one
        note(PUSHES, "other", number, type(error).__name__)
        raise
    else:
        note(PUSHES, "ok", number, result.id)


async def main(first: int, seconds: float, rate: float, longest_s: float) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with asyncio.TaskGroup() as pushes:
        for number in range(int(seconds * rate)):
            await asyncio.sleep(began + number / rate - loop.time())
            pushes.create_task(push(first + number, length_s(longest_s)))


def length_s(longest_s: float) -> float:
    drawn = random.random()
    if drawn < LONG_JOBS:
        return longest_s
    return round(min(longest_s, SHORT_S) * random.random(), 3) if drawn < 0.3 else 0.0


if __name__ == "__main__":
    django.setup()
    asyncio.run(main(int(sys.argv[1]), *map(float, sys.argv[2:5])))
