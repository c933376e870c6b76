"""A web process in small: threads enqueue through `django.tasks`, then read every result back.

`python -m tests.e2e.pusher COUNT CLIENTS` prints one JSON object: the ids, the results, the calls
that raised, and the longest that one call took (seconds).
"""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import django

READERS = 20
RESULT_TIMEOUT_S = 120.0
POLL_S = 0.1


def main(count: int, clients: int) -> None:
    django.setup()
    from tests.e2e.tasks import record  # needs the settings

    slowest_s = 0.0
    errors: list[str] = []

    def push(number: int) -> Any:
        nonlocal slowest_s
        began = time.monotonic()
        try:
            return record.enqueue(number)
        except Exception as error:  # counted and shown, whatever it is
            errors.append(f"{number}: {error!r}")
            return None
        finally:
            slowest_s = max(slowest_s, time.monotonic() - began)

    def wait(result: Any) -> Any:
        deadline = time.monotonic() + RESULT_TIMEOUT_S
        while time.monotonic() < deadline:
            result.refresh()
            if result.is_finished:
                return result.return_value if result.status.name == "SUCCESSFUL" else result.errors
            time.sleep(POLL_S)  # django.tasks offers no event to wait for
        return f"still {result.status.name}"

    with ThreadPoolExecutor(clients) as pool:
        results = list(pool.map(push, range(count)))
        print("pushed", file=sys.stderr, flush=True)
    with ThreadPoolExecutor(READERS) as pool:
        values = list(pool.map(lambda result: result and wait(result), results))
    report = {
        "ids": [result.id for result in results if result],
        "values": values,
        "errors": errors,
        "slowest_s": round(slowest_s, 3),
    }
    print(json.dumps(report, default=repr))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
