"""A process that pushes, forks, and pushes in both: run by a test, prints what the broker saw."""

from __future__ import annotations

import json
import os
import sys
import warnings

from django.conf import settings

LOCATION = sys.argv[1]
settings.configure(
    SECRET_KEY="forking",
    STORAGES={
        "objq": {
            "BACKEND": "django.core.files.storage.FileSystemStorage",
            "OPTIONS": {"location": LOCATION},
        }
    },
    TASKS={
        "default": {"BACKEND": "objq.backend.ObjqBackend", "OPTIONS": {"STORAGE": "objq"}},
    },
)

import objq  # noqa: E402
from objq.core.ops import NewJob  # noqa: E402
from objq.store.open import open_store  # noqa: E402
from tests.client.localbroker import LocalBroker  # noqa: E402


def push(name: str) -> None:
    objq.connect().push([NewJob(id=name, task="shop.tasks.send")])


def main() -> None:
    broker = LocalBroker(open_store("objq", "queue.json")).__enter__()
    push("before")
    with warnings.catch_warnings():
        # Python warns of forks beside threads; servers that fork their workers do it all the same.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        push("child")
        sys.exit(0)  # and not os._exit: the child tidies up like any process
    _, status = os.waitpid(child, 0)
    push("after")
    print(
        json.dumps(
            {
                "prefixes": [push.request.partition(":")[0] for push in broker.pushes],
                "jobs": list(broker.document().jobs),
                "connections": broker.connections,
                "child_status": status,
            }
        )
    )


main()
