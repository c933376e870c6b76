"""`manage.py` with a broker whose history pretends that each second took a minute.

For the screenshots only: the charts show an hour, and nobody wants to wait for one.
"""

from __future__ import annotations

from itertools import count
from typing import Final

from django.core.management import execute_from_command_line
from msgspec import structs

from objq.broker import history
from objq.core import ops

EVERY_S: Final = 1.0
PRETENDED_S: Final = 60.0

answer_truly = history.History.answer


def answer(self: history.History) -> ops.RecentHistory:
    truth = answer_truly(self)
    points = truth.points
    backwards = zip(reversed(points), count(), strict=False)
    stretched = [
        structs.replace(point, at=points[-1].at - int(1000 * PRETENDED_S * n))
        for point, n in backwards
    ]
    return structs.replace(truth, every_s=PRETENDED_S, points=tuple(reversed(stretched)))


def main() -> None:
    history.EVERY_S = EVERY_S  # type: ignore[misc]  # it is final for everybody else
    history.History.answer = answer  # type: ignore[method-assign]  # as above
    execute_from_command_line()


if __name__ == "__main__":
    main()
