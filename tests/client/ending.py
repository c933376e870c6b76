"""A process that ends right after its threads were acked, with one push never answered."""

from __future__ import annotations

import contextlib
import json
import sys
import threading

from django.conf import settings

LOCATION = sys.argv[1]
settings.configure(
    SECRET_KEY="ending",
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
from objq.errors import ObjqError  # noqa: E402
from objq.store.open import open_store  # noqa: E402
from tests.client.localbroker import LocalBroker  # noqa: E402

broker = LocalBroker(open_store("objq", "queue.json")).__enter__()
client = objq.connect()
threads = [
    threading.Thread(target=client.push, args=([NewJob(id=f"job-{n}", task="shop.tasks.send")],))
    for n in range(20)
]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()


def push_in_vain() -> None:
    with contextlib.suppress(ObjqError):
        client.push([NewJob(id="never", task="shop.tasks.send")])


broker.deaf.set()
broker.heard.clear()
threading.Thread(target=push_in_vain, daemon=True).start()
broker.heard.wait(10)
print(json.dumps({"acked": len(broker.document().jobs)}))
